"""A call that is due after a while: when it rings, and how many timers that takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from routelog.log_backend.loop.deadline import Deadline


class Loop:
    """A loop of which only the timers are used."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []
        self.made = 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.made += 1
        self.timers.append(Timer(self, self.now + seconds, call))
        return self.timers[-1]

    def run_until(self, moment: float) -> None:
        while self.timers and min(timer.at for timer in self.timers) <= moment:
            timer = min(self.timers, key=lambda each: each.at)
            self.timers.remove(timer)
            self.now = timer.at
            timer.call()
        self.now = moment


class Timer:
    def __init__(self, loop: Loop, at: float, call: Callable[[], None]) -> None:
        self.loop, self.at, self.call = loop, at, call

    def cancel(self) -> None:
        self.loop.timers.remove(self)


def deadline() -> tuple[Deadline, Loop, list[float]]:
    loop, calls = Loop(), list[float]()
    return Deadline(cast(Any, loop), 10, lambda: calls.append(loop.now)), loop, calls


def test_it_calls_once_the_time_after_it_was_first_set() -> None:
    due, loop, calls = deadline()
    due.set()
    loop.run_until(105)
    due.set()
    loop.run_until(200)
    assert calls == [pytest.approx(110)]
    assert not loop.timers


def test_what_is_set_again_after_a_clear_has_its_whole_time() -> None:
    due, loop, calls = deadline()
    due.set()
    loop.run_until(104)
    due.clear()
    due.set()
    loop.run_until(200)
    assert calls == [pytest.approx(114)]


def test_what_is_cleared_is_not_called_and_leaves_no_timer_behind() -> None:
    due, loop, calls = deadline()
    due.set()
    due.clear()
    loop.run_until(200)
    assert (calls, loop.timers) == ([], [])
    due.set()
    loop.run_until(300)
    assert calls == [pytest.approx(210)]


def test_a_thousand_settings_take_a_few_timers() -> None:
    due, loop, calls = deadline()
    for moment in range(1_000):
        due.set()
        loop.run_until(100 + moment / 50)
        due.clear()
    assert (calls, loop.made) == ([], 3)


def test_what_is_stopped_never_calls() -> None:
    due, loop, calls = deadline()
    due.set()
    due.stop()
    loop.run_until(200)
    assert (calls, loop.timers) == ([], [])


def test_it_may_be_set_by_its_own_call() -> None:
    loop, calls = Loop(), list[float]()

    def call() -> None:
        calls.append(loop.now)
        if len(calls) < 3:
            due.set()

    due = Deadline(cast(Any, loop), 10, call)
    due.set()
    loop.run_until(200)
    assert calls == [pytest.approx(110), pytest.approx(120), pytest.approx(130)]
