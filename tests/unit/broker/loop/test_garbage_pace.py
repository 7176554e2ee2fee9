"""When the garbage collector looks at the whole: when much has come, and rather when the loop is idle."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from routelog.broker.loop import garbage_pace
from routelog.broker.loop.garbage_pace import TICK_SECONDS, YOUNG_SECONDS, GarbagePace
from routelog.log_backend import SystemClock

WHOLE_MIN, WHOLE_MAX = 40_000, 200_000  # a hundredth of what they are: time


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_pace, "WHOLE_MIN", WHOLE_MIN)
    monkeypatch.setattr(garbage_pace, "WHOLE_MAX", WHOLE_MAX)
    monkeypatch.setattr(
        garbage_pace, "WHOLE_GROWTH", 0
    )  # there is much: all that tests have loaded


class Cycle:
    def __init__(self) -> None:
        self.itself = self


class Ticks(SystemClock):
    """A loop whose two timers are rung by hand, and the clock of its thread."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.timers: dict[float, Callable[[], None]] = {}
        self.cancelled = 0

    def thread_seconds(self) -> float:
        return self.busy

    def call_later(self, delay: float, call: Callable[[], None]) -> "Ticks":
        self.timers[delay] = call
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def tick(self, busy: float) -> None:
        self.busy += busy
        self.timers[TICK_SECONDS]()

    def young_tick(self) -> None:
        self.timers[YOUNG_SECONDS]()


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def pace(ticks: Ticks) -> Iterator[GarbagePace]:
    with GarbagePace(cast(asyncio.AbstractEventLoop, ticks), ticks) as pace:
        pace.begin()
        yield pace


def old_cycle() -> weakref.ref[Cycle]:
    """Garbage that was in use for so long that it counts as what stays."""
    cycle = Cycle()
    gc.collect(1)
    return weakref.ref(cycle)


def come(count: int) -> list[list[int]]:
    return [[] for _ in range(count * 5 // 4)]  # the collector is late by up to a tenth


def test_young_garbage_goes_by_itself(pace: GarbagePace) -> None:
    young = weakref.ref(Cycle())
    kept = come(20_000)
    assert young() is None
    assert len(kept) > 20_000


def test_old_garbage_waits_until_much_has_come_and_the_loop_is_idle(
    pace: GarbagePace, ticks: Ticks
) -> None:
    old = old_cycle()
    ticks.tick(busy=0)
    assert old() is not None
    kept = come(WHOLE_MIN)
    ticks.tick(busy=TICK_SECONDS / 2)
    assert old() is not None
    ticks.tick(busy=0)
    assert old() is None
    assert kept


def test_a_loop_that_the_machine_lets_wait_is_not_idle(
    pace: GarbagePace, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_pace, "WHOLE_MAX", 2**62)
    old = old_cycle()
    kept = come(max(WHOLE_MIN, garbage_pace.IDLE_CAME_MAX))
    ticks.tick(busy=0)
    assert old() is not None, "much has come, though it ran for so short a time"
    ticks.tick(busy=0)
    assert old() is None
    assert kept


def test_a_loop_that_is_never_idle_looks_when_very_much_has_come(
    pace: GarbagePace, ticks: Ticks
) -> None:
    old = old_cycle()
    kept = come(WHOLE_MAX)
    ticks.tick(busy=TICK_SECONDS)
    assert old() is None
    assert kept


def test_nothing_is_looked_for_while_there_is_not_much_more(
    pace: GarbagePace, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = old_cycle()
    monkeypatch.setattr(garbage_pace, "WHOLE_GROWTH", 1 + 2 * WHOLE_MAX / gc.get_freeze_count())
    for _ in range(3):
        assert come(WHOLE_MAX), "it goes at once"
        ticks.tick(busy=TICK_SECONDS)
        assert old() is not None
    kept = [come(WHOLE_MAX)]
    ticks.tick(busy=TICK_SECONDS)
    assert old() is not None
    kept.append(come(WHOLE_MAX))
    ticks.tick(busy=TICK_SECONDS)
    assert old() is None
    assert kept


def test_what_went_is_not_expected_back(
    pace: GarbagePace, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    much = come(3 * WHOLE_MAX)
    pace.look_at_whole()
    monkeypatch.setattr(garbage_pace, "WHOLE_GROWTH", 1 + WHOLE_MAX / gc.get_freeze_count())
    much.clear()
    kept = [come(WHOLE_MAX)]
    ticks.tick(busy=TICK_SECONDS)
    old = old_cycle()
    kept.append(come(2 * WHOLE_MAX))
    ticks.tick(busy=TICK_SECONDS)
    assert old() is None
    assert kept


def test_young_garbage_goes_by_the_clock_while_as_much_is_freed_as_comes(
    pace: GarbagePace, ticks: Ticks
) -> None:
    old = come(20_000)
    gc.collect(1)
    young = weakref.ref(Cycle())
    kept = []
    while old:
        old.pop()
        kept.append([0])
    assert young() is not None, "the collector looks by itself: the timer is not needed"
    ticks.young_tick()
    assert young() is None
    assert kept


def test_what_comes_slowly_counts_as_well(pace: GarbagePace, ticks: Ticks) -> None:
    old = old_cycle()
    kept = []
    for _ in range(WHOLE_MIN // 1_000):
        kept.append(come(1_000))
        ticks.young_tick()
    ticks.tick(busy=TICK_SECONDS / 2)
    ticks.tick(busy=0)
    assert old() is None
    assert kept


def test_the_collector_is_left_as_it_was_found() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    ticks = Ticks()
    with GarbagePace(cast(asyncio.AbstractEventLoop, ticks), ticks) as pace:
        assert gc.get_threshold() != before[0]
        pace.begin()
    assert (gc.get_threshold(), gc.callbacks) == before
    assert gc.get_freeze_count() == 0
    assert ticks.cancelled == 2


def test_a_start_that_fails_leaves_the_collector_as_it_was_found() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    ticks = Ticks()
    with GarbagePace(cast(asyncio.AbstractEventLoop, ticks), ticks):
        young = weakref.ref(Cycle())
        kept = come(20_000)
        assert young() is not None, "a start is not looked at"
    assert (gc.get_threshold(), gc.callbacks) == before
    assert kept
