"""Converts values of field tables to a form that compares and hashes as in AMQP."""

import math
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

NESTING_MAX = 32  # tables in tables; far above any real header, far below the recursion limit

_FIELD_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "signedint"),
    (float, "double"),
    (str, "longstr"),
    (bytes, "binary"),
    (bytearray, "binary"),
    (Decimal, "decimal"),
    (datetime, "timestamp"),
    (Mapping, "table"),
    (list, "array"),
    (type(None), "void"),
)


class Incomparable(Exception):
    """A value nested too deeply, or of no AMQP type."""


def comparable(value: object, nesting: int = 0) -> Hashable:
    """Return a hashable twin of a field value; values that RabbitMQ calls equal have equal twins.

    Integers and floats of every width are equal by number, timestamps count as their seconds,
    strings and byte arrays are equal by bytes. Booleans are not numbers. Void becomes None.

    Raises:
        Incomparable: the value is nested too deeply or no AMQP field type.

    Source:
        RabbitMQ compares decoded Erlang terms with `==` (rabbit_exchange_type_headers).
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, float) and math.isnan(value):
        return (float, "nan")
    if value is None or isinstance(value, int | float | bytes):
        return value
    return _rare_comparable(value, nesting)


def comparable_table(table: Mapping[str, object], nesting: int = 0) -> Hashable:
    """Return a hashable twin of a whole field table; the order of fields does not count."""
    return frozenset((name, comparable(value, nesting)) for name, value in table.items())


def octets(value: object) -> bytes:
    """Return octets that are equal for equal field values of one type, and differ otherwise.

    A string and a byte array of the same bytes count as equal. Empty for void.
    """
    if isinstance(value, str):
        return b"S" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"S" + value
    return b"" if value is None else f"{type(value).__name__} {value!r}".encode()


def field_type(value: object) -> str:
    """Return the name of a field's type, as RabbitMQ writes it in its error texts."""
    return next((name for kind, name in _FIELD_TYPES if isinstance(value, kind)), "unknown")


def _rare_comparable(value: object, nesting: int) -> Hashable:
    if nesting >= NESTING_MAX:
        raise Incomparable(f"nested deeper than {NESTING_MAX}")
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, Decimal):
        return (Decimal, value.as_tuple())
    if isinstance(value, list | tuple):
        return (list, tuple(comparable(item, nesting + 1) for item in value))
    if isinstance(value, Mapping):
        return (dict, comparable_table(value, nesting + 1))
    raise Incomparable(f"{type(value).__name__} is no field type")
