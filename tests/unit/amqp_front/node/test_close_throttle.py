"""Connections that end at the same moment: some in each turn, in their order."""

from collections.abc import Callable
from functools import partial

from routelog.amqp_front.node.close_throttle import CLOSED_MAX, CloseThrottle


class Turns:
    """The event loop's next turns, run by hand."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_of_one_that_ends_alone_leave_is_taken_at_once() -> None:
    turns, left = Turns(), list[int]()
    close_throttle = CloseThrottle(turns.call_soon)
    for number in range(3):
        close_throttle.run(partial(left.append, number))
        assert left == list(range(number + 1))
        turns.run()
    assert not turns.calls


def test_hundreds_go_some_in_a_turn_and_in_their_order() -> None:
    turns, left = Turns(), list[int]()
    close_throttle = CloseThrottle(turns.call_soon)
    count = 3 * CLOSED_MAX + 1
    for number in range(count):
        close_throttle.run(partial(left.append, number))
    seen = [len(left)]
    while turns.calls:
        turns.run()
        seen.append(len(left))
    assert seen[:4] == [CLOSED_MAX, 2 * CLOSED_MAX, 3 * CLOSED_MAX, count]
    assert left == list(range(count))


def test_who_ends_meanwhile_is_behind_those_who_wait() -> None:
    turns, left = Turns(), list[int]()
    close_throttle = CloseThrottle(turns.call_soon)
    for number in range(2 * CLOSED_MAX):
        close_throttle.run(partial(left.append, number))
    turns.run()
    close_throttle.run(lambda: left.append(-1))
    while turns.calls:
        turns.run()
    assert left == [*range(2 * CLOSED_MAX), -1]


def test_a_call_that_fails_stops_no_other() -> None:
    turns, left = Turns(), list[int]()
    close_throttle = CloseThrottle(turns.call_soon)

    def fail() -> None:
        raise RuntimeError("made to fail")

    for _ in range(CLOSED_MAX):
        close_throttle.run(lambda: None)
    close_throttle.run(fail)
    for number in range(CLOSED_MAX):
        close_throttle.run(partial(left.append, number))
    raised = 0
    while turns.calls:
        try:
            turns.run()
        except RuntimeError:
            raised += 1
    assert raised == 1
    assert left == list(range(CLOSED_MAX))
