"""Health checks."""

from typing import Any, Literal, NotRequired, TypedDict


class Healthy(TypedDict):
    """All is well; what was asked for comes along."""

    status: Literal["ok"]
    reason: NotRequired[str]
    port: NotRequired[int]
    protocol: NotRequired[str]


class Alarm(TypedDict):
    """What publishers wait for."""

    node: str
    resource: str


class Unhealthy(TypedDict):
    """What is wrong; the rest depends on the check."""

    status: Literal["failed"]
    reason: str
    alarms: NotRequired[list[Alarm]]
    expired: NotRequired[list[dict[str, Any]]]
    queues: NotRequired[list[dict[str, Any]]]
    missing: NotRequired[int | str]
    ports: NotRequired[list[int]]
    protocols: NotRequired[list[str]]
