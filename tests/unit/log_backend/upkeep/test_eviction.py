"""What leaves memory when there is too much of it: of the largest tails, in bounded turns."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Turns
from unit.log_backend.log_records import records
from unit.log_backend.open_store import durable, flushed, start_store
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import Buffer
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.loop import scheduler
from routelog.log_backend.loop.scheduler import Lane, Scheduler
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep import eviction
from routelog.log_backend.upkeep.eviction import FREED_AT_ONCE, GradualFree, evict
from routelog.log_backend.upkeep.flush_plan import FlushPlan


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is looked at has used up its share."""
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)


async def filled(data: Path, sizes: tuple[int, ...]) -> tuple[LogStore, list[PartitionLog]]:
    """A partition for each size, with four flushed records of it."""
    queues = [f"q{number}" for number in range(len(sizes))]
    store, partitions = start_store(data, queues=queues)
    for partition, size in zip(partitions, sizes, strict=True):
        for _ in range(4):
            position = partition.append(records([bytes(size)]), waited=True)
    await durable(store, position)
    await flushed(store)
    return store, partitions


def in_memory(partitions: list[PartitionLog]) -> list[bool]:
    return [partition.tail_bytes() > 0 for partition in partitions]


async def test_the_largest_tails_go_first_and_no_more_than_is_asked_for(data: Path) -> None:
    store, partitions = await filled(data, (100, 90_000, 2_000, 20_000))
    before = store.intake.tail_bytes
    await evict(partitions, 4 * 90_000 + 1)
    assert in_memory(partitions) == [True, False, True, True]
    assert store.intake.tail_bytes == sum(each.tail_bytes() for each in partitions)
    assert before - store.intake.tail_bytes < 4 * 90_000 + 30_000
    await evict(partitions, 10**9)
    assert in_memory(partitions) == [False] * 4
    assert store.intake.tail_bytes == 0
    await store.aclose()


async def test_others_have_their_turns_and_what_they_let_go_is_counted_once(
    data: Path, hasty: None
) -> None:
    store, partitions = await filled(data, (1_000,) * 6)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns <= len(partitions):
            partitions[-turns].open_cursor().settle(0, 4)
            partitions[-turns].release()
        asyncio.get_running_loop().call_soon(turn)

    asyncio.get_running_loop().call_soon(turn)
    await evict(partitions, 10**9)
    assert turns >= len(partitions)
    assert in_memory(partitions) == [False] * 6
    assert store.intake.tail_bytes == 0
    await store.aclose()


async def test_what_a_flush_has_written_is_promised_no_more(data: Path) -> None:
    disk = WatchedDisk()
    store, partitions = start_store(data, disk=disk, queues=("a", "b"))
    for partition in partitions:
        position = partition.append(records([bytes(3_000)]), waited=True)
    await durable(store, position)
    both = store.checkpoints.unflushed_bytes
    plan = FlushPlan()
    for partition in partitions:
        await plan.add(partition)
    seen: list[int] = []
    write = disk.write

    def watched(file: int, position: int, buffers: Sequence[Buffer]) -> int:
        seen.append(plan.unwritten_bytes)
        return write(file, position, buffers)

    disk.write = watched  # type: ignore[method-assign]
    plan.write(store.checkpoints._writer, store.space)
    first, second = (partition.segments[-1].size for partition in partitions)
    assert both >= first + second
    assert sorted(set(seen)) == [second, first + second]
    assert plan.unwritten_bytes == 0
    await store.aclose()


async def test_what_is_in_no_segment_is_counted_as_it_comes_and_goes(data: Path) -> None:
    store, partitions = start_store(data, queues=("a", "b", "c"))
    transient = store.open_partition(9, "/", "transient", 0, durable=False)
    transient.append(records([bytes(5_000)]))

    def counted() -> bool:
        return store.intake.unflushed_bytes == sum(each.unflushed_bytes for each in partitions)

    for partition in partitions:
        position = partition.append(records([bytes(3_000)]), waited=True)
        partition.append(records([bytes(200)]))
    assert store.intake.unflushed_bytes > 9_600
    assert counted()
    partitions[0].open_cursor().settle(0, 1)
    partitions[0].release()
    assert counted()
    await durable(store, position)
    store.journal.hold()
    partitions[1].append(records([bytes(100)]))
    await store.checkpoints.flush()
    assert store.intake.unflushed_bytes == partitions[1].unflushed_bytes > 0
    partitions[2].append(records([bytes(100)]))
    assert counted()
    for partition in (partitions[1], partitions[2]):
        store.close_partitions(partition)
    assert store.intake.unflushed_bytes == 0
    store.journal.let_go()
    await store.aclose()


async def test_one_large_tail_leaves_memory_in_turns(
    data: Path, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, partitions = await filled(data, (1_000,))
    size = partitions[0].tail_bytes() // 4
    monkeypatch.setattr(eviction, "PIECE_BYTES", size)
    left: list[int] = []

    def turn() -> None:
        left.append(partitions[0].tail_bytes() // size)
        asyncio.get_running_loop().call_soon(turn)

    asyncio.get_running_loop().call_soon(turn)
    await evict(partitions, 3 * size)
    assert left == sorted(left, reverse=True)
    assert {3, 2, 1} <= set(left)
    assert partitions[0].tail_bytes() == size
    await store.aclose()


def test_each_turn_frees_some_until_all_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scheduler.SHARE_SECONDS, Lane.UPKEEP, 0.000001)  # for one step
    turns = Turns()
    turns.clock.look_microseconds = 10
    gradual = GradualFree(turns.scheduler)
    some = FREED_AT_ONCE
    gone: list[list[Any]] = [[None] * some, [None] * (some + 1), [None] * 5, []]
    for each in gone:
        gradual.add(each)
    left = [sum(map(len, gone))]
    while turns.one():
        left.append(sum(map(len, gone)))
    assert sorted(set(left), reverse=True) == [2 * some + 6, some + 6, 6, 0]
    gradual.add(last := [None])
    turns.run()
    assert not last


def test_a_pass_that_has_time_frees_all() -> None:
    turns = Turns()
    gradual = GradualFree(turns.scheduler)
    gone: list[Any] = [None] * (3 * FREED_AT_ONCE)
    gradual.add(gone)
    turns.one()
    assert not gone
