"""A log store on a directory, opened as the broker opens it, and read to its end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.waiting import WAIT_SECONDS
from unit.log_backend.log_records import records

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.cursor import NO_CURSORS
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.segments.retention import Retention

Bodies = list[tuple[int, bytes]]

MIB = 1024 * 1024
SMALL = LogOptions(
    journal_file_bytes=MIB,
    journal_files_max=4,
    segment_bytes=64 * 1024,
    memory_tail_bytes=64 * 1024,
    flush_seconds=0.02,
)
COPIES_MAX = 20  # a rename is rare: the second copy is nearly always whole
# Nothing happens by itself: no flush by time, no eviction, no full journal file.
QUIET = LogOptions(journal_file_bytes=MIB, flush_seconds=3600)


def open_store(data: Path, options: LogOptions = QUIET, disk: Disk | None = None) -> LogStore:
    """A store that has not recovered yet."""
    loop = asyncio.get_running_loop()
    return LogStore(data, disk or SystemDisk(), SystemClock(), loop, options)


def start_store(
    data: Path,
    *,
    options: LogOptions = QUIET,
    disk: Disk | None = None,
    queues: Sequence[str] = ("q",),
    epoch: int = 1,
    retention: Retention | None = None,
    compression: str | None = None,
    cursors: Mapping[int, int] = NO_CURSORS,
    durabilities: Sequence[Durability] = (),
) -> tuple[LogStore, list[PartitionLog]]:
    """A store that accepts appends, with a durable partition a queue, numbered from 1.

    Args:
        durabilities: of the queues, if it is not DISK for all.
    """
    store = open_store(data, options, disk)
    levels = durabilities or [Durability.DISK] * len(queues)
    partitions = [
        store.open_partition(
            number,
            "/",
            queue,
            0,
            durable=True,
            durability=level,
            retention=retention,
            compression=compression,
            cursors=cursors,
        )
        for number, (queue, level) in enumerate(zip(queues, levels, strict=True), 1)
    ]
    store.recover()
    store.start(epoch)
    return store, partitions


async def durable(store: LogStore, position: int) -> None:
    """Wait until the journal has reached a position."""
    async with asyncio.timeout(WAIT_SECONDS):
        while store.journal.durable < position:
            if store.journal.failure is not None:
                raise store.journal.failure
            await asyncio.sleep(0.001)


async def flushed(store: LogStore) -> None:
    """Have all that was appended so far in segments: the journal has it first."""
    async with asyncio.timeout(WAIT_SECONDS):
        await store.journal.drain()
    await store.checkpoints.flush()


async def unsettled(partition: PartitionLog) -> Bodies:
    """Offset and body of every record that the queue's cursor has not settled, from the log."""
    cursor = partition.open_cursor()
    found = []
    offset = cursor.settled.unsettled_from(cursor.low_water)
    while offset < partition.next_offset:
        batch = partition.read(offset)
        if batch is None:
            assert partition.needs_load(offset), f"{offset} of {partition.next_offset} is nowhere"
            await _load(partition, offset)
            continue
        if batch.base_offset > offset:
            # Settled before it was written, and the settlement did not survive.
            offset = cursor.settled.unsettled_from(batch.base_offset)
            continue
        found.append((offset, batch.records.body(offset - batch.base_offset)))
        offset = cursor.settled.unsettled_from(offset + 1)
    return found


async def _load(partition: PartitionLog, offset: int) -> None:
    loaded = asyncio.Event()
    partition.load(offset, loaded.set)
    async with asyncio.timeout(WAIT_SECONDS):
        await loaded.wait()


def numbered(*numbers: int) -> Bodies:
    """Offsets and bodies of records that `append` made."""
    return [(number, b"%d" % number) for number in numbers]


def append(partition: PartitionLog, count: int = 1, *, persistent: bool = True) -> int:
    """Append records whose bodies are their offsets; the journal position of the batch."""
    first = partition.next_offset
    bodies = [b"%d" % offset for offset in range(first, first + count)]
    return partition.append(records(bodies, persistent=persistent), waited=True)


async def crash(store: LogStore, data: Path, name: str = "crashed") -> Path:
    """What a process that is killed at this moment leaves."""
    await asyncio.gather(*store._background.tasks)
    for executor in (store.journal.supply._executor, store._flusher):
        # No file is renamed while it is copied.
        await asyncio.get_running_loop().run_in_executor(executor, str)
    return copy_of(data, data.parent / name)


def copy_of(data: Path, target: Path) -> Path:
    """Copy a data directory whose journal may be preparing a file: that one is not needed."""
    for _ in range(COPIES_MAX):
        try:
            return shutil.copytree(data, target, ignore=shutil.ignore_patterns("*.new"))
        except shutil.Error:  # a file was renamed meanwhile
            shutil.rmtree(target)
    raise AssertionError(f"{data} is never quiet")


async def content(data: Path, queues: Sequence[str] = ("q",)) -> Bodies:
    """What a store finds in a directory, in the first of its queues."""
    store, partitions = start_store(data, epoch=9, queues=queues)
    found = await unsettled(partitions[0])
    await store.aclose()
    return found


async def fill_journal_file(store: LogStore, partition: PartitionLog) -> None:
    """Append until the journal has begun another file."""
    for _ in range(2):
        position = partition.append(records([b"x" * (MIB // 2)]), waited=True)
        await durable(store, position)
