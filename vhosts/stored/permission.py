"""What a user may do with which names in a virtual host: three regular expressions."""

from dataclasses import dataclass, field
from enum import Enum

from routelog.vhosts.arguments.pattern import BadPattern, Pattern
from routelog.vhosts.errors import InvalidPermission


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
    _patterns: dict[Verb, Pattern | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        patterns = {
            Verb.CONFIGURE: self.configure,
            Verb.WRITE: self.write,
            Verb.READ: self.read,
        }
        compiled = {verb: verb_pattern(verb, pattern) for verb, pattern in patterns.items()}
        object.__setattr__(self, "_patterns", compiled)

    def allows(self, verb: Verb, name: str) -> bool:
        """Tell whether `verb` is allowed on `name`.

        A pattern that takes too long for this name does not allow it.
        """
        pattern = self._patterns[verb]
        return pattern is not None and pattern.matches(name)


def verb_pattern(verb: Verb, text: str) -> Pattern | None:
    """The pattern of a verb; None for the empty one, which allows nothing.

    Raises:
        InvalidPermission: it is too long or is no regular expression.
    """
    try:
        return Pattern(text) if text else None
    except BadPattern as error:
        raise InvalidPermission(verb.value, str(error)) from error


FULL_PERMISSION = Permission(".*", ".*", ".*")
