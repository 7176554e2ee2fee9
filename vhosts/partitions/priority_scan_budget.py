"""The budget of a turn of the event loop for scanning priorities, for all partitions of a queue together."""

from routelog.vhosts.timer import CallSoon

MESSAGES_MAX = 512  # scanned in a turn: 1 to 2 ms


class PriorityScanBudget:
    """How many messages one queue may scan in this turn.

    Attributes:
        left: messages.
        call_soon: runs a function after this turn of the event loop.
    """

    __slots__ = ("_used", "call_soon", "left")

    def __init__(self, call_soon: CallSoon) -> None:
        self.call_soon = call_soon
        self.left = MESSAGES_MAX
        self._used = False

    def use(self, count: int) -> None:
        """Take so many messages from the budget."""
        self.left -= count
        if not self._used:
            self._used = True
            self.call_soon(self._renew)

    def _renew(self) -> None:
        self._used = False
        self.left = MESSAGES_MAX
