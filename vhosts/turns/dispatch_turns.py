"""When dispatchers have their turn: after that of who wakes them; those with a backlog one after the other."""

from collections import deque
from collections.abc import Callable

from routelog.vhosts.timer import CallSoon
from routelog.vhosts.turns.backlog_turns import BacklogTurns, TurnClock


class DispatchTurns(BacklogTurns):
    """The turns of all dispatchers of a node.

    What has just come to a queue is handed out in the next turn of the loop, however many queues there are:
    else they would grow, whatever consumers take. What has been there before is handed out while there is time.

    Args:
        call_soon: runs a function after this turn of the event loop.
    """

    __slots__ = ("_woken",)

    def __init__(self, call_soon: CallSoon, clock: TurnClock) -> None:
        super().__init__(call_soon, clock)
        self._woken: deque[Callable[[], None]] = deque()

    def wake(self, dispatch: Callable[[], None]) -> None:
        """Dispatch after this turn of the loop."""
        self._woken.append(dispatch)
        self._schedule()

    def _run(self) -> None:
        self._scheduled = False
        self.begin()
        try:
            self._serve_postponed()
            for _ in range(len(self._woken)):
                self._woken.popleft()()
        finally:
            if self._woken or self._postponed:  # also those behind one that failed
                self._schedule()
