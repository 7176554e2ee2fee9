"""Limits that an operator sets on a virtual host or a user, with RabbitMQ's names."""

from collections.abc import Iterable, Mapping

from routelog.vhosts.errors import InvalidLimit

MAX_CONNECTIONS = "max-connections"
MAX_QUEUES = "max-queues"
MAX_CHANNELS = "max-channels"
# Our own
MAX_BINDINGS = "max-bindings"  # of a user, those that he has made
MAX_PUBLISH_RATE = "max-publish-rate"  # messages a second
MAX_PUBLISH_BYTES_RATE = "max-publish-bytes-rate"  # bytes of bodies a second

PUBLISH_RATES = (MAX_PUBLISH_RATE, MAX_PUBLISH_BYTES_RATE)
VHOST_LIMITS = (MAX_CONNECTIONS, MAX_QUEUES, MAX_BINDINGS, *PUBLISH_RATES)
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS, MAX_BINDINGS, *PUBLISH_RATES)

Limits = Mapping[str, int]  # by name; below zero is no limit, as in RabbitMQ


def checked_limits(known: Iterable[str], values: Mapping[str, object]) -> dict[str, int]:
    """Check a mapping of limits.

    Raises:
        InvalidLimit: names the first limit that is unknown, no integer, or a rate of 0.
    """
    limits: dict[str, int] = {}
    for name, value in values.items():
        if name not in known:
            raise InvalidLimit(name, f"expected one of {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidLimit(name, "expected an integer")
        if value == 0 and name in PUBLISH_RATES:  # who waits for it would wait for ever
            raise InvalidLimit(name, "expected 1 or more, or a negative number: no limit")
        limits[name] = value
    return limits


def reached(limits: Limits, name: str, count: int) -> int | None:
    """The limit, when `count` has reached it; None when there is room."""
    limit = limits.get(name, -1)
    return limit if 0 <= limit <= count else None
