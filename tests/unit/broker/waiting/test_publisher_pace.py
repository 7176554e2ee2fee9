"""Who adds to a backlog waits for consumers, and not for ever."""

from typing import Any, cast

from queue_samples import Turns

from routelog.broker.loop.cork import Cork
from routelog.broker.waiting.confirm_board import ConfirmBoard
from routelog.broker.waiting.publisher_pace import WAIT_SECONDS_MAX, PublisherPace
from routelog.log_backend import NOTHING, JournalPositions


class Waiter:
    """A channel that confirms all there is."""

    def __init__(self) -> None:
        self.told = 0

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        self.told += 1
        return False


class Backlog:
    """What a pace wants of a queue."""

    on_caught_up: Any = None


class Node:
    """A board and a pace on one loop."""

    def __init__(self) -> None:
        self.turns = Turns()
        loop = cast(Any, self.turns)
        self.board = ConfirmBoard(self.turns.call_soon, float)
        self.pace = PublisherPace(loop, Cork(loop), self.board)

    def published(self, waiter: Waiter, queue: Backlog | None = None) -> None:
        if queue is not None:
            self.pace.hold(waiter, cast(Any, queue))
        self.board.wait(waiter, NOTHING)
        self.turns.run()


def test_who_is_held_is_confirmed_when_its_queue_has_caught_up_and_others_at_once() -> None:
    node, queue, another = Node(), Backlog(), Backlog()
    held, later, other = Waiter(), Waiter(), Waiter()
    node.published(held, queue)
    node.published(held, queue)
    node.published(later, another)
    node.published(other)
    waited = node.pace.wait(cast(Any, queue))
    assert (held.told, later.told, other.told) == (0, 0, 1)
    queue.on_caught_up()
    assert (held.told, later.told, waited.done()) == (1, 0, True)
    node.published(held)
    assert held.told == 2


def test_who_is_held_waits_no_longer_than_the_most() -> None:
    node, queue, held = Node(), Backlog(), Waiter()
    node.published(held, queue)
    waited = node.pace.wait(cast(Any, queue))
    node.turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert (held.told, waited.done()) == (0, False)
    node.turns.pass_seconds(WAIT_SECONDS_MAX / 2)
    assert (held.told, waited.done(), node.turns.waiting) == (1, True, 0)
    assert queue.on_caught_up is None


def test_who_is_forgotten_hears_nothing() -> None:
    node, queue, gone = Node(), Backlog(), Waiter()
    node.published(gone, queue)
    node.board.forget(gone)
    node.turns.pass_seconds(WAIT_SECONDS_MAX)
    assert gone.told == 0
