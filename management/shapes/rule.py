"""Policies, limits and parameters."""

from typing import Any, NotRequired, TypedDict

PolicyRow = TypedDict(
    "PolicyRow",
    {
        "vhost": str,
        "name": str,
        "pattern": str,
        "apply-to": str,
        "definition": dict[str, Any],
        "priority": int,
        "pattern_took_too_long_for": NotRequired[str],
    },
)


class VhostLimits(TypedDict):
    """The limits of a vhost, by name."""

    vhost: str
    value: dict[str, int]


class UserLimits(TypedDict):
    """The limits of a user, by name."""

    user: str
    value: dict[str, int]


class ParameterRow(TypedDict):
    """A parameter of a vhost."""

    value: Any
    vhost: str
    component: str
    name: str


class GlobalParameterRow(TypedDict):
    """A global parameter."""

    name: str
    value: Any
