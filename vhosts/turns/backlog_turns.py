"""Whose turn it is among those who have a backlog: one after the other, while a turn of the loop has time."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from routelog.vhosts.timer import CallSoon

TURN_SECONDS = 0.001  # of one turn of the event loop, for what all of them do together


class TurnClock(Protocol):
    """What time it is."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""


class BacklogTurns:
    """The turns of all queues of a node that have a backlog of one kind.

    Args:
        call_soon: runs a function after this turn of the event loop.
    """

    __slots__ = ("_call_soon", "_clock", "_postponed", "_scheduled", "_until")

    def __init__(self, call_soon: CallSoon, clock: TurnClock) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._postponed: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._until = 0.0  # unknown before somebody asks

    def postpone(self, serve: Callable[[], None]) -> None:
        """Serve a backlog when those who wait for longer have been, in one of the next turns."""
        self._postponed.append(serve)
        self._schedule()

    def begin(self) -> None:
        """Let the time of backlogs begin anew: somebody is served now."""
        self._until = 0.0

    def is_over(self) -> bool:
        """Tell whether backlogs have had their time, which begins with the first look."""
        now = self._clock.monotonic()
        if self._until == 0.0:
            self._until = now + TURN_SECONDS
        return now >= self._until

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self.begin()
        try:
            self._serve_postponed()
        finally:
            if self._postponed:  # also those behind one that failed
                self._schedule()

    def _serve_postponed(self) -> None:
        for _ in range(len(self._postponed)):
            if self._until and self.is_over():
                break
            self._postponed.popleft()()
