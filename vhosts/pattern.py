"""Regular expressions that administrators write: checked, and never allowed to hang."""

import regex

CHARACTERS_MAX = 1_024  # RabbitMQ's limit
# A pattern such as (a|aa)+$ needs years for some names, and the event loop waits meanwhile. The limit is
# processor time of the whole process: it must be far above what an honest pattern takes while threads are busy.
MATCH_SECONDS_MAX = 0.25
_EVERYTHING = ".*"  # by far the most frequent pattern: it needs no matching


class BadPattern(Exception):
    """A text is no regular expression that can be used."""


class Pattern:
    """A pattern that may match anywhere in a name, as in RabbitMQ.

    Raises:
        BadPattern: it is too long or is no regular expression.
    """

    __slots__ = ("_matcher", "text")

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise BadPattern(f"longer than {CHARACTERS_MAX} characters")
        try:
            self._matcher = regex.compile(text)
        except (regex.error, RecursionError, OverflowError) as error:
            raise BadPattern(str(error)) from error
        self.text = text

    def matches(self, name: str) -> bool:
        """Tell whether it matches; one that takes too long for this name does not."""
        if self.text == _EVERYTHING:
            return True
        try:
            return self._matcher.search(name, timeout=MATCH_SECONDS_MAX) is not None
        except TimeoutError:
            return False
