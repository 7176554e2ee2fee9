"""What one flush writes, planned in turns of the loop."""

import asyncio
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
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.loop.scheduler import Scheduler
from routelog.log_backend.partitions import partition_log
from routelog.log_backend.upkeep.flush_plan import FlushPlan

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
