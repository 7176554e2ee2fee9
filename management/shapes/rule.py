"""Policies, limits and parameters."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


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
