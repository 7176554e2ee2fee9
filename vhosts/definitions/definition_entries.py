"""The entries of a definitions document, in the form of RabbitMQ 3.10 and later."""

from typing import Any, Literal

import msgspec

from routelog.exchanges import Binding, Exchange
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.errors import InvalidUser
from routelog.vhosts.people.imported_password import DEFAULT_ALGORITHM, imported_hash
from routelog.vhosts.people.password import check_hash
from routelog.vhosts.stored.topology_record import VhostRecord
from routelog.vhosts.stored.user import ADMINISTRATOR, User

ARGON2ID = "argon2id"  # what exported hashes of our own are called


class UserContent(msgspec.Struct):
    """What a user is made with: a password, a hash of one (of RabbitMQ, or our own), or neither.

    Attributes:
        administrator: what RabbitMQ 2 had in place of tags.
    """

    tags: list[str] | str | None = None
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    administrator: bool | Literal["true", "false"] | None = None

    def user(self, name: str) -> User:
        """The user; who comes with a password has no hash yet.

        Raises:
            InvalidUser: a name, tag or hash cannot be, or there are both a password and a hash.
        """
        if self.password is not None and self.password_hash is not None:
            raise InvalidUser("both_password_and_password_hash_are_provided")
        return User(name, self._hash(), self._tags())

    def _tags(self) -> tuple[str, ...]:
        if self.tags is not None:
            return tuple(split_tags(self.tags))
        if self.administrator is None:
            raise InvalidUser("tags_not_present")
        return (ADMINISTRATOR,) if self.administrator in (True, "true") else ()

    def _hash(self) -> str:
        if not self.password_hash:
            return ""
        if self.hashing_algorithm != ARGON2ID:
            return imported_hash(self.hashing_algorithm or DEFAULT_ALGORITHM, self.password_hash)
        check_hash(self.password_hash)
        return self.password_hash


class UserEntry(UserContent, kw_only=True):
    """A user with his name and limits."""

    name: str
    limits: dict[str, Any] | None = None


class VhostEntry(msgspec.Struct):
    """A virtual host; RabbitMQ says what is said of it twice."""

    name: str
    description: str = ""
    tags: list[str] | str = []
    default_queue_type: str | None = None
    metadata: dict[str, Any] = {}

    def record(self) -> VhostRecord:
        """The vhost, without limits."""
        described = {
            "description": self.description,
            "tags": split_tags(self.tags),
            "default_queue_type": self.default_queue_type,
        }
        described |= {name: value for name, value in self.metadata.items() if name in described}
        if described["default_queue_type"] in ("undefined", ""):
            described["default_queue_type"] = None
        return msgspec.convert({"name": self.name} | described, VhostRecord)


class PermissionEntry(msgspec.Struct):
    """What a user may do in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionEntry(msgspec.Struct):
    """Which keys of a topic exchange a user may use."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ParameterEntry(msgspec.Struct):
    """A parameter of a vhost: limits, or an operator policy."""

    component: str
    name: str
    value: Any
    vhost: str = ""


class GlobalParameterEntry(msgspec.Struct):
    """A value of the node."""

    name: str
    value: Any


class PolicyEntry(msgspec.Struct):
    """A policy."""

    name: str
    pattern: str
    definition: dict[str, Any]
    vhost: str = ""
    priority: int = 0
    apply_to: str = msgspec.field(default="all", name="apply-to")

    def policy(self, *, is_operator: bool = False, keeps_unknown: bool = False) -> Policy:
        """The policy.

        Raises:
            InvalidPolicy: a part of it cannot be.
        """
        policy = Policy(
            self.name,
            self.pattern,
            self.definition,
            self.priority,
            self.apply_to,
            is_operator=is_operator,
            keeps_unknown=keeps_unknown,
        )
        policy.check_put()
        return policy


class ExchangeEntry(msgspec.Struct):
    """An exchange."""

    name: str
    type: str
    vhost: str = ""
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}

    def exchange(self) -> Exchange:
        """The exchange."""
        return Exchange(
            self.name, self.type, self.durable, self.auto_delete, self.internal, self.arguments
        )


class QueueEntry(msgspec.Struct):
    """A queue."""

    name: str
    vhost: str = ""
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = {}

    def properties(self) -> QueueProperties:
        """What it is declared with."""
        return QueueProperties(
            self.name, self.durable, auto_delete=self.auto_delete, arguments=self.arguments
        )


class BindingEntry(msgspec.Struct):
    """A binding."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str = ""
    vhost: str = ""
    arguments: dict[str, Any] = {}

    def binding(self) -> Binding:
        """The binding; whether it is durable follows from its ends."""
        return Binding(
            self.source, self.destination, self.destination_type, self.routing_key, self.arguments
        )


def split_tags(tags: list[str] | str) -> list[str]:
    """Tags as a list; RabbitMQ also writes them with commas between."""
    return (
        [tag for tag in map(str.strip, tags.split(",")) if tag] if isinstance(tags, str) else tags
    )
