"""What one flush writes, planned in turns of the loop."""

import asyncio
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    append,
    content,
    crash,
    durable,
    fill_journal_file,
    flushed,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.doors.ballast import METADATA_BYTES
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.loop.scheduler import Scheduler
from routelog.log_backend.partitions import partition_log
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep import checkpoints
from routelog.log_backend.upkeep import flush_plan as rounds
from routelog.log_backend.upkeep.flush_plan import FlushPlan, flush_round

CAPACITY = 64 * MIB
OPTIONS = LogOptions(
    journal_file_bytes=MIB, journal_files_max=3, segment_bytes=64 * 1024, flush_seconds=3600
)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_many_batches_are_planned_in_turns_and_what_comes_meanwhile_is_for_another_flush(
    data: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    monkeypatch.setattr(partition_log, "FLUSHED_MAX", 2)
    monkeypatch.setattr(Scheduler, "is_over", lambda self: True)
    options = LogOptions(flush_seconds=3600, segment_bytes=1_000)
    store, (partition,) = start_store(data, options=options)
    bodies = [bytes([number]) * 300 for number in range(7)]
    for body in bodies:
        position = partition.append(records([body]), waited=True)
    await durable(store, position)
    planned: list[int] = []

    def turn() -> None:
        planned.append(sum(len(write.batches) for _, each in plan.partitions for write in each))
        if len(planned) == 1:
            partition.append(records([b"meanwhile"]), waited=True)
        asyncio.get_running_loop().call_soon(turn)

    plan = FlushPlan()
    asyncio.get_running_loop().call_soon(turn)
    await plan.add(partition)
    assert [count for count, _ in groupby(planned)][:4] == [2, 4, 6, 7]
    assert len(partition.segments) > 1
    assert partition.unflushed_bytes == records([b"meanwhile"]).batch_bytes
    if is_refused:
        plan.refused()
        assert partition.segments == []
    else:
        plan.write(store.checkpoints._writer, store.space)
        partition.flushed()
    await flushed(store)
    assert partition.unflushed_bytes == 0
    await store.aclose()
    assert await content(data) == list(enumerate([*bodies, b"meanwhile"]))


async def test_nothing_more_is_planned_of_a_queue_that_is_deleted_meanwhile(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_log, "FLUSHED_MAX", 2)
    store, (partition,) = start_store(data, options=LogOptions(flush_seconds=3600))
    for _ in range(7):
        position = partition.append(records([b"x"]), waited=True)
    await durable(store, position)
    steps = partition.plan_flush()
    assert [write.batches[0].records.count for write in next(steps)] == [2]
    partition.close()
    assert list(steps) == []
    await store.aclose()


async def test_a_flush_writes_the_partitions_that_there_is_room_for(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    store, (large, small, other) = start_store(
        data, options=OPTIONS, disk=disk, queues=("large", "small", "other")
    )
    for partition, size in ((large, 400_000), (small, 1_000), (other, 2_000)):
        await durable(store, partition.append(records([b"x" * size]), waited=True))
    await until(lambda: store.journal.supply.ready and not store.journal.supply.making)
    disk.others = disk.free_bytes(data) - METADATA_BYTES - 100_000
    await store.checkpoints.flush()
    assert [each.unflushed_bytes > 0 for each in (large, small, other)] == [True, False, False]
    assert store.pressures.reasons == {"disk"}
    left = await crash(store, data)
    assert [len(body) for _, body in await content(left, ("large", "small", "other"))] == [400_000]
    disk.others = 0
    await until(lambda: not store.pressures.reasons)
    assert large.unflushed_bytes == 0
    await store.aclose()


async def test_a_checkpoint_that_could_write_a_part_keeps_its_journal_file(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    store, (large, small) = start_store(data, options=OPTIONS, disk=disk, queues=("large", "small"))
    await durable(store, append(small))
    await until(lambda: store.journal.supply.ready and not store.journal.supply.making)
    disk.others = disk.free_bytes(data) - METADATA_BYTES - 100_000
    await fill_journal_file(store, large)
    await until(lambda: store.pressures.reasons)
    await until(lambda: small.unflushed_bytes == 0)
    assert not recycled(disk)
    left = await crash(store, data)
    assert len(await content(left, ("large", "small"))) == 2
    disk.others = 0
    await until(lambda: recycled(disk) and not store.pressures.reasons)
    await store.aclose()


SIZES = (10, 5_000, 20, 90_000, 30, 40, 2_000, 50)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is of four partitions."""
    monkeypatch.setattr(rounds, "PARTITIONS_MAX", 4)
    monkeypatch.setattr(checkpoints, "PARTITIONS_MAX", 4)


async def filled(data: Path) -> tuple[LogStore, list[PartitionLog]]:
    """A partition for each of SIZES, with a record of it in no segment."""
    queues = [f"q{number}" for number in range(len(SIZES))]
    options = LogOptions(flush_seconds=3600)
    store, partitions = start_store(data, queues=queues, options=options)
    for partition, size in zip(partitions, SIZES, strict=True):
        position = partition.append(records([bytes(size)]), waited=True)
    await durable(store, position)
    return store, partitions


async def test_the_largest_have_half_of_a_round_and_any_others_the_rest(data: Path) -> None:
    store, partitions = await filled(data)
    chosen = await flush_round(partitions)
    assert chosen == [partitions[at] for at in (3, 1, 0, 2)]
    assert await flush_round(partitions[:4]) == partitions[:4]
    await store.aclose()


async def test_so_many_bytes_are_enough_of_the_largest(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "BYTES_MAX", 80_000)
    store, partitions = await filled(data)
    chosen = await flush_round(partitions)
    assert chosen == [partitions[at] for at in (3, 0, 1, 2)]
    await store.aclose()


async def test_a_flush_has_as_many_rounds_as_it_takes_and_memory_is_free_behind_each(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, partitions = await filled(data)
    unflushed: list[list[int]] = []
    evict = store.checkpoints._evict

    async def watch() -> None:
        unflushed.append([at for at, each in enumerate(partitions) if each.unflushed_bytes])
        await evict()

    monkeypatch.setattr(store.checkpoints, "_evict", watch)
    await flushed(store)
    assert [len(each) for each in unflushed] == [4, 0]
    assert 3 not in unflushed[0]
    await store.aclose()
    queues = [f"q{number}" for number in range(len(SIZES))]
    assert await content(data, queues) == [(0, bytes(SIZES[0]))]


async def test_who_grows_during_a_flush_asks_for_one_more_only(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LogOptions(flush_seconds=3600, memory_tail_bytes=1_000)
    store, (partition,) = start_store(data, options=options)
    flushes: list[object] = []
    flush = store.checkpoints.flush

    async def count() -> None:
        flushes.append(None)
        await flush()

    monkeypatch.setattr(store.checkpoints, "flush", count)
    async with store.checkpoints.lock:  # as of one that is under way
        for _ in range(50):
            partition.append(records([bytes(500)]))
            await asyncio.sleep(0)
        assert len(flushes) == 1
    await store.aclose()


async def test_a_flush_ends_though_a_transaction_keeps_all_of_them_back(data: Path) -> None:
    queues = [f"q{number}" for number in range(len(SIZES))]
    store, partitions = start_store(data, queues=queues, options=LogOptions(flush_seconds=3600))
    transaction = store.transaction()
    for partition in partitions:
        transaction.append(partial(partition.append, records([b"x"])))
    transaction.pause()
    async with asyncio.timeout(60):
        await store.checkpoints.flush()
    assert all(partition.unflushed_bytes for partition in partitions)
    transaction.end()
    while transaction.show_some():
        pass
    await durable(store, transaction.position)
    await flushed(store)
    assert not any(partition.unflushed_bytes for partition in partitions)
    await store.aclose()


async def test_a_checkpoint_writes_all_of_them_at_once(data: Path) -> None:
    store, partitions = await filled(data)
    await store.aclose()
    store, partitions = start_store(data, queues=[f"q{n}" for n in range(len(SIZES))], epoch=2)
    assert [each.segments[-1].written_end for each in partitions] == [1] * len(SIZES)
    await store.aclose()
