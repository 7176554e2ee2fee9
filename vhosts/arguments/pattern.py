"""Regular expressions that administrators write: checked, and never allowed to hang."""

import logging

import regex

from routelog.vhosts.arguments.match_budget import MatchBudget, OutOfTime

CHARACTERS_MAX = 1_024  # RabbitMQ's limit
_EVERYTHING = ".*"  # by far the most frequent pattern: it needs no matching
_NAME_SHOWN = 80  # characters, in the log

# An escaped character, a set of characters, or the sign itself.
_DOLLAR = regex.compile(r"\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]])*\]|\$", regex.DOTALL)

log = logging.getLogger(__name__)


class BadPattern(Exception):
    """A text is no regular expression that can be used."""


class Pattern:
    """A pattern that may match anywhere in a name, as in RabbitMQ.

    `$` is the end of the name: unlike in RabbitMQ, a line feed at the end is a character as any other.

    Attributes:
        ran_out_for: the first name for which it ran out of time, None so far.

    Raises:
        BadPattern: it is too long or is no regular expression.
    """

    __slots__ = ("_matcher", "ran_out_for", "text")

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise BadPattern(f"longer than {CHARACTERS_MAX} characters")
        try:
            regex.compile(text)  # whose errors say where they are in the text as it was given
            self._matcher = regex.compile(_DOLLAR.sub(_very_end, text))
        except (regex.error, RecursionError, OverflowError) as error:
            raise BadPattern(str(error)) from error
        self.text = text
        self.ran_out_for: str | None = None

    def matches(self, name: str, budget: MatchBudget | None = None) -> bool:
        """Tell whether it matches; when it runs out of time it does not, which is logged once.

        Args:
            budget: for this match and others; one of its own by default.
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
        """Tell whether it matches.

        Raises:
            OutOfTime: it takes too long.
        """
        if self.text == _EVERYTHING:
            return True
        budget = budget or MatchBudget()
        return budget.search(self._matcher, name, has_run_out=self.ran_out_for is not None)


def _very_end(found: "regex.Match[str]") -> str:
    return r"\Z" if found[0] == "$" else found[0]
