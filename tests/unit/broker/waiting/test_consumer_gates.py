"""Who adds to a backlog waits for consumers, and not for ever."""

from typing import Any, cast

from support.queue_samples import Turns

from routelog.broker.loop.cork import Cork
from routelog.broker.waiting.consumer_gates import WAIT_SECONDS_MAX, ConsumerGates
from routelog.broker.waiting.gate import Gate


class Backlog:
    """What a gate wants of a queue."""

    on_caught_up: Any = None


class Waiting:
    """Who waits at gates."""

    def __init__(self, *gates: Gate) -> None:
        self.times = 0
        for gate in gates:
            gate.hold(self)

    def tell_blocked(self, reason: str) -> None:
        raise AssertionError("so short a pause is not told")

    def let_go(self) -> None:
        self.times += 1


def gates_and_turns() -> tuple[ConsumerGates, Turns]:
    turns = Turns()
    return ConsumerGates(cast(Any, turns), Cork()), turns


def test_who_waits_goes_on_when_its_queue_has_caught_up() -> None:
    (gates, _), queue, another = gates_and_turns(), Backlog(), Backlog()
    gate, other = gates.of(cast(Any, queue)), gates.of(cast(Any, another))
    assert gate is gates.of(cast(Any, queue))
    assert (gate.closed, gate.reasons, gate.alarms) == (True, {"consumers"}, set())
    first, second, third = Waiting(gate), Waiting(gate), Waiting(other)
    queue.on_caught_up()
    assert (first.times, second.times, third.times) == (1, 1, 0)
    queue.on_caught_up()
    assert (first.times, gate.closed, other.closed) == (1, False, True)
    assert gates.of(cast(Any, queue)).closed


def test_nobody_waits_longer_than_the_most() -> None:
    (gates, turns), queue = gates_and_turns(), Backlog()
    waiting = Waiting(gates.of(cast(Any, queue)))
    turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert waiting.times == 0
    turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert (waiting.times, turns.waiting) == (1, 0)
    assert queue.on_caught_up is None
