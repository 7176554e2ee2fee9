"""Who has a backlog waits for those who have waited longer, and shares the time of a turn."""

from __future__ import annotations

from functools import partial

import pytest
from queue_samples import Turns

from routelog.vhosts.turns.backlog_turns import TURN_SECONDS, BacklogTurns

HALF = round(TURN_SECONDS / 2 * 1_000_000) + 1  # microseconds


@pytest.fixture
def loop() -> Turns:
    return Turns()


@pytest.fixture
def turns(loop: Turns) -> BacklogTurns:
    return BacklogTurns(loop.call_soon, loop.clock)


def test_they_have_a_turn_each_while_there_is_time(loop: Turns, turns: BacklogTurns) -> None:
    served: list[str] = []

    def serve(name: str) -> None:
        served.append(name)
        turns.is_over()
        loop.clock.microseconds += HALF
        turns.postpone(lambda: serve(name))

    for name in "abc":
        turns.postpone(partial(serve, name))
    in_turn = []
    for _ in range(3):
        loop.one()
        in_turn.append("".join(served))
        served.clear()
    assert in_turn == ["ab", "ca", "bc"]


def test_who_takes_no_time_has_one_turn_nevertheless(loop: Turns, turns: BacklogTurns) -> None:
    served: list[str] = []

    def serve() -> None:
        served.append("a")
        turns.postpone(serve)

    turns.postpone(serve)
    assert (loop.one(), served) == (1, ["a"])


def test_one_that_fails_keeps_no_other_from_its_turn(loop: Turns, turns: BacklogTurns) -> None:
    def fail() -> None:
        raise OSError("no disk")

    served: list[str] = []
    turns.postpone(fail)
    turns.postpone(lambda: served.append("other"))
    with pytest.raises(OSError, match="no disk"):
        loop.one()
    loop.one()
    assert served == ["other"]
