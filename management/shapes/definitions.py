"""What definitions hold: virtual hosts, users, permissions, policies, limits and parameters."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from routelog.management.shapes.statistics import ChannelMessageStats, Details


class PolicyRow(Struct, kw_only=True):
    """A policy; the last key tells of one that is not looked at any more."""

    vhost: str
    name: str
    pattern: str
    apply_to: str = field(name="apply-to")
    definition: Mapping[str, Any]
    priority: int
    pattern_took_too_long_for: str | UnsetType = UNSET


class VhostLimits(Struct):
    """The limits of a vhost, by name."""

    vhost: str
    value: Mapping[str, int]


class UserLimits(Struct):
    """The limits of a user, by name."""

    user: str
    value: Mapping[str, int]


class ParameterRow(Struct):
    """A parameter of a vhost."""

    value: Any
    vhost: str
    component: str
    name: str


class GlobalParameterRow(Struct):
    """A global parameter."""

    name: str
    value: Any


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


class VhostMetadata(Struct, kw_only=True):
    """What is said of a vhost."""

    description: str
    tags: list[str]
    default_queue_type: str | UnsetType = UNSET


class VhostRow(Struct, kw_only=True):
    """A vhost; in lists, messages are those of the last sample, and are missing before the first."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    metadata: VhostMetadata
    tracing: bool
    cluster_state: dict[str, str]
    messages: int | UnsetType = UNSET
    messages_ready: int | UnsetType = UNSET
    messages_unacknowledged: int | UnsetType = UNSET
    messages_details: Details | UnsetType = UNSET
    messages_ready_details: Details | UnsetType = UNSET
    messages_unacknowledged_details: Details | UnsetType = UNSET
    message_stats: ChannelMessageStats | UnsetType = UNSET
