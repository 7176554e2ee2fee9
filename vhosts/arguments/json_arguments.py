"""Arguments of exchanges, queues and bindings, from JSON and to JSON."""

import struct
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from routelog.vhosts.arguments.argument_table import encode_arguments
from routelog.vhosts.errors import InvalidArguments

DEPTH_MAX = 32  # as in a field table that a client sends
# The most that the arguments of one declaration take in memory and in the store
FIELDS_BYTES_MAX = 65_536


def checked_arguments(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments, if a field table can hold them.

    Raises:
        InvalidArguments: as `encoded_arguments`.
    """
    encoded_arguments(arguments)
    return arguments


def encoded_arguments(arguments: Mapping[str, object]) -> bytes:
    """The fields of a table from JSON, encoded as RabbitMQ does: numbers have 64 bits.

    Raises:
        InvalidArguments: a name is too long, or a value too large, or nested too deeply.
    """
    if _depth(arguments) > DEPTH_MAX:
        raise InvalidArguments(f"nested deeper than {DEPTH_MAX}")
    try:
        fields = encode_arguments(arguments)
    except (TypeError, ValueError, struct.error):
        raise InvalidArguments("a name or a value is not one that AMQP knows") from None
    if len(fields) > FIELDS_BYTES_MAX:
        raise InvalidArguments(f"larger than {FIELDS_BYTES_MAX} bytes")
    return fields


def plain_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """Arguments with JSON values only: times become seconds, bytes become text or base64."""
    return {name: _plain(value) for name, value in arguments.items()}


def _plain(value: object) -> object:
    if isinstance(value, str | int):  # nearly always, and to ask for a mapping takes longer
        return value
    if isinstance(value, Mapping):
        return plain_arguments(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, datetime):
        return int(value.timestamp())
    return float(value) if isinstance(value, Decimal) else value


def _depth(value: object) -> int:
    # Level by level, not recursive: a client may have nested the value deeply.
    depth, level = 0, [value]
    while level and depth <= DEPTH_MAX:
        inner: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        depth, level = depth + 1, [each for each in inner if isinstance(each, Mapping | list)]
    return depth
