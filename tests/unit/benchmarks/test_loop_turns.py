"""Turns of a loop, from what the kernel saw."""

import pytest

from benchmarks.loop_turns import LoopTurns, Turn, turns_of

ENTER, EXIT = "syscalls:sys_enter_epoll_pwait: ", " syscalls:sys_exit_epoll_pwait: "
OUT, TAKEN, IN = (f"PERF_RECORD_SWITCH {kind}" for kind in ("OUT", "OUT preempt", "IN"))


def turns(*events: tuple[float, str]) -> list[Turn]:
    return list(turns_of(f" {at:.9f}: {event}" for at, event in events))


def test_a_turn_is_from_what_the_poll_gave_to_the_next_one() -> None:
    (turn,) = turns((1.0, ENTER), (1.5, OUT), (2.0, IN), (2.001, EXIT), (2.005, ENTER))
    assert (turn.begin, turn.seconds) == (2.001, pytest.approx(0.004))
    assert turn.cpu_seconds == pytest.approx(0.004)


def test_what_the_machine_takes_is_no_part_of_a_turn_and_what_it_waits_for_is() -> None:
    waited = (1.003, OUT), (1.004, IN)
    (turn,) = turns((1.0, EXIT), (1.001, TAKEN), (1.002, IN), *waited, (1.005, ENTER))
    assert turn.seconds == pytest.approx(0.004)
    assert turn.cpu_seconds == pytest.approx(0.003)


def test_what_the_recording_has_not_seen_whole_is_no_turn() -> None:
    assert turns((1.0, IN), (1.1, ENTER), (1.2, OUT), (1.3, IN), (1.4, EXIT)) == []


def test_turns_belong_to_the_stretch_in_which_they_began() -> None:
    found = LoopTurns()
    assert not found.are_known
    found.fill(Turn(begin, 0.1, 0.1) for begin in (1.0, 2.0, 3.0))
    assert [turn.begin for turn in found.between(1.5, 3.0)] == [2.0]
    assert found.are_known
