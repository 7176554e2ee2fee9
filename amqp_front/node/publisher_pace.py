"""Consumers before publishers: who adds to a queue that is behind waits for the next beat.

A queue is behind while its consumers take what is ready, and there is more than they take in 2.5 ms: see
`is_behind` of `Dispatcher`. Heard as they come, publishers and consumers would go at one rate, and a
backlog that once arose would stand. So publishers go slower than consumers until it is gone: confirms of
what is added to it, or, without confirms, the next read of its publisher, wait for the beat that all of
them share.
"""

import asyncio

from routelog.amqp_front.node.confirm_board import ConfirmBoard, Waiter
from routelog.amqp_front.sockets.cork import Cork

BEAT_SECONDS = (
    0.001  # the loop's timers take up to 1 ms more; see `BEHIND_SECONDS` of the dispatcher
)


class PublisherPace:
    """The publishers that wait for the next beat; without any there is none."""

    __slots__ = ("_board", "_cork", "_loop", "_next", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, cork: Cork, board: ConfirmBoard) -> None:
        self._loop = loop
        self._cork = cork
        self._board = board
        self._waits = False
        self._next: asyncio.Future[None] | None = None

    def hold(self, waiter: Waiter) -> None:
        """Confirm nothing to a channel before the beat."""
        self._board.hold(waiter)
        self._begin()

    def next_beat(self) -> "asyncio.Future[None]":
        """Done with the beat."""
        if self._next is None:
            self._next = self._loop.create_future()
        self._begin()
        return self._next

    def _begin(self) -> None:
        if not self._waits:
            self._waits = True
            self._loop.call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        self._waits = False
        beat, self._next = self._next, None
        if beat is not None and not beat.done():
            beat.set_result(None)
        self._cork.run(self._board.release)
