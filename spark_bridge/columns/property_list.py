"""A property list as on the wire, read into values.

What cannot be read is None, never an error: one odd message must not stop the reading of a log.

Source:
    AMQP 0-9-1, 4.2.6.1 (property lists) and 4.2.5 (data types).
"""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from pamqp.decode import field_table

_CONTINUED = 1  # another word of flags follows; basic properties need just one
_SECONDS_MAX = 253_402_300_799  # the end of the year 9999, the last that Python and SQL can write

_V = TypeVar("_V")
_Reader = Callable[[bytes, int], tuple[object, int]]


def parse_property_list(data: bytes) -> dict[str, object] | None:
    """Values of the properties that are present, by name; None when the list is malformed.

    `timestamp` is in microseconds, or None when it is too far away. `headers` is the encoded
    table.
    """
    flags = int.from_bytes(data[:2], "big")
    if len(data) < 2 or flags & _CONTINUED:
        return None
    values: dict[str, object] = {}
    at = 2
    for flag, name, read in _PROPERTIES:
        if flags & flag:
            values[name], at = read(data, at)
    return values if at <= len(data) else None


def header_texts(table: bytes) -> dict[str, str | None] | None:
    """Headers of an encoded table, each value as text; None when the table is malformed.

    Numbers in decimal, times in ISO 8601, nested tables and arrays in JSON, what is no UTF-8
    text in base64, void as None.
    """
    return _header_values(table, _text)


def header_bytes(table: bytes) -> dict[str, bytes | None] | None:
    """Headers of an encoded table as bytes: byte arrays as they are, else the text in UTF-8."""
    return _header_values(table, _octets)


def _header_values(table: bytes, convert: Callable[[object], _V]) -> dict[str, _V] | None:
    try:
        decoded = field_table(table)[1]
        # Consumers do not see whom blind copies went to, and neither do readers.
        return {name: convert(value) for name, value in decoded.items() if name != "BCC"}
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
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


def _short_string(data: bytes, at: int) -> tuple[object, int]:
    length, start = _octet(data, at)
    end = start + length
    return data[start:end].decode(errors="replace"), end


def _octet(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + 1], "big"), at + 1


def _timestamp(data: bytes, at: int) -> tuple[object, int]:
    seconds = int.from_bytes(data[at : at + 8], "big")
    return seconds * 1_000_000 if seconds <= _SECONDS_MAX else None, at + 8


def _table(data: bytes, at: int) -> tuple[object, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    return data[at:end], end


# In the order of the list.
_PROPERTIES: tuple[tuple[int, str, _Reader], ...] = (
    (1 << 15, "content_type", _short_string),
    (1 << 14, "content_encoding", _short_string),
    (1 << 13, "headers", _table),
    (1 << 12, "delivery_mode", _octet),
    (1 << 11, "priority", _octet),
    (1 << 10, "correlation_id", _short_string),
    (1 << 9, "reply_to", _short_string),
    (1 << 8, "expiration", _short_string),
    (1 << 7, "message_id", _short_string),
    (1 << 6, "timestamp", _timestamp),
    (1 << 5, "type", _short_string),
    (1 << 4, "user_id", _short_string),
    (1 << 3, "app_id", _short_string),
    (1 << 2, "cluster_id", _short_string),
)
