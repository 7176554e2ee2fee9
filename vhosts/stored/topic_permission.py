"""Which routing keys a user may publish to, and bind with, on one topic exchange."""

import re
from dataclasses import dataclass

from routelog.vhosts.arguments.pattern import MatchBudget, Pattern
from routelog.vhosts.stored.permission import Verb, verb_pattern

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
