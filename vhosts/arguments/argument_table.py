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
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

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
        struct.error, LookupError, ValueError: it is no table.
    """
    arguments: dict[str, object] = {}
    at = 0
    while at < len(fields):
        value_at = at + 1 + fields[at]
        arguments[fields[at + 1 : value_at].decode()], at = _decoded(fields, value_at)
    return arguments


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


_FIXED: Mapping[bytes, tuple[struct.Struct, Callable[..., object]]] = {
    b"t": (_BOOL, bool),
    b"b": (struct.Struct(">b"), int),
    b"B": (struct.Struct(">B"), int),
    b"s": (struct.Struct(">h"), int),
    b"U": (struct.Struct(">h"), int),
    b"u": (struct.Struct(">H"), int),
    b"I": (struct.Struct(">i"), int),
    b"i": (struct.Struct(">I"), int),
    b"l": (_INT, int),
    b"L": (_INT, int),
    b"f": (struct.Struct(">f"), float),
    b"d": (_FLOAT, float),
    b"D": (_DECIMAL, lambda scale, value: Decimal(value).scaleb(-scale)),
    b"T": (_SECONDS, lambda seconds: _moment(seconds)),
    b"V": (struct.Struct(""), lambda: None),
}
_LONG: Mapping[bytes, Callable[[bytes], object]] = {
    b"S": bytes.decode,
    b"x": bytes,
    b"F": decode_arguments,
    b"A": lambda content: _array(content),
}


def _decoded(fields: bytes, at: int) -> tuple[object, int]:
    letter = fields[at : at + 1]
    at += 1
    if letter in _FIXED:
        layout, make = _FIXED[letter]
        return make(*layout.unpack_from(fields, at)), at + layout.size
    start = at + _LENGTH.size
    end = start + _LENGTH.unpack_from(fields, at)[0]
    return _LONG[letter](fields[start:end]), end


def _array(content: bytes) -> list[object]:
    values: list[object] = []
    at = 0
    while at < len(content):
        value, at = _decoded(content, at)
        values.append(value)
    return values


def _moment(seconds: int) -> datetime | int:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return seconds  # beyond the year 9999, as from clients that send milliseconds
