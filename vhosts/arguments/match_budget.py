"""Processor time for matching names with administrators' patterns: one budget a turn, or a request."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from routelog.log_backend import SystemClock

if TYPE_CHECKING:
    import regex

TURN_SECONDS_MAX = 0.005  # for all matches of a turn of the loop: no turn is to take longer
# For each match when the budget is spent, and for each of a pattern that has run out before: ten times what an
# honest pattern takes for a long name, and many patterns may stand behind one that has spent it all.
LEAST_SECONDS = 0.0002
OVERDRAFT_SECONDS_MAX = 0.005  # of these in all: what comes then is not tried

_CLOCK = (
    SystemClock()
)  # the patterns' own limit reads the processor's time, too: no other clock will do


class OutOfTime(Exception):
    """A pattern was not done with a name in the time there was."""


class MatchBudget:
    """Processor time of this thread for several matches, one after the other.

    Attributes:
        left: seconds; below 0 when more was taken.

    Args:
        seconds: for all matches.
        thread_seconds: processor time of the thread that asks.
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
            has_run_out: this pattern has run out before, with some name.

        Raises:
            OutOfTime: it takes longer than there is left.
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
                    # That clock is the whole process's: an honest pattern may have waited for other threads.
                    left = begun + limit - self._thread_seconds()
                    if left <= 0:
                        raise OutOfTime from None
        finally:
            self.left -= self._thread_seconds() - begun
