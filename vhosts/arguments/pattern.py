"""Regular expressions of administrators, checked, and limited in time by a budget for a turn or a request."""

import logging
from collections.abc import Callable

import regex

from routelog.log_backend import SystemClock

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


CHARACTERS_MAX = 1_024  # RabbitMQ's limit
_EVERYTHING = ".*"  # by far the most frequent pattern, needs no matching
_NAME_SHOWN = 80  # characters, in the log

# An escaped character, a set of characters, or the sign itself.
_DOLLAR = regex.compile(r"\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]])*\]|\$", regex.DOTALL)

log = logging.getLogger(__name__)


class BadPattern(Exception):
    """A text is no regular expression that can be used."""


class Pattern:
    """A pattern that may match anywhere in a name, as in RabbitMQ.

    `$` is the end of the name: unlike in RabbitMQ, it does not match before a final line feed.

    Attributes:
        ran_out_for: the first name for which it ran out of time; None: it never did.

    Args:
        ignores_case: capital letters are as good as small ones.

    Raises:
        BadPattern: it is too long or is no regular expression.
    """

    __slots__ = ("_matcher", "ran_out_for", "text")

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        if len(text) > CHARACTERS_MAX:
            raise BadPattern(f"longer than {CHARACTERS_MAX} characters")
        try:
            regex.compile(text)  # its errors have positions in the original text
            flags = regex.IGNORECASE if ignores_case else 0
            self._matcher = regex.compile(_DOLLAR.sub(_very_end, text), flags)
        except (regex.error, RecursionError, OverflowError) as error:
            raise BadPattern(str(error)) from error
        self.text = text
        self.ran_out_for: str | None = None

    def matches(self, name: str, budget: MatchBudget | None = None) -> bool:
        """Tell whether the pattern matches; a pattern that runs out of time does not, which is logged once.

        Args:
            budget: for this match and others; None: a budget of its own.
        """
        try:
            return self.matches_in_time(name, budget)
        except OutOfTime:
            if self.ran_out_for is None:
                self.ran_out_for = name
                shown = (self.text, name[:_NAME_SHOWN])
                log.warning(
                    "pattern %r takes too long for %r: it does not match such names", *shown
                )
            return False

    def matches_in_time(self, name: str, budget: MatchBudget | None = None) -> bool:
        """Tell whether the pattern matches.

        Raises:
            OutOfTime: it takes too long.
        """
        if self.text == _EVERYTHING:
            return True
        budget = budget or MatchBudget()
        return budget.search(self._matcher, name, has_run_out=self.ran_out_for is not None)


def _very_end(found: "regex.Match[str]") -> str:
    return r"\Z" if found[0] == "$" else found[0]
