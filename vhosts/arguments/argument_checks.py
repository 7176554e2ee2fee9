"""Checks of the values of queue arguments and policy keys."""

import re
from collections.abc import Callable, Mapping

from routelog.exchanges import field_type
from routelog.log_backend import Durability

MICROSECONDS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "D": 86_400_000_000}
MICROSECONDS |= {"d": MICROSECONDS["D"], "M": 30 * MICROSECONDS["D"], "Y": 365 * MICROSECONDS["D"]}
AGE_MAX = 2**62  # us: a time so long ago still fits into 64 bits
_AGE = re.compile(r"([0-9]{1,9})([smhdDMY])")

QUEUE_TYPES = ("classic", "quorum", "stream")
MIRRORED = "mirrored"  # durable on all replicas in sync: on a node on its own the level disk
DURABILITIES = (*Durability, MIRRORED)
OVERFLOWS = ("drop-head", "reject-publish", "reject-publish-dlx")
COMPRESSIONS = ("none", "zstd", "lz4")
RETRIES = ("disabled", "all", "failed", "returned")
DEAD_LETTER_STRATEGIES = ("at-most-once", "at-least-once")
CLEANUPS = ("delete", COMPACT := "compact")
BY_KEY, ROUND_ROBIN, HEADER = PARTITION_STRATEGIES = ("key", "round-robin", "header")

KEY_BYTES_MAX = 255  # a short string: the longest routing key
HEADER_NAME_BYTES_MAX = 255  # a short string: the longest name of a header

Check = Callable[[object], str | None]  # returns the fault of a value; None: it is valid


def integer(low: int, high: int = 2**63 - 1) -> Check:
    """A whole number."""

    def check(value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"unacceptable type '{field_type(value)}'"
        return None if low <= value <= high else f"value {value} is not between {low} and {high}"

    return check


def one_of(*values: str) -> Check:
    """One of some words."""

    def check(value: object) -> str | None:
        return (
            None
            if value in values
            else f"invalid value {value!r}, expected one of {', '.join(values)}"
        )

    return check


def text(value: object) -> str | None:
    """Any text."""
    return None if isinstance(value, str) else f"unacceptable type '{field_type(value)}'"


def routing_key(value: object) -> str | None:
    """A text that a frame can carry: a message with a longer key would end the connection of each consumer."""
    if not isinstance(value, str):
        return text(value)
    size = len(value.encode(errors="replace"))
    return f"longer than {KEY_BYTES_MAX} bytes" if size > KEY_BYTES_MAX else None


def header_name(value: object) -> str | None:
    """A valid name of a header."""
    if not isinstance(value, str):
        return text(value)
    if 1 <= len(value.encode()) <= HEADER_NAME_BYTES_MAX:
        return None
    return f"a header's name has 1 to {HEADER_NAME_BYTES_MAX} bytes"


def flag(value: object) -> str | None:
    """True or false."""
    return None if isinstance(value, bool) else f"unacceptable type '{field_type(value)}'"


def age(value: object) -> str | None:
    """An age such as "7d"."""
    if isinstance(value, str) and _AGE.fullmatch(value):
        return None
    return "expected a number and one of Y, M, D, d, h, m, s"


def age_microseconds(value: object) -> int | None:
    """An age such as "7d" in microseconds, at most AGE_MAX; None: it is no age."""
    match = _AGE.fullmatch(value) if isinstance(value, str) else None
    return min(int(match[1]) * MICROSECONDS[match[2]], AGE_MAX) if match else None


# What RabbitMQ has and has no effect here, as keys of policies: checked and kept.
WITHOUT_EFFECT: Mapping[str, Check] = {
    "queue-mode": one_of("default", "lazy"),
    "queue-version": integer(1, 2),
    "queue-master-locator": one_of("min-masters", "client-local", "random"),
    "queue-leader-locator": one_of("client-local", "balanced", "random", "least-leaders"),
    "max-in-memory-length": integer(0),
    "max-in-memory-bytes": integer(0),
    "stream-max-segment-size-bytes": integer(0),
    "initial-cluster-size": integer(1),
}
