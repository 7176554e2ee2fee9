# cython: annotation_typing=False
"""Whose turn is next, of the clients that have used up theirs, or came late.

A turn of the loop takes some milliseconds, however many clients there are. What is read when it has been long
enough is carried out in one of the next turns. Those that wait stand in lines, which share a part of each turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import cython

from routelog.broker import Cork
from routelog.log_backend import Clock

HEARD_SECONDS = 0.0007  # of a turn of the loop, for what is read: then it is late
FAVOURED_SECONDS = 0.001  # late for those that have waited, or have little to say
REACHED_SECONDS = 2.5e-6  # for each weight of queues that were reached: they are served behind
BYTE_SECONDS = 3e-10  # for what was read while others wait: it may be delivered behind
LINES_SECONDS = 0.0012  # of a turn, for the lines of those that go on: by turns the first
LATE_SECONDS = 0.0009  # of that, for those that came late; of the first line at least one goes on
LINE_SECONDS = 0.0003  # for each of the other lines
FEW = 4  # of those that wait go on in the first turn


# Compiled code reads these as C variables: a module's names it reads as slowly as Python does.
_HEARD_SECONDS = cython.declare(cython.double, HEARD_SECONDS)
_FAVOURED_SECONDS = cython.declare(cython.double, FAVOURED_SECONDS)
_REACHED_SECONDS = cython.declare(cython.double, REACHED_SECONDS)
_BYTE_SECONDS = cython.declare(cython.double, BYTE_SECONDS)


@cython.final
@cython.cclass
class Rota:
    """Those that wait for their next turn, first come, first served, and what the loop's turn is like.

    Attributes:
        number: of turns in which somebody had waited.
        is_under_way: somebody waits, or somebody that has waited has this turn.
    """

    __slots__ = (
        "_again",
        "_began",
        "_call_soon",
        "_cork",
        "_few",
        "_knows_began",
        "_late",
        "_lines",
        "_monotonic",
        "_too_many",
        "_waited",
        "_waiting",
        "_went_on",
        "is_under_way",
        "number",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, cork: Cork) -> None:
        self._call_soon = loop.call_soon
        self._cork = cork
        self._monotonic = clock.monotonic
        self._late: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()  # late, though they had waited
        self._waiting: deque[Callable[[], None]] = deque()
        self._lines = deque(
            (
                (self._waiting, LINE_SECONDS),
                (self._late, LATE_SECONDS),
                (self._again, LINE_SECONDS),
            )
        )
        self._waited = 0  # of those that wait, since before this turn
        self._few = FEW
        self._went_on = 0  # in the last turn
        self._too_many = False  # went on then: some found this turn late
        self._began = 0.0
        self._knows_began = False  # it is of this turn, and not of one before it
        self.number = 0
        self.is_under_way = False

    # -- what the turn is like

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(is_favoured=cython.bint, now=cython.double)
    def is_late(self, is_favoured: bool) -> bool:
        """Tell whether what is read has made this turn of the loop long.

        Args:
            is_favoured: for who has waited for this turn, or has little to say.
        """
        now = self._monotonic()
        if self._knows_began:
            return now - self._began >= (_FAVOURED_SECONDS if is_favoured else _HEARD_SECONDS)
        if now - self._began >= _HEARD_SECONDS:
            # Looked for once in a while: a call at the end of each turn would cost them all.
            self._began = now
            self._knows_began = True
            if not self.is_under_way:
                self._call_soon(self._end)
        return False

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    def some_are_late(self) -> bool:
        """Somebody who came late waits: others that have not waited do not go first."""
        return bool(self._late)

    def _end(self) -> None:
        self._knows_began = False

    @cython.ccall
    @cython.locals(weight=cython.longlong)
    def reached(self, weight: int) -> None:
        """A run of publishes went to several queues; see `Appending` for their weight."""
        self._began -= weight * _REACHED_SECONDS

    @cython.ccall
    @cython.locals(nbytes=cython.longlong)
    def heard(self, nbytes: int) -> None:
        """So much was read of a client, in time."""
        if self.is_under_way:
            self._began -= nbytes * _BYTE_SECONDS

    # -- who waits

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function in another turn of the loop, with the cork in, when those that wait had theirs.

        It may go on with what takes long after it was called, as one that reads again does.
        """
        self._waiting.append(go_on)
        self._begin()

    def came_late(self, go_on: Callable[[], None], has_waited: bool) -> None:
        """Call a function likewise, but before those that wait: the turn was late when it was read."""
        self._too_many |= has_waited
        (self._again if has_waited else self._late).append(go_on)
        self._begin()

    def _begin(self) -> None:
        if not self.is_under_way:
            self.is_under_way = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        # Behind those that were heard in this turn, who may have come to wait: they go on in the next one.
        self.number += 1
        self._knows_began, self._began = False, 0.0
        self._adapt()
        self._went_on = 0
        now = self._monotonic()
        end = now + LINES_SECONDS
        try:
            for line, seconds in self._lines:
                until = min(end, now + seconds)
                left = min(self._few, self._waited) if line is self._waiting else len(line)
                while left and now < until:
                    left -= 1
                    self._went_on += line is self._waiting
                    self._cork.run(line.popleft())
                    now = self._monotonic()
        finally:
            self._lines.rotate(-1)
            self._waited = len(self._waiting)
            self.is_under_way = self._went_on > 0 or any(line for line, _ in self._lines)
            if self.is_under_way:
                self._call_soon(self._turn)
            else:
                self._few = FEW

    def _adapt(self) -> None:
        # As many as are heard in the turn that they have waited for.
        if self._too_many:
            self._too_many = False
            self._few = max(1, self._few // 2)
        elif self._went_on == self._few < len(self._waiting):
            self._few += 1
