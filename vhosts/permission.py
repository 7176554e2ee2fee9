"""What a user may do with which names in a virtual host: three regular expressions."""

from dataclasses import dataclass, field
from enum import Enum

import regex

from vhosts.errors import InvalidPermission

PATTERN_CHARACTERS_MAX = 1_024  # RabbitMQ's limit
# A pattern such as (a+)+$ needs years for some names, and the event loop waits meanwhile. The limit is
# wall time: it must be far above what an honest pattern takes on a machine whose cores are busy.
MATCH_SECONDS_MAX = 0.25
_EVERYTHING = ".*"  # by far the most frequent pattern: it needs no matching


class Verb(Enum):
    """What is done: `configure` creates, deletes or changes; `write` adds; `read` takes."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Permission:
    """Regular expressions for the names on which each verb is allowed.

    A pattern may match anywhere in a name, as in RabbitMQ; the empty pattern matches nothing.

    Raises:
        InvalidPermission: a pattern is too long or is no regular expression.
    """

    configure: str
    write: str
    read: str
    _matchers: dict[Verb, "regex.Pattern[str] | None"] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        patterns = {
            Verb.CONFIGURE: self.configure,
            Verb.WRITE: self.write,
            Verb.READ: self.read,
        }
        matchers = {verb: _compile(verb, pattern) for verb, pattern in patterns.items()}
        object.__setattr__(self, "_matchers", matchers)

    def allows(self, verb: Verb, name: str) -> bool:
        """Tell whether `verb` is allowed on `name`.

        A pattern that takes too long for this name does not allow it.
        """
        matcher = self._matchers[verb]
        if matcher is None:
            return False
        if matcher.pattern == _EVERYTHING:
            return True
        try:
            return matcher.search(name, timeout=MATCH_SECONDS_MAX) is not None
        except TimeoutError:
            return False


def _compile(verb: Verb, pattern: str) -> "regex.Pattern[str] | None":
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidPermission(verb.value, f"longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        return regex.compile(pattern) if pattern else None
    except (regex.error, RecursionError, OverflowError) as error:
        raise InvalidPermission(verb.value, str(error)) from error


FULL_PERMISSION = Permission(".*", ".*", ".*")
