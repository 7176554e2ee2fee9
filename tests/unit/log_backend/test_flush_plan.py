"""What one flush writes, planned in turns of the loop."""

import asyncio
from pathlib import Path

import pytest
from unit.log_backend.log_records import records
from unit.log_backend.open_store import content, durable, flushed, start_store
from unit.log_backend.test_eviction import HastyClock

from log_backend import partition_log
from log_backend.flush_plan import FlushPlan
from log_backend.log_options import LogOptions


@pytest.mark.parametrize("is_refused", [False, True])
async def test_many_batches_are_planned_in_turns_and_what_comes_meanwhile_is_for_another_flush(
    data: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    monkeypatch.setattr(partition_log, "FLUSHED_MAX", 2)
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
    await plan.add(partition, HastyClock())
    assert planned[:4] == [2, 4, 6, 7]
    assert len(partition.segments) > 1
    assert partition.unflushed_bytes == records([b"meanwhile"]).batch_bytes
    if is_refused:
        plan.refused()
        assert partition.segments == []
    else:
        plan.write(store._writer, lambda size: None)
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
    assert [len(write.batches) for write in next(steps)] == [2]
    partition.close()
    assert list(steps) == []
    await store.aclose()
