"""One header of a message, found in its property list without reading the others.

What is malformed has no headers.
"""

import struct
from contextlib import suppress

from routelog.log_backend import HEADERS, MalformedProperties, header_value

_SIGNED = b"bsUIlL"
_UNSIGNED = b"Bui"
_TEXT = b"Sx"
_INTEGER_BYTES = {1: b"bB", 2: b"sUu", 4: b"Ii", 8: b"lL"}  # size of the content: letters
_DIGITS_MAX = 20  # of an integer of 64 bits, with its sign
_OTHERS = {ord("t"): ">?", ord("f"): ">f", ord("d"): ">d", ord("T"): ">Q"}


def header_key(properties: bytes, name: bytes) -> bytes | None:
    """The octets that a header gives as a key.

    Returns:
        The content of a string or byte array; an integer in decimal; None when there is no such header
        or its value is something else.
    """
    found = _value(properties, name)
    return None if found is None else _key(*found)


def header_integer(properties: bytes, name: bytes) -> int | None:
    """The integer that a header is; None when there is no such header or its value is something else."""
    found = _value(properties, name)
    return None if found is None else whole_number(*found)


def header_values(key: bytes) -> list[bytes]:
    """The values that `header_key` gives as a key: with their letters, as on the wire."""
    values = [b"%c%b%b" % (kind, len(key).to_bytes(4, "big"), key) for kind in _TEXT]
    if len(key) > _DIGITS_MAX or not key.removeprefix(b"-").isdigit() or b"%d" % int(key) != key:
        return values
    for size, kinds in _INTEGER_BYTES.items():
        for kind in kinds:
            with suppress(OverflowError):  # of a type that is too small for it
                content = int(key).to_bytes(size, "big", signed=kind in _SIGNED)
                values.append(b"%c%b" % (kind, content))
    return values


def header_scalar(properties: bytes, name: bytes) -> bytes | int | float | bool | None:
    """The value of a header.

    Returns:
        Octets of a string or byte array; a number, a boolean, or a time in seconds; None when there is no such
        header or its value is something else.
    """
    found = _value(properties, name)
    if found is None:
        return None
    kind, content = found
    if kind in _TEXT:
        return content
    if kind in _OTHERS:
        value: int | float | bool = struct.unpack(_OTHERS[kind], content)[0]
        return value
    if kind == ord("D"):
        return int.from_bytes(content[1:], "big", signed=True) / float(10 ** content[0])
    return whole_number(kind, content)


def header_identity(properties: bytes, name: bytes) -> bytes | None:
    """Octets that are the same for equal values of a header, and others for others, also of another type.

    Returns:
        None when there is no such header.
    """
    found = _value(properties, name)
    if found is None:
        return None
    kind, content = found
    if kind in _TEXT:
        return b"S" + content
    number = _key(kind, content)
    return bytes((kind,)) + content if number is None else b"I" + number


def _value(properties: bytes, name: bytes) -> tuple[int, bytes] | None:
    if not int.from_bytes(properties[:2], "big") & HEADERS:
        return None
    try:
        value = header_value(properties, name)
    except MalformedProperties:
        return None
    return None if value is None else (value[0], _content(value))


def _content(value: bytes) -> bytes:
    return value[5:] if value[0] in b"SxFA" else value[1:]


def _key(kind: int, content: bytes) -> bytes | None:
    if kind in _TEXT:
        return content
    number = whole_number(kind, content)
    return None if number is None else b"%d" % number


def whole_number(kind: int, content: bytes) -> int | None:
    """The integer that a value is, by the letter of its type; None when it is something else."""
    if kind in _SIGNED or kind in _UNSIGNED:
        return int.from_bytes(content, "big", signed=kind in _SIGNED)
    return None
