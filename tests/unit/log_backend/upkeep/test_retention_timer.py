"""Segments past their age go, although nothing happens in their partitions."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import durable, start_store

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.loop.scheduler import SHARE_SECONDS, Lane
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep.retention_timer import RetentionTimer

OFTEN = LogOptions(
    journal_file_bytes=1024 * 1024,
    segment_bytes=4_096,
    flush_seconds=0.01,
    retention_seconds=0.01,
)
HOUR = 3_600_000_000


class Loop:
    """Calls are made when the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, call: Callable[..., None], *arguments: object) -> "Loop":
        self.calls.append((delay, lambda: call(*arguments)))
        return self

    def call_soon(self, call: Callable[[], None]) -> None:
        self.call_later(0, call)

    def cancel(self) -> None:
        self.calls.clear()

    def next(self) -> float:
        delay, call = self.calls.pop()
        call()
        return delay


class LaterClock(SystemClock):
    """That of the system, so many seconds on."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


class Partition:
    looked_at = 0

    def expire(self) -> None:
        self.looked_at += 1


class SlowPartition(Partition):
    def expire(self) -> None:
        super().expire()
        time.sleep(2 * SHARE_SECONDS[Lane.UPKEEP])


def begin_round(loop: Loop, partitions: Sequence[Partition]) -> RetentionTimer:
    timer = RetentionTimer(cast(Any, loop), 30.0, lambda partition: None)
    timer.partitions.update(cast(Any, partitions))
    timer.start()
    assert loop.next() == 30.0
    return timer


def test_a_round_looks_at_all_partitions_in_several_passes_of_the_loop() -> None:
    loop = Loop()
    partitions = [SlowPartition() for _ in range(5)]
    timer = begin_round(loop, partitions)
    passes = []
    while loop.calls[-1][0] == 0:
        before = sum(each.looked_at for each in partitions)
        loop.next()
        passes.append(sum(each.looked_at for each in partitions) - before)
    assert max(passes) == 1
    assert [each.looked_at for each in partitions] == [1] * 5
    assert [delay for delay, _ in loop.calls] == [30.0]
    timer.stop()
    assert loop.calls == []


def test_a_round_ends_when_the_timer_is_stopped() -> None:
    loop = Loop()
    partitions = [SlowPartition() for _ in range(5)]
    timer = begin_round(loop, partitions)
    loop.next()
    timer.stop()
    while loop.calls:
        loop.next()
    assert sum(each.looked_at for each in partitions) == 1


def test_a_partition_that_fails_ends_no_round(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Partition):
        directory = Path("logs/v/faulty-0")

        def expire(self) -> None:
            super().expire()
            raise RuntimeError("made to fail")

    loop = Loop()
    partitions = [Faulty(), Partition(), Faulty(), Partition()]
    begin_round(loop, partitions)
    while loop.calls[-1][0] == 0:
        loop.next()
    assert [each.looked_at for each in partitions] == [1] * 4
    assert [delay for delay, _ in loop.calls] == [30.0]
    assert "retention of logs/v/faulty-0 failed" in caplog.text


@pytest.mark.parametrize(
    "retention",
    [Retention(HOUR), Retention(is_stream=True, age_max=HOUR)],
    ids=["settled", "stream"],
)
async def test_old_segments_go_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention: Retention
) -> None:
    store, (log,) = start_store(tmp_path / "data", options=OFTEN, retention=retention)
    clock = LaterClock()
    monkeypatch.setattr(store, "clock", clock)
    now = store.now()
    for _ in range(20):
        position = log.append(records([bytes(1_000)], time=now), waited=True)
    if not retention.is_stream:
        log.open_cursor().settle(0, log.next_offset)
    await durable(store, position)
    await until(lambda: len(log.segments) > 3 and log.segments[-1].written_size)
    first = log.segments[0].path
    assert first.exists()
    clock.passed = 3_601.0
    await until(lambda: len(log.segments) <= 1)
    await until(lambda: not first.exists())
    await store.aclose()


async def test_a_partition_that_is_closed_is_looked_at_no_more(tmp_path: Path) -> None:
    store, (log,) = start_store(tmp_path / "data", options=OFTEN, retention=Retention(HOUR))
    assert log in store._retention_timer.partitions
    store.close_partitions(log)
    assert log not in store._retention_timer.partitions
    await asyncio.sleep(0)
    await store.aclose()
