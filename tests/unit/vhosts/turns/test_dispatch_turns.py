"""Dispatchers that have a backlog share a turn of the event loop; what has just come goes out at once."""

from __future__ import annotations

import pytest
from queue_samples import Turns

from routelog.vhosts.turns.backlog_turns import TURN_SECONDS
from routelog.vhosts.turns.dispatch_turns import DispatchTurns

THIRD = round(TURN_SECONDS / 3 * 1_000_000) + 1  # microseconds


class Backlogged:
    """Hands out something until the turn is over, which takes a third of it each time."""

    def __init__(self, name: str, dispatched: list[str], loop: Turns, turns: DispatchTurns) -> None:
        self.name = name
        self._dispatched = dispatched
        self._loop = loop
        self._turns = turns

    def dispatch(self) -> None:
        if not self._turns.is_over():
            self._dispatched.append(self.name)
            self._loop.clock.microseconds += THIRD
        self._turns.postpone(self.dispatch)


@pytest.fixture
def loop() -> Turns:
    return Turns()


@pytest.fixture
def turns(loop: Turns) -> DispatchTurns:
    return DispatchTurns(loop.call_soon, loop.clock)


def test_backlogs_are_served_one_after_the_other(loop: Turns, turns: DispatchTurns) -> None:
    dispatched: list[str] = []
    for name in "abcdefg":
        turns.wake(Backlogged(name, dispatched, loop, turns).dispatch)
    in_turn = []
    for _ in range(5):
        loop.one()
        in_turn.append("".join(dispatched))
        dispatched.clear()
    assert in_turn == ["abc", "abc", "def", "gab", "cde"]


def test_who_is_woken_has_a_turn_however_little_time_is_left(
    loop: Turns, turns: DispatchTurns
) -> None:
    dispatched: list[str] = []
    for name in "abcd":
        turns.wake(Backlogged(name, dispatched, loop, turns).dispatch)
    loop.one()
    dispatched.clear()
    for _ in range(3):
        turns.wake(lambda: dispatched.append("fresh"))
    loop.one()
    assert dispatched.count("fresh") == 3


def test_who_is_woken_meanwhile_waits_for_the_next_turn(loop: Turns, turns: DispatchTurns) -> None:
    dispatched: list[str] = []

    def dispatch() -> None:
        dispatched.append("first")
        turns.wake(lambda: dispatched.append("second"))

    turns.wake(dispatch)
    loop.one()
    assert dispatched == ["first"]
    loop.one()
    assert dispatched == ["first", "second"]


def test_one_that_fails_keeps_no_other_from_its_turn(loop: Turns, turns: DispatchTurns) -> None:
    dispatched: list[str] = []

    def fail() -> None:
        raise OSError("no disk")

    turns.wake(fail)
    turns.wake(lambda: dispatched.append("other"))
    with pytest.raises(OSError, match="no disk"):
        loop.one()
    loop.one()
    assert dispatched == ["other"]
