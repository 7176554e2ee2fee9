"""Users and their permissions."""

from msgspec import Struct


class WhoAmI(Struct):
    """The caller."""

    name: str
    tags: list[str]


class UserRow(Struct):
    """A user."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]


class PermissionRow(Struct):
    """What a user may do in a vhost, as regular expressions."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(Struct):
    """Which keys of an exchange a user may use."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str
