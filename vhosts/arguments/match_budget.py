"""A budget of processor time for matching names with patterns of administrators, for a turn or a request."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from routelog.log_backend import SystemClock

if TYPE_CHECKING:
    import regex

TURN_SECONDS_MAX = 0.005  # for all matches of a turn of the event loop
# For each match after the budget is spent, and for each match of a pattern that ran out of time before: ten
# times what a normal pattern takes for a long name. One bad pattern must not starve the patterns after it.
LEAST_SECONDS = 0.0002
OVERDRAFT_SECONDS_MAX = 0.005  # of such matches together; further patterns are not tried

_CLOCK = SystemClock()  # the timeout of `regex` counts processor time, so this clock must, too


class OutOfTime(Exception):
    """Matching a name with a pattern exceeded the budget."""


class MatchBudget:
    """A budget of processor time of this thread for several matches.

    Attributes:
        left: seconds; below 0 when it was exceeded.

    Args:
        seconds: for all matches.
        thread_seconds: the processor time of the calling thread.
    """

    __slots__ = ("_thread_seconds", "left")

    def __init__(
        self,
        seconds: float = TURN_SECONDS_MAX,
        thread_seconds: Callable[[], float] = _CLOCK.thread_seconds,
    ) -> None:
        self.left = seconds
        self._thread_seconds = thread_seconds

    def search(self, matcher: "regex.Pattern[str]", name: str, *, has_run_out: bool) -> bool:
        """Tell whether a pattern matches anywhere in a name.

        Args:
            has_run_out: this pattern ran out of time before.

        Raises:
            OutOfTime: it takes longer than the budget.
        """
        if self.left <= -OVERDRAFT_SECONDS_MAX:
            raise OutOfTime
        limit = (
            LEAST_SECONDS if has_run_out else max(LEAST_SECONDS, min(self.left, TURN_SECONDS_MAX))
        )
        begun, left = self._thread_seconds(), limit
        try:
            while True:
                try:
                    return matcher.search(name, timeout=left) is not None
                except TimeoutError:
                    # The timeout of `regex` counts the time of all threads: the pattern may not be at fault.
                    left = begun + limit - self._thread_seconds()
                    if left <= 0:
                        raise OutOfTime from None
        finally:
            self.left -= self._thread_seconds() - begun
