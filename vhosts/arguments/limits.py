"""Limits that an operator sets on a virtual host or a user, with RabbitMQ's names."""

from collections.abc import Iterable, Mapping

from routelog.vhosts.errors import InvalidLimit

MAX_CONNECTIONS = "max-connections"
MAX_QUEUES = "max-queues"
MAX_CHANNELS = "max-channels"
MAX_BINDINGS = "max-bindings"  # our own; of a user, those that he has made

VHOST_LIMITS = (MAX_CONNECTIONS, MAX_QUEUES, MAX_BINDINGS)
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS, MAX_BINDINGS)

Limits = Mapping[str, int]  # by name; below zero is no limit, as in RabbitMQ


def checked_limits(known: Iterable[str], values: Mapping[str, object]) -> dict[str, int]:
    """Check a mapping of limits.

    Raises:
        InvalidLimit: names the first limit that is unknown, or no integer.
    """
    limits: dict[str, int] = {}
    for name, value in values.items():
        if name not in known:
            raise InvalidLimit(name, f"expected one of {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidLimit(name, "expected an integer")
        limits[name] = value
    return limits


def reached(limits: Limits, name: str, count: int) -> int | None:
    """The limit, when `count` has reached it; None when there is room."""
    limit = limits.get(name, -1)
    return limit if 0 <= limit <= count else None
