"""Heartbeats on a clock that is turned by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from amqp_front.heartbeat import Heartbeat


class Timer:
    """Stands for the event loop's timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, Callable[[], None], Handle]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Handle:
        handle = Handle()
        self._calls.append((self.now + seconds, call, handle))
        return handle

    def run_until(self, end: float) -> None:
        while due := [c for c in self._calls if c[0] <= end and not c[2].cancelled]:
            at, call, handle = min(due, key=lambda c: c[0])
            self._calls = [c for c in self._calls if c[2] is not handle]
            self.now = at
            call()
        self.now = end


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Owner:
    def __init__(self, timer: Timer, interval: int) -> None:
        self._timer = timer
        self.sent_at: list[float] = []
        self.missed_at: list[float] = []
        self.heartbeat = Heartbeat(cast(Any, timer), interval, self)

    def send_heartbeat(self) -> None:
        self.sent_at.append(self._timer.now)
        self.heartbeat.sent = True

    def missed_heartbeats(self) -> None:
        self.missed_at.append(self._timer.now)
        self.heartbeat.stop()


def silent(interval: int) -> tuple[Timer, Owner]:
    timer = Timer()
    return timer, Owner(timer, interval)


def test_heartbeats_go_out_twice_in_an_interval_while_nothing_else_does() -> None:
    timer, owner = silent(10)
    timer.run_until(20)
    assert owner.sent_at == [5, 10, 15, 20]


def test_no_heartbeat_goes_out_when_something_else_has() -> None:
    timer, owner = silent(10)
    for second in range(1, 20):
        owner.heartbeat.sent = True
        timer.run_until(second)
    assert owner.sent_at == []
    timer.run_until(29)
    assert owner.sent_at == [25]


def test_a_silent_peer_is_gone_between_two_and_three_intervals_after_its_last_byte() -> None:
    for last_byte in (0, 1, 5, 9, 10, 14):
        timer, owner = silent(10)
        for second in range(last_byte + 1):
            timer.run_until(second)
            owner.heartbeat.received = True
        timer.run_until(100)
        (missed,) = owner.missed_at
        assert 20 <= missed - last_byte <= 30


def test_a_peer_that_speaks_once_in_an_interval_stays() -> None:
    timer, owner = silent(10)
    for second in range(0, 500, 10):
        timer.run_until(second)
        owner.heartbeat.received = True
    assert owner.missed_at == []


def test_nothing_happens_after_the_stop() -> None:
    timer, owner = silent(10)
    timer.run_until(12)
    owner.heartbeat.stop()
    timer.run_until(1000)
    assert owner.sent_at == [5, 10]
    assert owner.missed_at == []
