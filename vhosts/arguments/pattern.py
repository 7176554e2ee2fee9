"""Regular expressions of administrators, checked and limited in time."""

import logging

import regex

from routelog.vhosts.arguments.match_budget import MatchBudget, OutOfTime

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
