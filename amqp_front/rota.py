"""Whose turn is next, of those that have used up theirs: few of them in each turn of the event loop.

A client that has little to say is not among them: it need not wait until all others had their turns, and a
turn of the loop takes some milliseconds, however many clients send as fast as they can.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from amqp_front.cork import Cork
from log_backend import Clock

LONG_SECONDS = 0.002  # of those that go on in a turn of the loop: half as many in the next one
WORK_SECONDS = 0.001  # of a turn, for all works together
HEARD_SECONDS = 0.001  # of a turn, for those that send much and have not waited: then it is late
FEW = 4  # go on in the first turn


class Rota:
    """Those that wait for their next turn, first come, first served, and what the loop's turn is like.

    Attributes:
        number: of turns in which somebody had waited.
        is_under_way: somebody waits, or somebody that has waited has this turn.
    """

    __slots__ = (
        "_began",
        "_call_soon",
        "_cork",
        "_few",
        "_monotonic",
        "_others_seconds",
        "_until",
        "_waited",
        "_waiting",
        "_went_on",
        "_works",
        "is_under_way",
        "number",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, cork: Cork) -> None:
        self._call_soon = loop.call_soon
        self._cork = cork
        self._monotonic = clock.monotonic
        self._waiting: deque[Callable[[], None]] = deque()
        self._waited = 0  # of them, since before this turn
        self._works: deque[Callable[[], None]] = deque()
        self._few = FEW
        self._went_on = 0  # in the last turn
        self._began = 0.0
        self._others_seconds = 0.0  # since then
        self._until = 0.0  # 0: nobody has sent much in this turn
        self.number = 0
        self.is_under_way = False

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function in another turn of the loop, with the cork in, when those that wait had theirs.

        It may go on with what takes long after it was called, as one that reads again does.
        """
        self._waiting.append(go_on)
        self._begin()

    def work(self, do_some: Callable[[], None]) -> None:
        """Call a function soon, likewise: what takes long is done when it returns."""
        self._works.append(do_some)
        self._begin()

    def _begin(self) -> None:
        if not self.is_under_way:
            self.is_under_way = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        # Behind those that were heard in this turn, who may have come to wait: they go on in the next one.
        self.number += 1
        now = self._monotonic()
        if self._went_on:
            self._adapt(now - self._began)
        self._began, self._others_seconds = now, 0.0
        self._went_on = 0
        try:
            self._serve(self._works, len(self._works), now + WORK_SECONDS)
            few = min(self._few, self._waited)
            self._went_on = self._serve(self._waiting, few, now + LONG_SECONDS)
        finally:
            self._waited = len(self._waiting)
            self.is_under_way = bool(self._went_on or self._waiting or self._works)
            if self.is_under_way:
                self._call_soon(self._turn)
            else:
                self._few = FEW

    def _serve(self, queue: deque[Callable[[], None]], count: int, until: float) -> int:
        # Some in their order, at least one; returns how many.
        for at in range(count):
            self._cork.run(queue.popleft())
            if self._monotonic() >= until:
                return at + 1
        return count

    def _adapt(self, seconds: float) -> None:
        # Where many clients with little to say make turns long, those that have waited have a third of them.
        own = seconds - self._others_seconds
        allowed = max(LONG_SECONDS, self._others_seconds / 2)
        if own > allowed:
            self._few = max(1, self._few // 2)
        elif own < allowed / 2 and self._went_on == self._few < len(self._waiting):
            self._few += 1

    def others_took(self, seconds: float) -> None:
        """A client that has little to say, and has not waited, took so long in this turn."""
        self._others_seconds += seconds

    def heard_much(self) -> None:
        """A client has sent much; see `is_late`."""
        if not self._until:
            self._until = self._monotonic() + HEARD_SECONDS
            self._call_soon(self._all_heard)

    @property
    def is_late(self) -> bool:
        """Clients that sent much have made this turn long."""
        return self._until > 0 and self._monotonic() >= self._until

    def _all_heard(self) -> None:
        self._until = 0.0
