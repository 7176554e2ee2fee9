"""Who calls, and what that opens: the tags of users as RabbitMQ reads them."""

from dataclasses import dataclass
from enum import Enum

from routelog.vhosts import PermissionBook, ResourceKind, Verb


class Need(Enum):
    """What a route asks of its caller."""

    LOGIN = "login"
    MANAGEMENT = "management"
    POLICYMAKER = "policymaker"
    MONITORING = "monitoring"
    ADMINISTRATOR = "administrator"


# Whoever has logged in has LOGIN, without any tag.
_OPENED_BY: dict[Need, frozenset[str]] = {
    Need.MANAGEMENT: frozenset({"management", "policymaker", "monitoring", "administrator"}),
    Need.POLICYMAKER: frozenset({"policymaker", "administrator"}),
    Need.MONITORING: frozenset({"monitoring", "administrator"}),
    Need.ADMINISTRATOR: frozenset({"administrator"}),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the HTTP API, or the command line of this machine.

    Attributes:
        name: the user's name; empty for the command line.
        is_local: it has shown the token of the data directory, so it may do everything.
        only_vhost: it has shown a token for the logs of this vhost: it may read them, and nothing else.
    """

    name: str
    tags: tuple[str, ...]
    permissions: PermissionBook
    is_local: bool = False
    only_vhost: str | None = None

    def has(self, need: Need) -> bool:
        """Whether a tag of the caller opens what needs this."""
        return self.is_local or need is Need.LOGIN or not _OPENED_BY[need].isdisjoint(self.tags)

    @property
    def actor_name(self) -> str:
        """What the log calls him."""
        return "(command line)" if self.is_local else self.name

    @property
    def user(self) -> str | None:
        """Whose permissions count for queues and exchanges; None: all is allowed."""
        return None if self.is_local else self.name

    def enters(self, vhost: str) -> bool:
        """Whether there is a permission for the caller in a vhost."""
        if self.only_vhost not in (None, vhost):
            return False
        return self.is_local or vhost in self.permissions.of_user(self.name)

    def knows(self, vhost: str) -> bool:
        """Whether the caller may know that a vhost is there, and how much is in it."""
        return self.has(Need.MONITORING) or self.enters(vhost)

    def knows_user(self, name: str) -> bool:
        """Whether the caller may know what is said of a user."""
        return self.has(Need.ADMINISTRATOR) or name == self.name

    def sees(self, vhost: str) -> bool:
        """Whether the caller may read what is in a vhost."""
        return self.has(Need.ADMINISTRATOR) or self.enters(vhost)

    def authorize(self, vhost: str, kind: ResourceKind, name: str, verb: Verb) -> None:
        """Let the caller do `verb` on an exchange or queue.

        Raises:
            AccessRefused: his permission does not cover it.
        """
        if not self.is_local:
            self.permissions.authorize(self.name, vhost, kind, name, verb)

    def authorize_topic(self, vhost: str, exchange: str, verb: Verb, routing_key: str) -> None:
        """Let the caller bind with a key of a topic exchange.

        Raises:
            AccessRefused: his topic permission does not cover the key.
        """
        if not self.is_local:
            self.permissions.authorize_topic(self.name, vhost, exchange, verb, routing_key)
