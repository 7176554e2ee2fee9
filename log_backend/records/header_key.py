"""The key that a header of a message is, found in its property list without reading the others.

What is malformed has no headers.
"""

from routelog.log_backend.records.property_list import HEADERS, MalformedProperties, header_value

_SIGNED = b"bsUIlL"
_UNSIGNED = b"Bui"
TEXT_KINDS = b"Sx"  # letters of the types whose values are octets


def header_key(properties: bytes, name: bytes) -> bytes | None:
    """The octets that a header gives as a key.

    Returns:
        The content of a string or byte array; an integer in decimal; None when there is no such header
        or its value is something else.
    """
    found = header_part(properties, name)
    return None if found is None else key_octets(*found)


def header_part(properties: bytes, name: bytes) -> tuple[int, bytes] | None:
    """The letter of a header's type, and its content; None when there is no such header."""
    if not int.from_bytes(properties[:2], "big") & HEADERS:
        return None
    try:
        value = header_value(properties, name)
    except MalformedProperties:
        return None
    return None if value is None else (value[0], _content(value))


def key_octets(kind: int, content: bytes) -> bytes | None:
    """What a value is as a key, by the letter of its type; None when it is none."""
    if kind in TEXT_KINDS:
        return content
    number = whole_number(kind, content)
    return None if number is None else b"%d" % number


def is_signed(kind: int) -> bool:
    """Whether integers of a type may be negative."""
    return kind in _SIGNED


def whole_number(kind: int, content: bytes) -> int | None:
    """The integer that a value is, by the letter of its type; None when it is something else."""
    if kind in _SIGNED or kind in _UNSIGNED:
        return int.from_bytes(content, "big", signed=kind in _SIGNED)
    return None


def _content(value: bytes) -> bytes:
    return value[5:] if value[0] in b"SxFA" else value[1:]
