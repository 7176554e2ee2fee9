"""Consumers before publishers: who adds to a backlog waits until consumers have caught up.

Heard as they come, publishers and consumers go at one rate, and a backlog that once arose stands. So while the
consumers of a queue nearly keep up with what comes, and there is a backlog (`vhosts/queues/backlog.py`),
confirms of what is added to it wait; without confirms, the next read of its publisher does.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from routelog.broker.loop.cork import Cork
from routelog.vhosts import Recipient

WAIT_SECONDS_MAX = 0.01  # consumers may take nothing any more


class PublisherPace:
    """The publishers that wait for consumers, by queue."""

    __slots__ = ("_cork", "_is_timed", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, cork: Cork) -> None:
        self._loop = loop
        self._cork = cork
        self._waiting: dict[Recipient, list[Callable[[], None]]] = {}
        self._is_timed = False

    def wait(self, queue: Recipient) -> "asyncio.Future[None]":
        """Done when a queue's consumers have caught up."""
        caught_up = self._loop.create_future()
        self.when_caught_up(queue, partial(_end, caught_up))
        return caught_up

    def when_caught_up(self, queue: Recipient, go_on: Callable[[], None]) -> None:
        """Call `go_on` when a queue's consumers have caught up."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            waiting = self._waiting[queue] = []
            queue.on_caught_up = partial(self._caught_up, queue)
        waiting.append(go_on)
        if not self._is_timed:
            self._is_timed = True
            self._loop.call_later(WAIT_SECONDS_MAX, self._cork.run, self._time_is_up)

    def _caught_up(self, queue: Recipient) -> None:
        for go_on in self._waiting.pop(queue, ()):
            go_on()

    def _time_is_up(self) -> None:
        self._is_timed = False
        for queue in list(self._waiting):
            # They know each other: nothing is left for the garbage collector
            queue.on_caught_up = None
            self._caught_up(queue)


def _end(caught_up: "asyncio.Future[None]") -> None:
    if not caught_up.done():
        caught_up.set_result(None)
