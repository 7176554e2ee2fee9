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

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.journal.journal_block import HandedOut
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.loop.turns import SHARE_SECONDS, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import load_first_kept
from routelog.log_backend.upkeep import checkpoints
from routelog.log_backend.upkeep.checkpoints import Checkpoints
from routelog.log_backend.upkeep.partition_snapshot import Snapshot, snapshot


class HastyClock(SystemClock):
    """Every look at it takes longer than a share."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.looks * 2 * SHARE_SECONDS


class StoppedClock(SystemClock):
    def monotonic(self) -> float:
        return 0.0


async def turns_taken(clock: SystemClock) -> list[str]:
    seen: list[str] = []

    async def other() -> None:
        while len(seen) < 12:
            seen.append("other")
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    async for item in in_turns("abc", clock):
        seen.append(item)
    task.cancel()
    return seen


async def test_others_have_their_turn_when_a_share_is_used_up() -> None:
    assert await turns_taken(HastyClock()) == ["a", "other", "b", "other", "c", "other"]
    assert await turns_taken(StoppedClock()) == ["a", "b", "c"]


def after_first_turn(do: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(do)


def hasty(store: LogStore) -> Checkpoints:
    store.clock = store.checkpoints._clock = HastyClock()
    return store.checkpoints


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
    await hasty(store).flush()
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
        monkeypatch.undo()
        after_first_turn(settle)
        return snapshot(partition)

    monkeypatch.setattr(checkpoints, "snapshot", seen)
    await hasty(store).take()
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
    await hasty(store).flush()
    await flushed(store)
    assert [partition.unflushed_bytes for partition in partitions] == [0, 0]
    for partition in partitions:
        assert await unsettled(partition) == numbered(0, 1)
    await store.aclose()
