"""A data directory with all kinds of files, what is promised of it, and how it is read back."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import crash, durable, open_store, start_store

from routelog.log_backend.journal.journal_reader import JournalDamaged
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog

QUEUES = ("a", "b", "c")
OPTIONS = LogOptions(
    journal_file_bytes=160 * 1024,
    segment_bytes=64 * 1024,
    flush_seconds=3600,
    memory_tail_bytes=16 * 1024 * 1024,
    scrub_bytes_per_second=0,
)
READ_OPTIONS = LogOptions(
    journal_file_bytes=16 * 1024,
    segment_bytes=64 * 1024,
    flush_seconds=3600,
    scrub_bytes_per_second=0,
)
Messages = dict[str, dict[int, bytes]]


@dataclass
class Outcome:
    """What came of opening a directory and reading all of it.

    Attributes:
        refused: the start was refused.
        reports: warnings and errors of the log, the refusal included.
        quarantined: queues that said that they do not hand out all.
    """

    messages: Messages = field(default_factory=dict)
    refused: bool = False
    reports: list[str] = field(default_factory=list)
    quarantined: set[str] = field(default_factory=set)


async def build(data: Path) -> Messages:
    """About 1 MiB: sealed and active segments, index files, a journal with settlements; as a kill
    leaves it, some time after the last commit.

    Returns:
        What every read has to bring: what is durable and not settled.
    """
    store, partitions = start_store(data, options=OPTIONS, queues=QUEUES)
    promised: Messages = {queue: {} for queue in QUEUES}
    position = 0
    for turn in range(48):
        for number, (queue, partition) in enumerate(zip(QUEUES, partitions, strict=True)):
            count = 1 + (turn + number) % 4
            first = partition.next_offset
            bodies = [
                b"%s %d " % (queue.encode(), offset) * (60 * (1 + offset % 9))
                for offset in range(first, first + count)
            ]
            keys = [b"k%d" % at for at in range(count)] if turn % 3 else None
            content = records(bodies, routing_keys=keys, exchange=b"x" * (turn % 5))
            position = partition.append(content, waited=True)
            promised[queue] |= dict(enumerate(bodies, first))
            if turn % 5 == 4 and number < 2:
                settle(partition, promised[queue], first - 2, first + 1)
        await durable(store, position)
        if turn % 10 == 6:
            await store.checkpoints.flush()
        if turn == 28:
            await store.checkpoints.take()
    marked = store.journal.durable
    await until(lambda: store.journal.durable > marked)  # idle: it vouches for its last commit
    left = await crash(store, data, "built")
    await store.aclose()
    shutil.rmtree(data)
    left.rename(data)
    return promised


def settle(partition: PartitionLog, promised: dict[int, bytes], first: int, end: int) -> None:
    partition.open_cursor().settle(first, end)
    for offset in range(first, end):
        promised.pop(offset, None)


async def read_all(data: Path, caplog: pytest.LogCaptureFixture) -> Outcome:
    """Open a directory as a broker does, and read what its queues hand out, in order."""
    outcome = Outcome()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        store = open_store(data, READ_OPTIONS)
        partitions = [
            store.open_partition(number, "/", queue, 0, durable=True)
            for number, queue in enumerate(QUEUES, 1)
        ]
        try:
            store.recover()
        except JournalDamaged as error:
            outcome.refused = True
            outcome.reports.append(str(error))
            leave(store)
            return outcome
        store.start(9)
        for queue, partition in zip(QUEUES, partitions, strict=True):
            outcome.messages[queue] = await handed_out(partition)
            if partition.blocked_from < partition.next_offset:
                outcome.quarantined.add(queue)
        await store.aclose()
    outcome.reports = [record.getMessage() for record in caplog.records]
    return outcome


def leave(store: LogStore) -> None:
    """Let go of a store that could not start."""
    for executor in (store._flusher, store.reads._executor, store._journal_files):
        executor.shutdown()
    store.metadata.close()
    store._disk.close(store._lock)


async def handed_out(partition: PartitionLog) -> dict[int, bytes]:
    cursor = partition.open_cursor()
    offset = cursor.settled.unsettled_from(cursor.low_water)
    found: dict[int, bytes] = {}
    while offset < min(partition.next_offset, partition.blocked_from):
        batch = partition.read(offset)
        if batch is None:
            if not partition.needs_load(offset):
                break
            loaded = asyncio.Event()
            partition.load(offset, loaded.set)
            async with asyncio.timeout(60):
                await loaded.wait()
        elif batch.base_offset > offset:
            offset = cursor.settled.unsettled_from(batch.base_offset)
        else:
            found[offset] = batch.records.body(offset - batch.base_offset)
            offset = cursor.settled.unsettled_from(offset + 1)
    return found


def check(outcome: Outcome, promised: Messages, where: str) -> None:
    """Damage was reported, or did no harm; and no message is a wrong one."""
    if outcome.refused:
        return
    for queue in QUEUES:
        found, expected = outcome.messages[queue], promised[queue]
        wrong = [offset for offset, body in found.items() if expected.get(offset, body) != body]
        assert not wrong, f"{where}: {queue} has other bytes at {wrong}"
        strange = found.keys() - expected.keys()
        assert not strange or outcome.reports, f"{where}: {queue} has {strange} again, unreported"
        assert list(found) == sorted(found)
        missing = expected.keys() - found.keys()
        if missing:
            assert queue in outcome.quarantined or any(
                "torn" in each for each in outcome.reports
            ), f"{where}: {queue} lost {sorted(missing)[:5]} silently"
            assert outcome.reports, where
            if queue in outcome.quarantined:
                # In order up to the damage: nothing before it is skipped.
                assert not [offset for offset in missing if found and offset < max(found)], where
