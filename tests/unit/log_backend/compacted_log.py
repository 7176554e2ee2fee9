"""A log that is compacted, with passes in a thread of this process: its disk may be a simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.waiting import WAIT_SECONDS, until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, flushed, open_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.compaction_pass import CompactionStep, CompactionTask, compact
from routelog.log_backend.segments.retention import Compaction, Retention
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.upkeep.compaction_process import CompactionFailed

COMPACT = Retention(is_stream=True, compaction=Compaction(deletion_age=3_600_000_000))
AT_ONCE = Retention(is_stream=True, compaction=Compaction())  # deletions go with the second pass
TINY = LogOptions(
    journal_file_bytes=MIB, segment_bytes=2_000, memory_tail_bytes=1, flush_seconds=3600
)


class UnsyncedDisk(WatchedDisk):
    """A disk whose syncs only fail or wait, for speed."""

    def sync(self, file: int) -> None:
        """See `Disk`."""
        self._pass("sync", self._paths[file])

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""
        self._pass("sync_directory", path)


class Stored(NamedTuple):
    """One record of a log."""

    offset: int
    key: bytes
    body: bytes


class PassHere:
    """A pass in a thread; see `CompactionProcess`."""

    def __init__(self, disk: Disk, task: CompactionTask) -> None:
        self._steps: Iterator[CompactionStep] = compact(disk, task, "here")

    async def step(self) -> CompactionStep:
        """See `CompactionProcess`."""
        try:
            return await asyncio.to_thread(next, self._steps)
        except (OSError, SegmentDamaged) as error:
            raise CompactionFailed(str(error)) from None

    def go_on(self) -> None:
        """See `CompactionProcess`."""

    def stop(self) -> None:
        """See `CompactionProcess`."""

    async def end(self) -> None:
        """See `CompactionProcess`."""


def compact_here(store: LogStore, disk: Disk) -> None:
    """Have a store make its passes in a thread of this process."""
    store.compactor.begin = partial(_begin, disk)


async def _begin(disk: Disk, task: CompactionTask) -> Any:
    return PassHere(disk, task)


def start_compacted(
    data: Path,
    disk: Disk,
    *,
    retention: Retention = COMPACT,
    epoch: int = 1,
    options: LogOptions = TINY,
    compression: str | None = None,
) -> tuple[LogStore, PartitionLog]:
    """A store with one log that is compacted."""
    store = open_store(data, options, disk)
    compact_here(store, disk)
    partition = store.open_partition(
        1, "/", "q", 0, durable=True, retention=retention, compression=compression
    )
    store.recover()
    store.start(epoch)
    return store, partition


def publish(partition: PartitionLog, *pairs: tuple[str, bytes]) -> list[Stored]:
    """Append one batch; what was appended."""
    first = partition.next_offset
    keys = [key.encode() for key, _ in pairs]
    bodies = [body for _, body in pairs]
    partition.append(records(bodies, routing_keys=keys), waited=True)
    stored = zip(range(first, first + len(pairs)), keys, bodies, strict=True)
    return [Stored(*each) for each in stored]


async def passed(store: LogStore) -> None:
    """Flush, and wait until nothing is compacted, compressed or removed any more."""
    await flushed(store)
    await idle(store)


async def idle(store: LogStore) -> None:
    """Nothing is compacted, compressed, flushed or removed any more."""
    await until(lambda: not store._background.tasks)
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(store._flusher, str)


async def read_from(partition: PartitionLog, offset: int) -> list[Stored]:
    """All records from an offset on, as a reader gets them."""
    found: list[Stored] = []
    while offset < partition.next_offset:
        batch = partition.read(offset)
        if batch is None:
            assert partition.needs_load(offset), f"{offset} of {partition.next_offset} is nowhere"
            loaded = asyncio.Event()
            partition.load(offset, loaded.set)
            async with asyncio.timeout(WAIT_SECONDS):
                await loaded.wait()
            continue
        first = max(offset, batch.base_offset)
        for index in range(first - batch.base_offset, batch.records.count):
            content = batch.records
            at = batch.base_offset + index
            found.append(Stored(at, content.routing_key(index), content.body(index)))
        offset = batch.end_offset
    return found


def folded(stored: Iterable[Stored]) -> dict[bytes, bytes]:
    """The last value of each key; none of one that was deleted."""
    last = {each.key: each.body for each in stored}
    return {key: body for key, body in last.items() if body}


def names(partition: PartitionLog) -> list[str]:
    """Names of the segments' files, without leading zeros."""
    found = (path.name for path in partition.directory.glob("*log"))
    return sorted(name.lstrip("0") or name for name in found)
