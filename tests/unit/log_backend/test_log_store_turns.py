"""What happens between two turns of a flush or a checkpoint."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    flushed,
    numbered,
    start_store,
    unsettled,
)

from routelog.log_backend.journal.journal_block import HandedOut
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.loop.scheduler import Scheduler
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import load_first_kept
from routelog.log_backend.upkeep import checkpoints
from routelog.log_backend.upkeep.partition_snapshot import Snapshot, snapshot


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is looked at has used up its share."""
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)


def after_first_turn(do: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(do)


async def test_what_is_closed_while_a_flush_is_planned_leaves_no_files(data: Path) -> None:
    store, partitions = start_store(data, queues=("a", "b"))
    for partition in partitions:
        await durable(store, append(partition, 3))
    before = [partition.directory.exists() for partition in partitions]

    def close() -> None:
        for partition in partitions:
            store.metadata.apply(store.close_partitions(partition))
            store.remove_files(partition)

    after_first_turn(close)
    await store.checkpoints.flush()
    left = await crash(store, data)
    await store.aclose()
    assert before == [False, False]
    for partition in partitions:
        assert not (left / partition.directory.relative_to(data)).exists()


async def test_segments_removed_while_snapshots_are_taken_are_not_said_to_be_there(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, partitions = start_store(data, queues=("a", "b"))
    for partition in partitions:
        await durable(store, append(partition, 3))

    def settle() -> None:
        for partition in partitions:
            partition.open_cursor().settle(0, partition.next_offset)
            partition.remove_settled_segments()

    def seen(partition: PartitionLog) -> Snapshot:
        after_first_turn(settle)
        return snapshot(partition)

    monkeypatch.setattr(checkpoints, "snapshot", seen)
    await store.checkpoints.take()
    await flushed(store)
    assert not any(partition.segments for partition in partitions)
    for partition in partitions:
        stored = load_first_kept(store.metadata, partition.number)
        assert stored == partition.first_kept
    # What is settled is journaled with the next commit.
    handed_out = JournalEntry(partitions[0].number, HandedOut(0, 3))
    await durable(store, store.journal.append(handed_out, waited=True))
    left = await crash(store, data)
    await store.aclose()
    again, opened = start_store(left, queues=("a", "b"), epoch=2)
    for partition in opened:
        assert not partition.damage.found
        assert await unsettled(partition) == []
    await again.aclose()


async def test_what_is_appended_while_a_flush_is_planned_is_in_the_next(data: Path) -> None:
    store, partitions = start_store(data, queues=("a", "b"))
    for partition in partitions:
        await durable(store, append(partition))

    def append_more() -> None:
        for partition in partitions:
            append(partition)

    after_first_turn(append_more)
    await store.checkpoints.flush()
    await flushed(store)
    assert [partition.unflushed_bytes for partition in partitions] == [0, 0]
    for partition in partitions:
        assert await unsettled(partition) == numbered(0, 1)
    await store.aclose()
