"""How users and permissions are kept in the metadata store::

    key                          value, JSON
    users/<user>                 {"version":1,"name":…,"password_hash":…,"tags":[…]}
    permissions/<vhost>/<user>   {"version":1,"vhost":…,"user":…,"configure":…,"write":…,"read":…}
    topic-permissions/<vhost>/<user>/<exchange>
                                 {"version":1,"vhost":…,"user":…,"exchange":…,"write":…,"read":…}
    user-limits/<user>           {"version":1,"user":…,"limits":{"max-channels":…}}

Names in keys are percent-encoded (all but letters, digits and ``_.-~``), so a name cannot reach
into another's key. Names are read from the values.
"""

from typing import Literal, TypeVar

import msgspec

from routelog.log_backend import Change, MetadataCorrupt
from routelog.vhosts.arguments.limits import Limits
from routelog.vhosts.errors import InvalidPermission, InvalidUser
from routelog.vhosts.stored.permission import Permission, TopicPermission
from routelog.vhosts.stored.topology_record import record_key
from routelog.vhosts.stored.user import User

USERS_PREFIX = b"users/"
PERMISSIONS_PREFIX = b"permissions/"
TOPIC_PERMISSIONS_PREFIX = b"topic-permissions/"
USER_LIMITS_PREFIX = b"user-limits/"


class _UserRecord(msgspec.Struct, frozen=True):
    name: str
    password_hash: str
    tags: list[str]
    version: Literal[1] = 1


class _PermissionRecord(msgspec.Struct, frozen=True):
    vhost: str
    user: str
    configure: str
    write: str
    read: str
    version: Literal[1] = 1


class _TopicPermissionRecord(msgspec.Struct, frozen=True):
    vhost: str
    user: str
    exchange: str
    write: str
    read: str
    version: Literal[1] = 1


class _UserLimitsRecord(msgspec.Struct, frozen=True):
    user: str
    limits: dict[str, int]
    version: Literal[1] = 1


_Record = TypeVar(
    "_Record", _UserRecord, _PermissionRecord, _TopicPermissionRecord, _UserLimitsRecord
)


def user_change(user: User) -> Change:
    """Write the user."""
    record = _UserRecord(user.name, user.password_hash, list(user.tags))
    return Change(record_key("users", user.name), msgspec.json.encode(record))


def user_deletion(user: str) -> Change:
    """Delete the user, but not his permissions."""
    return Change(record_key("users", user), None)


def permission_change(user: str, vhost: str, permission: Permission) -> Change:
    """Write what the user may do in the virtual host."""
    record = _PermissionRecord(vhost, user, permission.configure, permission.write, permission.read)
    return Change(record_key("permissions", vhost, user), msgspec.json.encode(record))


def permission_deletion(user: str, vhost: str) -> Change:
    """Delete what the user may do in the virtual host."""
    return Change(record_key("permissions", vhost, user), None)


def topic_permission_change(user: str, vhost: str, permission: TopicPermission) -> Change:
    """Write which keys of a topic exchange the user may use."""
    record = _TopicPermissionRecord(
        vhost, user, permission.exchange, permission.write, permission.read
    )
    key = record_key("topic-permissions", vhost, user, permission.exchange)
    return Change(key, msgspec.json.encode(record))


def topic_permission_deletion(user: str, vhost: str, exchange: str) -> Change:
    """Delete which keys of a topic exchange the user may use."""
    return Change(record_key("topic-permissions", vhost, user, exchange), None)


def user_limits_change(user: str, limits: Limits) -> Change:
    """Write the user's limits; delete them when there are none."""
    key = record_key("user-limits", user)
    record = _UserLimitsRecord(user, dict(limits))
    return Change(key, msgspec.json.encode(record) if limits else None)


def decode_user(key: bytes, value: bytes) -> User:
    """Read a user back.

    Raises:
        MetadataCorrupt: it cannot be one that `user_change` wrote.
    """
    record = _decode(key, value, _UserRecord)
    try:
        return User(record.name, record.password_hash, tuple(record.tags))
    except InvalidUser as error:
        raise MetadataCorrupt(f"{key!r}: {error}") from error


def decode_permission(key: bytes, value: bytes) -> tuple[str, str, Permission]:
    """Read a permission back: the user's name, the virtual host's and what is allowed.

    Raises:
        MetadataCorrupt: it cannot be one that `permission_change` wrote.
    """
    record = _decode(key, value, _PermissionRecord)
    try:
        permission = Permission(record.configure, record.write, record.read)
    except InvalidPermission as error:
        raise MetadataCorrupt(f"{key!r}: {error}") from error
    return record.user, record.vhost, permission


def decode_topic_permission(key: bytes, value: bytes) -> tuple[str, str, TopicPermission]:
    """Read a topic permission back: the user's name, the virtual host's and what is allowed.

    Raises:
        MetadataCorrupt: it cannot be one that `topic_permission_change` wrote.
    """
    record = _decode(key, value, _TopicPermissionRecord)
    permission = TopicPermission(record.exchange, record.write, record.read)
    return record.user, record.vhost, permission


def decode_user_limits(key: bytes, value: bytes) -> tuple[str, Limits]:
    """Read a user's name and limits back.

    Raises:
        MetadataCorrupt: it cannot be what `user_limits_change` wrote.
    """
    record = _decode(key, value, _UserLimitsRecord)
    return record.user, record.limits


def _decode(key: bytes, value: bytes, record_type: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(value, type=record_type)
    except msgspec.MsgspecError as error:
        raise MetadataCorrupt(f"{key!r}: {error}") from error
