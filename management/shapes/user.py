"""Users and their permissions."""

from typing import TypedDict


class WhoAmI(TypedDict):
    """The caller."""

    name: str
    tags: list[str]


class UserRow(TypedDict):
    """A user."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]


class PermissionRow(TypedDict):
    """What a user may do in a vhost, as regular expressions."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(TypedDict):
    """Which keys of an exchange a user may use."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str
