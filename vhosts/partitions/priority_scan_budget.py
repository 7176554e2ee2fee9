"""The budget of a turn of the event loop for scanning priorities, for all partitions of a queue together."""

from collections.abc import Callable

from routelog.log_backend import Lane, Scheduler

MESSAGES_MAX = 512  # scanned in a turn: 1 to 2 ms


class PriorityScanBudget:
    """How many messages one queue may scan in this turn.

    Attributes:
        left: messages.
    """

    __slots__ = ("_scheduler", "_used", "left")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.left = MESSAGES_MAX
        self._used = False

    def use(self, count: int) -> None:
        """Take so many messages from the budget."""
        self.left -= count
        if not self._used:
            self._used = True
            self.call_soon(self._renew)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run a function after this turn of the event loop."""
        self._scheduler.call(Lane.FRESH, call)

    def _renew(self) -> None:
        self._used = False
        self.left = MESSAGES_MAX
