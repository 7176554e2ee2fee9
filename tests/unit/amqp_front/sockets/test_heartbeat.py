"""Heartbeats on a clock that is turned by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from support.loop_services import scheduler_on

from routelog.amqp_front.sockets.heartbeat import Heartbeat, HeartbeatWheel
from routelog.log_backend import Lane, SystemClock
from routelog.log_backend.loop.scheduler import SHARE_SECONDS


class HeartClock(SystemClock):
    """Each look at it takes a fifth of what heartbeats have in a pass of the loop."""

    def __init__(self) -> None:
        self._seconds = 100.0

    def monotonic(self) -> float:
        self._seconds += SHARE_SECONDS[Lane.UPKEEP] / 5
        return self._seconds


class Timer:
    """Stands for the event loop's timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, Callable[[], None], Handle]] = []
        self.wheel = HeartbeatWheel(cast(Any, self), scheduler_on(self, HeartClock()))

    def call_later(self, seconds: float, call: Callable[[], None]) -> Handle:
        handle = Handle()
        self._calls.append((self.now + seconds, call, handle))
        return handle

    def call_soon(self, call: Callable[[], None]) -> Handle:
        return self.call_later(0, call)

    @property
    def waits(self) -> bool:
        """Whether anything is to happen at all."""
        return bool(self._calls)

    def run_until(self, end: float) -> None:
        while [c for c in self._calls if c[0] <= end and not c[2].cancelled]:
            self.run_next()
        self.now = end

    def run_next(self) -> None:
        waiting = [c for c in self._calls if not c[2].cancelled]
        at, call, handle = min(waiting, key=lambda c: c[0])
        self._calls = [c for c in self._calls if c[2] is not handle]
        self.now = at
        call()


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
        self.heartbeat = Heartbeat(interval, self)
        timer.wheel.add(self.heartbeat)

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


def test_hearts_that_begin_at_any_time_share_one_timer() -> None:
    timer = Timer()
    owners = []
    for tenth in range(30):
        timer.run_until(tenth / 10)
        owners.append(Owner(timer, 2))
    assert len(timer._calls) == 1
    timer.run_until(10)
    for tenth, owner in enumerate(owners):
        first, second = owner.sent_at[:2]
        assert 0.5 <= first - tenth / 10 <= 1
        assert second - first == 1


def test_more_hearts_than_a_pass_has_time_for_beat_in_several() -> None:
    timer = Timer()
    owners = [Owner(timer, 2) for _ in range(30)]
    timer.run_until(0.9)
    beaten = [0]
    while beaten[-1] < len(owners):
        timer.run_next()
        beaten.append(sum(len(owner.sent_at) for owner in owners))
    assert max(after - before for before, after in pairwise(beaten)) <= 5
    assert [owner.sent_at for owner in owners] == [[1]] * len(owners)


def test_nothing_is_waited_for_when_nobody_is_there() -> None:
    timer, owner = silent(2)
    timer.run_until(5)
    owner.heartbeat.stop()
    timer.run_until(10)
    assert not timer.waits
    assert Owner(timer, 2) is not None
    assert timer.waits
