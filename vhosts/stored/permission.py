"""What a user may do with which names in a virtual host, and with which routing keys: regular expressions."""

import re
from dataclasses import dataclass, field
from enum import Enum

from routelog.vhosts.arguments.pattern import BadPattern, MatchBudget, Pattern
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


_VARIABLE = re.compile(r"\{(?:username|vhost|client_id)\}")


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """Regular expressions for routing keys: `write` for publishing, `read` for binding.

    `{username}` and `{vhost}` stand for the names themselves, whatever characters they hold.
    `{client_id}` stands for itself: clients of AMQP 0-9-1 have none.
    """

    exchange: str
    write: str
    read: str


class TopicRule:
    """A topic permission as it is for one user in one vhost.

    Attributes:
        permission: as it was given.

    Raises:
        InvalidPermission: a pattern is too long or is no regular expression.
    """

    __slots__ = ("_patterns", "permission")

    def __init__(self, permission: TopicPermission, user: str, vhost: str) -> None:
        self.permission = permission
        self._patterns: dict[Verb, Pattern | None] = {
            verb: verb_pattern(verb, _expanded(text, user, vhost))
            for verb, text in ((Verb.WRITE, permission.write), (Verb.READ, permission.read))
        }

    def allows(self, verb: Verb, routing_key: str, budget: MatchBudget | None = None) -> bool:
        """Tell whether a message may be published with, or a queue bound by, a routing key.

        Args:
            budget: for this key and others that come with it.
        """
        pattern = self._patterns[verb]
        return pattern is not None and pattern.matches(routing_key, budget)


def _expanded(text: str, user: str, vhost: str) -> str:
    # In one go: a user called "{vhost}" is not expanded again.
    names = {"{username}": user, "{vhost}": vhost, "{client_id}": "{client_id}"}
    return _VARIABLE.sub(lambda found: _literal(names[found[0]]), text)


def _literal(name: str) -> str:
    # All but letters and digits: "-" means something too, between brackets.
    return "".join(each if each.isalnum() else f"\\{each}" for each in name)
