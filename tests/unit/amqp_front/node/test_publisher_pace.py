"""Who adds to a queue that is behind waits for the next beat."""

from typing import Any, cast

from queue_samples import Turns

from routelog.amqp_front.node.confirm_board import ConfirmBoard
from routelog.amqp_front.node.publisher_pace import BEAT_SECONDS, PublisherPace
from routelog.amqp_front.sockets.cork import Cork
from routelog.log_backend import NOTHING, JournalPositions


class Waiter:
    """A channel that confirms all there is."""

    def __init__(self) -> None:
        self.told = 0

    def journal_reached(self, reached: JournalPositions) -> bool:
        """See `Waiter`."""
        self.told += 1
        return False


class Node:
    """A board and a pace on one loop."""

    def __init__(self) -> None:
        self.turns = Turns()
        loop = cast(Any, self.turns)
        self.board = ConfirmBoard(self.turns.call_soon, float)
        self.pace = PublisherPace(loop, Cork(loop), self.board)

    def published(self, waiter: Waiter, *, held: bool) -> None:
        if held:
            self.pace.hold(waiter)
        self.board.wait(waiter, NOTHING)
        self.turns.run()


def test_who_is_held_is_confirmed_with_the_beat_and_others_at_once() -> None:
    node, held, other = Node(), Waiter(), Waiter()
    node.published(held, held=True)
    node.published(other, held=False)
    assert (held.told, other.told) == (0, 1)
    node.turns.pass_seconds(BEAT_SECONDS)
    assert (held.told, other.told) == (1, 1)
    node.published(held, held=False)
    assert held.told == 2


def test_all_share_one_beat_and_nobody_no_beat() -> None:
    node, waiters = Node(), [Waiter() for _ in range(5)]
    for waiter in waiters:
        node.published(waiter, held=True)
        node.published(waiter, held=True)
    beat = node.pace.next_beat()
    assert node.pace.next_beat() is beat
    assert node.turns.waiting == 1
    node.turns.pass_seconds(BEAT_SECONDS)
    assert [waiter.told for waiter in waiters] == [1] * 5
    assert beat.done()
    assert node.turns.waiting == 0


def test_who_is_forgotten_hears_of_no_beat() -> None:
    node, gone = Node(), Waiter()
    node.published(gone, held=True)
    node.board.forget(gone)
    node.turns.pass_seconds(BEAT_SECONDS)
    assert gone.told == 0
