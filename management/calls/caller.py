"""The caller of a request, and what his tags allow, as in RabbitMQ."""

from dataclasses import dataclass
from enum import Enum

from routelog.vhosts import PermissionBook, ResourceKind, User, Verb


class Need(Enum):
    """The access that a route needs."""

    LOGIN = "login"
    MANAGEMENT = "management"
    POLICYMAKER = "policymaker"
    MONITORING = "monitoring"
    ADMINISTRATOR = "administrator"


# Every authenticated user has LOGIN, without any tag.
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
        is_local: authenticated by the token of the data directory: everything is allowed.
        only_vhost: authenticated by a token for the logs of this vhost: only reading them is allowed.
        proved: the user as he was when he was authenticated; None: somebody else answers for that.
    """

    name: str
    tags: tuple[str, ...]
    permissions: PermissionBook
    is_local: bool = False
    only_vhost: str | None = None
    proved: User | None = None

    def has(self, need: Need) -> bool:
        """Whether a tag of the caller gives this access."""
        return self.is_local or need is Need.LOGIN or not _OPENED_BY[need].isdisjoint(self.tags)

    @property
    def actor_name(self) -> str:
        """The name of the caller in the log."""
        return "(command line)" if self.is_local else self.name

    @property
    def user(self) -> str | None:
        """The user whose permissions are checked for queues and exchanges; None: none are."""
        return None if self.is_local else self.name

    def enters(self, vhost: str) -> bool:
        """Whether the caller has a permission in a vhost."""
        if self.only_vhost not in (None, vhost):
            return False
        return self.is_local or vhost in self.permissions.of_user(self.name)

    def knows(self, vhost: str) -> bool:
        """Whether the caller may see that a vhost exists, and its counts."""
        return self.has(Need.MONITORING) or self.enters(vhost)

    def knows_user(self, name: str) -> bool:
        """Whether the caller may see a user."""
        return self.has(Need.ADMINISTRATOR) or name == self.name

    def sees(self, vhost: str) -> bool:
        """Whether the caller may see the contents of a vhost."""
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
