"""When dispatchers have their turn: after that of who wakes them; those with a backlog one after the other.

So do the queues of a vhost that have dead letters to send, by turns of their own.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from vhosts.timer import CallSoon

TURN_SECONDS = 0.001  # of one turn of the event loop, for what all dispatchers hand out of backlogs


class DispatchClock(Protocol):
    """What time it is."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""


class DispatchTurns:
    """The turns of all dispatchers of a vhost.

    What has just come to a queue is handed out in the next turn of the loop, however many queues there are:
    else they would grow, whatever consumers take. What has been there before is handed out while there is time.

    Args:
        call_soon: runs a function after this turn of the event loop.
    """

    __slots__ = ("_call_soon", "_clock", "_postponed", "_scheduled", "_until", "_woken")

    def __init__(self, call_soon: CallSoon, clock: DispatchClock) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._woken: deque[Callable[[], None]] = deque()
        self._postponed: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._until = 0.0  # unknown before somebody asks

    def wake(self, dispatch: Callable[[], None]) -> None:
        """Dispatch after this turn of the loop."""
        self._woken.append(dispatch)
        self._schedule()

    def postpone(self, dispatch: Callable[[], None]) -> None:
        """Dispatch when those who wait for longer have, in one of the next turns."""
        self._postponed.append(dispatch)
        self._schedule()

    def begin(self) -> None:
        """Let the time of backlogs begin anew: somebody dispatches now."""
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
            for _ in range(len(self._postponed)):
                if self._until and self.is_over():
                    break
                self._postponed.popleft()()
            for _ in range(len(self._woken)):
                self._woken.popleft()()
        finally:
            if self._woken or self._postponed:  # also those behind one that failed
                self._schedule()
