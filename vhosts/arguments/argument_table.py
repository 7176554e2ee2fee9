"""Arguments of exchanges, queues and bindings as bytes: an AMQP field table, one form for each value::

    field    name length u8 | name | letter | value                               (big-endian)
    t        bool, u8
    l        int, i64
    d        float, f64
    D        Decimal: scale u8, i32
    T        datetime: seconds since 1970, u64; also an int above i64, which is a timestamp beyond the year 9999
    S x      str, bytes: length u32, content
    F A      table, array: length u32, fields or values
    V        None

Fields are sorted by name, so that equal arguments give equal bytes. Every value that a client can send
comes back equal, floats and long names included.
"""

import struct
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from routelog.log_backend import decode_table

_BOOL = struct.Struct(">?")
_INT = struct.Struct(">q")
_FLOAT = struct.Struct(">d")
_DECIMAL = struct.Struct(">Bi")
_SECONDS = struct.Struct(">Q")
_LENGTH = struct.Struct(">I")


def encode_arguments(arguments: Mapping[str, object]) -> bytes:
    """The fields of a table.

    Raises:
        TypeError: a value is of no AMQP field type.
    """
    fields = bytearray()
    for name in sorted(arguments):
        encoded = name.encode()
        fields += bytes((len(encoded),)) + encoded + _encoded(arguments[name])
    return bytes(fields)


def decode_arguments(fields: bytes) -> dict[str, object]:
    """The arguments that `encode_arguments` was given; also what a client sent with other letters.

    Raises:
        MalformedProperties: it is no table.
    """
    return decode_table(fields, 0, len(fields))


def _encoded(value: object) -> bytes:
    if isinstance(value, bool):
        return b"t" + _BOOL.pack(value)
    if isinstance(value, int):
        return b"l" + _INT.pack(value) if value < 1 << 63 else b"T" + _SECONDS.pack(value)
    if isinstance(value, float):
        return b"d" + _FLOAT.pack(value)
    if isinstance(value, Decimal):
        scale = -int(value.as_tuple().exponent)
        return b"D" + _DECIMAL.pack(scale, int(value.scaleb(scale)))
    if isinstance(value, datetime):
        return b"T" + _SECONDS.pack(int(value.timestamp()))
    if value is None:
        return b"V"
    return _encoded_long(value)


def _encoded_long(value: object) -> bytes:
    if isinstance(value, str):
        letter, content = b"S", value.encode()
    elif isinstance(value, bytes | bytearray):
        letter, content = b"x", bytes(value)
    elif isinstance(value, Mapping):
        letter, content = b"F", encode_arguments(value)
    elif isinstance(value, list):
        letter, content = b"A", b"".join(map(_encoded, value))
    else:
        raise TypeError(f"{type(value).__name__} is no field type")
    return letter + _LENGTH.pack(len(content)) + content
