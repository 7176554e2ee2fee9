"""One header of a message, found in its property list without reading the others.

What is malformed has no headers.
"""

import struct
from contextlib import suppress

from routelog.log_backend import TEXT_KINDS, header_part, is_signed, key_octets, whole_number

_INTEGER_BYTES = {1: b"bB", 2: b"sUu", 4: b"Ii", 8: b"lL"}  # size of the content: letters
_DIGITS_MAX = 20  # of an integer of 64 bits, with its sign
_OTHERS = {ord("t"): ">?", ord("f"): ">f", ord("d"): ">d", ord("T"): ">Q"}


def header_integer(properties: bytes, name: bytes) -> int | None:
    """The integer that a header is; None when there is no such header or its value is something else."""
    found = header_part(properties, name)
    return None if found is None else whole_number(*found)


def header_values(key: bytes) -> list[bytes]:
    """The values that `header_key` gives as a key: with their letters, as on the wire."""
    values = [b"%c%b%b" % (kind, len(key).to_bytes(4, "big"), key) for kind in TEXT_KINDS]
    if len(key) > _DIGITS_MAX or not key.removeprefix(b"-").isdigit() or b"%d" % int(key) != key:
        return values
    for size, kinds in _INTEGER_BYTES.items():
        for kind in kinds:
            with suppress(OverflowError):  # of a type that is too small for it
                content = int(key).to_bytes(size, "big", signed=is_signed(kind))
                values.append(b"%c%b" % (kind, content))
    return values


def header_scalar(properties: bytes, name: bytes) -> bytes | int | float | bool | None:
    """The value of a header.

    Returns:
        Octets of a string or byte array; a number, a boolean, or a time in seconds; None when there is no such
        header or its value is something else.
    """
    found = header_part(properties, name)
    if found is None:
        return None
    kind, content = found
    if kind in TEXT_KINDS:
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
    found = header_part(properties, name)
    if found is None:
        return None
    kind, content = found
    if kind in TEXT_KINDS:
        return b"S" + content
    number = key_octets(kind, content)
    return bytes((kind,)) + content if number is None else b"I" + number
