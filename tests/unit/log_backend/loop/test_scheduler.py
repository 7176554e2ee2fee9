"""The scheduler on a loop and with a clock of the test's own: who goes on in which pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.loop.scheduler import (
    READ_SECONDS,
    SHARE_SECONDS,
    Lane,
    Scheduler,
    in_turns,
    pause,
    scheduler_of,
)


class Time(SystemClock):
    """A clock that only steps move."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


class Passes:
    """A loop of which only passes and futures are used."""

    def __init__(self) -> None:
        self.time = Time()
        self.calls: list[Callable[[], None]] = []
        self.futures = asyncio.new_event_loop()
        self.scheduler = Scheduler(cast(Any, self), self.time)
        self.seen: list[str] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def create_future(self) -> asyncio.Future[None]:
        return self.futures.create_future()

    def step(self, name: str, seconds: float, times: int = 1) -> Callable[[], bool]:
        """A step that takes so long, and wants to go on until it was called so often."""
        left = times

        def work() -> bool:
            nonlocal left
            self.seen.append(name)
            self.time.seconds += seconds
            left -= 1
            return left > 0

        return work

    def pass_(self) -> str:
        """One pass of the loop; returns who went on in it."""
        self.seen.clear()
        calls, self.calls = self.calls, []
        assert len(calls) <= 1
        for call in calls:
            call()
        return " ".join(self.seen)


@pytest.fixture
def loop() -> Iterator[Passes]:
    passes = Passes()
    yield passes
    passes.futures.close()


def test_nothing_is_scheduled_when_nothing_waits(loop: Passes) -> None:
    loop.scheduler.call(Lane.JOBS, loop.step("a", 0))
    assert [loop.pass_(), len(loop.calls)] == ["a", 0]


def test_a_lane_goes_on_while_its_share_lasts(loop: Passes) -> None:
    third = SHARE_SECONDS[Lane.JOBS] * 0.34
    loop.scheduler.call(Lane.JOBS, loop.step("a", third, times=4))
    loop.scheduler.call(Lane.JOBS, loop.step("b", third))
    assert loop.pass_() == "a b a"
    assert loop.pass_() == "a a"
    assert not loop.calls


def test_what_was_taken_too_much_comes_off_the_next_shares(loop: Passes) -> None:
    loop.scheduler.call(Lane.UPKEEP, loop.step("long", 2.5 * SHARE_SECONDS[Lane.UPKEEP], times=2))
    assert [loop.pass_() for _ in range(4)] == ["long", "", "long", ""]


def test_an_unused_share_is_not_saved_up(loop: Passes) -> None:
    share = SHARE_SECONDS[Lane.JOBS]
    for _ in range(5):
        loop.scheduler.call(Lane.JOBS, loop.step("short", 0))
        loop.pass_()
    loop.scheduler.call(Lane.JOBS, loop.step("a", share * 0.51, times=9))
    assert loop.pass_() == "a a"


def test_what_a_step_asks_for_has_its_turn_in_the_next_pass(loop: Passes) -> None:
    def begin() -> None:
        loop.scheduler.call(Lane.JOBS, loop.step("asked for", 0))

    loop.scheduler.call(Lane.JOBS, begin)
    assert [loop.pass_(), loop.pass_()] == ["", "asked for"]


def test_fresh_deliveries_are_not_throttled(loop: Passes) -> None:
    for name in "abc":
        loop.scheduler.call(Lane.FRESH, loop.step(name, 1.0))
    loop.scheduler.call(Lane.JOBS, loop.step("job", 0))
    assert loop.pass_() == "a b c job"


def test_a_backlog_goes_first_and_leaves_fresh_deliveries_the_rest_of_its_share(
    loop: Passes,
) -> None:
    over: list[bool] = []

    def fresh() -> None:
        loop.seen.append("fresh")
        over.append(loop.scheduler.is_over())

    loop.scheduler.call(Lane.FRESH, fresh)
    loop.scheduler.call(Lane.BACKLOG, loop.step("waited", SHARE_SECONDS[Lane.BACKLOG] / 2))
    assert loop.pass_() == "waited fresh"
    loop.scheduler.call(Lane.FRESH, fresh)
    loop.scheduler.call(Lane.BACKLOG, loop.step("waited", SHARE_SECONDS[Lane.BACKLOG]))
    assert loop.pass_() == "waited fresh"
    assert over == [False, True]


def test_a_step_that_is_to_return_early_shortens_no_other(loop: Passes) -> None:
    over: list[bool] = []

    def short() -> None:
        before = loop.scheduler.shorten(0.000_05)
        assert before - loop.scheduler.deadline > 0.000_5
        assert loop.scheduler.shorten(1.0) == loop.scheduler.deadline
        loop.time.seconds += 0.000_06
        over.append(loop.scheduler.is_over())

    for lane in (Lane.FRESH, Lane.BACKLOG):
        for step in (short, lambda: over.append(loop.scheduler.is_over())):
            loop.scheduler.call(lane, step)
    loop.pass_()
    assert over == [True, False, True, False]


def test_a_step_knows_when_to_return(loop: Passes) -> None:
    over: list[bool] = []

    def work() -> None:
        over.append(loop.scheduler.is_over())
        loop.time.seconds += SHARE_SECONDS[Lane.JOBS]
        over.append(loop.scheduler.is_over())

    loop.scheduler.call(Lane.JOBS, work)
    loop.pass_()
    assert [*over, loop.scheduler.is_over()] == [False, True, True]


def test_an_error_of_one_step_ends_no_other(loop: Passes) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    loop.scheduler.call(Lane.JOBS, fail)
    loop.scheduler.call(Lane.JOBS, loop.step("behind", 0))
    with pytest.raises(ZeroDivisionError):
        loop.pass_()
    assert loop.pass_() == "behind"


def test_all_of_a_lane_is_done_within_what_is_around(loop: Passes) -> None:
    def around(function: Callable[[], None]) -> None:
        loop.seen.append("(")
        function()
        loop.seen.append(")")

    loop.scheduler.around = around
    for name in "ab":
        loop.scheduler.call(Lane.FRESH, loop.step(name, 0))
    loop.scheduler.call(Lane.JOBS, loop.step("c", 0))
    assert loop.pass_() == "( a b ) ( c )"


# -- generators


def steps_of(loop: Passes, name: str, count: int) -> Iterator[None]:
    for _ in range(count):
        loop.seen.append(name)
        loop.time.seconds += SHARE_SECONDS[Lane.JOBS] * 0.51
        yield


def test_generators_share_their_lane(loop: Passes) -> None:
    a = loop.scheduler.run(steps_of(loop, "a", 2), Lane.JOBS)
    b = loop.scheduler.run(steps_of(loop, "b", 2), Lane.JOBS)
    assert [loop.pass_(), a.done(), loop.pass_(), loop.pass_()] == ["a b", False, "a b", ""]
    assert a.done()
    assert b.done()
    assert not loop.calls


def test_the_error_of_a_generator_is_told_to_who_waits(loop: Passes) -> None:
    def fail() -> Iterator[None]:
        yield
        raise ZeroDivisionError

    failed = loop.scheduler.run(fail(), Lane.JOBS)
    other = loop.scheduler.run(steps_of(loop, "a", 1), Lane.JOBS)
    while loop.calls:
        loop.pass_()
    assert isinstance(failed.exception(), ZeroDivisionError)
    assert other.done()


def test_all_generators_are_exhausted_when_the_broker_stops(loop: Passes) -> None:
    behind = loop.scheduler.run(steps_of(loop, "other", 3), Lane.JOBS)

    def waits() -> Iterator[None]:
        while not behind.done():
            yield
        loop.seen.append("behind it")

    done = loop.scheduler.run(waits(), Lane.JOBS)
    loop.scheduler.finish()
    assert loop.seen == [*["other"] * 3, "behind it"]
    assert done.done()
    assert loop.pass_() == ""


# -- coroutines


async def test_a_lane_resumes_one_coroutine_in_a_pass() -> None:
    seen: list[str] = []

    async def each(name: str) -> None:
        for _ in range(3):
            await pause(Lane.OPERATORS)
            seen.append(name)

    passes = 0

    def count() -> bool:
        nonlocal passes
        passes += 1
        return False

    tasks = [asyncio.ensure_future(each(name)) for name in "ab"]
    while not all(task.done() for task in tasks):
        scheduler_of(asyncio.get_running_loop()).call(Lane.FRESH, count)
        await asyncio.sleep(0)
    assert "".join(seen) == "ababab"
    assert passes >= 6


async def test_the_time_of_a_coroutine_is_charged_to_its_lane() -> None:
    time = Time()
    scheduler = Scheduler(asyncio.get_running_loop(), time)
    seen: list[str] = []

    async def long() -> None:
        for _ in range(2):
            await scheduler.pause(Lane.UPKEEP)
            seen.append("long")
            time.seconds += 2.5 * SHARE_SECONDS[Lane.UPKEEP]

    def other() -> bool:
        seen.append("-")
        return False

    task = asyncio.ensure_future(long())
    while not task.done():
        scheduler.call(Lane.FRESH, other)
        await asyncio.sleep(0)
    assert "".join(seen).strip("-") == "long--long"


async def test_a_coroutine_that_is_cancelled_keeps_nobody_waiting() -> None:
    gone = asyncio.ensure_future(pause(Lane.OPERATORS))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(pause(Lane.OPERATORS), 60)
    assert gone.cancelled()


async def test_items_are_given_in_turns() -> None:
    assert [item async for item in in_turns("abc", Lane.UPKEEP)] == ["a", "b", "c"]


async def test_a_loop_has_one_scheduler() -> None:
    loop = asyncio.get_running_loop()
    assert scheduler_of(loop) is scheduler_of(loop)


async def test_what_goes_in_turns_for_each_item_counts_in_the_share_of_all() -> None:
    loop = asyncio.get_running_loop()
    scheduler, time = scheduler_of(loop), Time()
    scheduler._monotonic = time.monotonic
    share, begun, longest = SHARE_SECONDS[Lane.UPKEEP], time.seconds, 0.0

    def passed() -> None:
        nonlocal begun, longest
        longest = max(longest, time.seconds - begun)
        begun = time.seconds
        if begun < 100 + 9 * share:
            loop.call_soon(passed)

    loop.call_soon(passed)
    async for _ in in_turns(range(100), Lane.UPKEEP):
        async for _ in in_turns("a", Lane.UPKEEP):
            time.seconds += share / 10
    assert max(longest, time.seconds - begun) <= 1.2 * share


def reads(loop: Passes, *seconds: float) -> list[bool]:
    """Whether clients that are read one after the other come late, each of which takes so long."""
    late = []
    for each in seconds:
        late.append(loop.scheduler.is_late())
        loop.time.seconds += each
    return late


def test_who_is_read_when_the_reads_of_a_pass_have_taken_long_is_late(loop: Passes) -> None:
    half = READ_SECONDS * 0.51
    assert reads(loop, half, half, half) == [False, False, True]
    loop.pass_()
    assert reads(loop, half, half, half) == [False, False, True]


def test_short_passes_together_are_no_long_one(loop: Passes) -> None:
    for _ in range(10):
        assert reads(loop, READ_SECONDS * 0.4) == [False]
        for call in loop.calls[:]:
            loop.calls.remove(call)
            call()


def test_the_end_of_a_pass_is_looked_for_once_in_a_while(loop: Passes) -> None:
    assert reads(loop, READ_SECONDS * 0.1)
    assert len(loop.calls) == 1
    loop.pass_()
    assert reads(loop, READ_SECONDS * 0.1)
    assert not loop.calls


def test_nobody_is_read_before_those_that_wait_since_they_came_late(loop: Passes) -> None:
    loop.scheduler.call(Lane.LATE, loop.step("late", 0))
    assert reads(loop, 0) == [True]
    assert loop.pass_() == "late"
    assert reads(loop, 0) == [False]


def test_each_lane_has_its_share_in_each_pass(loop: Passes) -> None:
    lanes = (Lane.LATE, Lane.CLIENTS, Lane.JOBS, Lane.LETTERS, Lane.UPKEEP, Lane.OPERATORS)
    for lane in reversed(lanes):
        loop.scheduler.call(lane, loop.step(lane.name, SHARE_SECONDS[lane], times=2))
    assert loop.pass_() == " ".join(lane.name for lane in lanes)
    assert loop.pass_() == " ".join(lane.name for lane in lanes)
