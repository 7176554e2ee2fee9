"""One header of a message, found in its property list without reading the others.

    properties   flags u16 | content type | content encoding | header table | ...      each if its flag is set
    table        size u32 | fields: name length u8 | name | type | value

What is malformed has no headers: nobody checked the list of a plain message.

Source: AMQP 0-9-1 specification, sections 4.2.5.5 and 4.2.6.1, with the type letters as RabbitMQ reads them.
"""

_CONTENT_TYPE = 1 << 15
_CONTENT_ENCODING = 1 << 14
_HEADERS = 1 << 13

_SIZES = dict(zip(b"tbBsUuIilLfdDTV", (1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 4, 8, 5, 8, 0), strict=True))
_SIGNED = b"bsUIlL"
_UNSIGNED = b"Bui"
_LONG = b"SxFA"
_TEXT = b"Sx"


def header_key(properties: bytes, name: bytes) -> bytes | None:
    """The octets that a header gives as a key.

    Returns:
        The content of a string or byte array; an integer in decimal; None when there is no such header
        or its value is something else.
    """
    found = _value(properties, name)
    return None if found is None else _key(*found)


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
    try:
        return _found(properties, name)
    except IndexError:
        return None


def _found(properties: bytes, name: bytes) -> tuple[int, bytes] | None:
    flags = int.from_bytes(properties[:2], "big")
    if not flags & _HEADERS:
        return None
    at = 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            at += 1 + properties[at]
    end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
    at += 4
    if end > len(properties):
        return None
    while at < end:
        kind_at = at + 1 + properties[at]
        start, after = value_place(properties, kind_at)
        if after > end:
            return None
        if properties[at + 1 : kind_at] == name:
            return properties[kind_at], properties[start:after]
        at = after
    return None


def value_place(properties: bytes, kind_at: int) -> tuple[int, int]:
    """Where the content of a value with its letter at a position begins, and where it ends.

    Raises:
        IndexError: the letter is unknown, or beyond the end.
    """
    kind, start = properties[kind_at], kind_at + 1
    if kind in _LONG:
        return start + 4, start + 4 + int.from_bytes(properties[start : start + 4], "big")
    size = _SIZES.get(kind)
    if size is None:
        raise IndexError(f"unknown field type {kind}")
    return start, start + size


def _key(kind: int, content: bytes) -> bytes | None:
    if kind in _TEXT:
        return content
    if kind in _SIGNED or kind in _UNSIGNED:
        return b"%d" % int.from_bytes(content, "big", signed=kind in _SIGNED)
    return None
