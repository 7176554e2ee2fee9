"""Parses a property list, as it is on the wire, to values.

A malformed list or value becomes None, and is no error: one such message must not stop the reading of a log.

Source:
    AMQP 0-9-1, 4.2.6.1 (property lists) and 4.2.5 (data types).
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

from routelog.log_backend.records.property_list import (
    FIRST_FLAG,
    PROPERTY_NAMES,
    MalformedProperties,
    decode_table,
    property_places,
)

_SECONDS_MAX = 253_402_300_799  # the end of the year 9999, the last year of Python and SQL

_V = TypeVar("_V")
_NAMES = {FIRST_FLAG >> place: name for place, name in enumerate(PROPERTY_NAMES)}


def parse_property_list(data: bytes) -> dict[str, object] | None:
    """Return the given properties by name; None if the list is malformed.

    `timestamp` is in microseconds, or None if it is after the year 9999. `headers` is the encoded table.
    """
    try:
        places = property_places(data)
    except MalformedProperties:
        return None
    return {_NAMES[flag]: _value(_NAMES[flag], data[start:end]) for flag, start, end in places}


def header_texts(table: bytes) -> dict[str, str | None] | None:
    """Return the headers of an encoded table, each value as text; None if the table is malformed.

    Numbers are decimal, times ISO 8601, nested tables and arrays JSON, octets that are not UTF-8 base64. Void
    is None.
    """
    return _header_values(table, _text)


def header_bytes(table: bytes) -> dict[str, bytes | None] | None:
    """Return the headers of an encoded table as bytes: byte arrays unchanged, other values as text in UTF-8."""
    return _header_values(table, _octets)


def _header_values(table: bytes, convert: Callable[[object], _V]) -> dict[str, _V] | None:
    try:
        if len(table) < 4 or len(table) != 4 + int.from_bytes(table[:4], "big"):
            return None
        decoded = decode_table(table, 4, len(table), moment=_moment)
        # Readers must not see the receivers of blind copies, as consumers do not.
        return {name: convert(value) for name, value in decoded.items() if name != "BCC"}
    except (ValueError, OverflowError, OSError):
        return None


def _octets(value: object) -> bytes | None:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    text = _text(value)
    return None if text is None else text.encode()


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, default=_text, ensure_ascii=False)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value)


def _moment(seconds: int) -> datetime:
    # Some clients send milliseconds; a time beyond the year 9999 has no text.
    return datetime.fromtimestamp(seconds / 1000 if seconds > 0xFFFF_FFFF else seconds, UTC)


def _value(name: str, octets: bytes) -> object:
    # The octets begin with their length, if the property has one.
    if name == "headers":
        return octets
    if name in ("delivery_mode", "priority"):
        return octets[0]
    if name == "timestamp":
        seconds = int.from_bytes(octets, "big")
        return seconds * 1_000_000 if seconds <= _SECONDS_MAX else None
    return octets[1:].decode(errors="replace")
