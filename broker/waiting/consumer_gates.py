"""Consumers before publishers: who adds to a backlog waits until consumers have caught up.

Heard as they come, publishers and consumers go at one rate, and a backlog that once arose stands. So while the
consumers of a queue nearly keep up with what comes, and there is a backlog (`vhosts/queues/backlog.py`),
confirms of what is added to it wait; without confirms, the next read of its publisher does.
"""

import asyncio
from functools import partial

from routelog.broker.loop.cork import Cork
from routelog.broker.waiting.gate import Gate
from routelog.vhosts import Recipient

WAIT_SECONDS_MAX = 0.01  # consumers may take nothing any more

_CLOSED = frozenset({"consumers"})


class ConsumerGates:
    """The gates of the queues whose publishers wait for consumers."""

    __slots__ = ("_cork", "_gates", "_is_timed", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, cork: Cork) -> None:
        self._loop = loop
        self._cork = cork
        self._gates: dict[Recipient, Gate] = {}
        self._is_timed = False

    def of(self, queue: Recipient) -> Gate:
        """The gate of a queue that is behind: it opens when consumers have caught up, or soon all the same."""
        gate = self._gates.get(queue)
        if gate is None:
            gate = self._gates[queue] = Gate(self._loop)
            gate.close_for(_CLOSED)
            queue.on_caught_up = partial(self._open, queue)
            if not self._is_timed:
                self._is_timed = True
                self._loop.call_later(WAIT_SECONDS_MAX, self._cork.run, self._time_is_up)
        return gate

    def _open(self, queue: Recipient) -> None:
        if queue in self._gates:
            self._gates.pop(queue).close_for(frozenset())

    def _time_is_up(self) -> None:
        self._is_timed = False
        for queue in list(self._gates):
            # They know each other: nothing is left for the garbage collector
            queue.on_caught_up = None
            self._open(queue)
