"""Latency counts from when a message was due; what a stall delays is charged to each message."""

import time

import pytest

from routelog.benchmarks.perf.latency import Percentiles, Schedule, Times


def test_messages_are_due_at_their_rate() -> None:
    schedule = Schedule(rate=1000.0, messages=5, skipped=0)
    assert [schedule.due(n) for n in range(3)] == [0, 1_000_000, 2_000_000]
    assert [schedule.due_by(t) for t in (-1, 0, 999_999, 1_000_000, 10**12)] == [0, 1, 1, 2, 5]


@pytest.mark.parametrize("skipped", [0, 40])
def test_a_stall_is_charged_to_every_message_that_was_due_in_it(
    skipped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100 messages, one a millisecond; all of them arrive at once when the last is due.
    schedule = Schedule(rate=1000.0, messages=100, skipped=skipped)
    times = Times(schedule, start=lambda: 5_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000 + 99_000_000)
    times.delivered(100)
    found = Percentiles.of(times.result())
    assert found.count == 100 - skipped
    assert found.max == pytest.approx((99 - skipped) / 1000, rel=0.01)
    assert found.p50 == pytest.approx((99 - skipped) / 2000, rel=0.05)


def test_each_read_counts_for_what_came_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((1_000_000, 1_500_000))
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(moments))
    times = Times(Schedule(rate=1000.0, messages=2, skipped=0), start=lambda: 0)
    times.delivered(1)
    times.delivered(2)
    found = Percentiles.of(times.result())
    assert (found.max, found.p50) == pytest.approx((0.001, 0.0005), rel=0.01)
