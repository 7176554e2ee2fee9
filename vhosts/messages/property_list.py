"""The property list of a stored message: cut into raw parts, changed, and put together again.

    properties   flags u16 | content type | content encoding | header table | ...      each if its flag is set

What is not changed keeps its bytes.

Source: AMQP 0-9-1 specification, section 4.2.6.1 and class basic.
"""

from routelog.log_backend import (
    DELIVERY_MODE,
    EXPIRATION,
    FIRST_FLAG,
    HEADERS,
    LAST_FLAG,
    PRIORITY,
    TIMESTAMP,
    MalformedProperties,
    property_places,
    table_fields,
)

_SIZED = (DELIVERY_MODE, PRIORITY, TIMESTAMP)  # no length goes before them
_LOOKED_AT = {"correlation_id": 1 << 10, "message_id": 1 << 7, "timestamp": TIMESTAMP}
_EXPIRATION_DIGITS_MAX = 15  # ten years of milliseconds have twelve


class PropertyList:
    """A property list in parts.

    Attributes:
        headers: by name, the letter of the type and the value, as on the wire.
    """

    __slots__ = ("_parts", "headers")

    def __init__(self, raw: bytes) -> None:
        """Cut a list into its parts.

        Raises:
            MalformedProperties: it is none.
        """
        self.headers: dict[bytes, bytes] = {}
        self._parts: dict[int, bytes] = {}  # by flag, lengths included; not the headers
        for flag, start, end in property_places(raw):
            if flag == HEADERS:
                self.headers = dict(table_fields(raw, start + 4, end))
            else:
                self._parts[flag] = raw[start:end]

    def pop(self, flag: int) -> bytes | None:
        """Remove a property that is a string; returns its content, None when it is not there."""
        part = self._parts.pop(flag, None)
        return None if part is None else part[1:]

    def value(self, name: str) -> bytes | None:
        """The octets of a property that exchanges look at, by its name; None when it is not there."""
        flag = _LOOKED_AT.get(name, 0)
        part = self._parts.get(flag)
        return part if part is None or flag in _SIZED else part[1:]

    def encode(self) -> bytes:
        """The list as on the wire."""
        flags = 0
        parts: list[bytes] = []
        flag = FIRST_FLAG
        while flag >= LAST_FLAG:
            part = self._parts.get(flag)
            if flag == HEADERS and self.headers:
                part = encode_table(self.headers)
            if part is not None:
                flags |= flag
                parts.append(part)
            flag >>= 1
        return b"".join((flags.to_bytes(2, "big"), *parts))


def expiration(raw: bytes) -> int | None:
    """The expiration of a message in milliseconds; None when it has none.

    Cost:
        One look at the flags when there is none, else a walk over what stands before it.
    """
    content = _content(raw, EXPIRATION)
    if content is None or not content[1:].isdigit() or len(content) > _EXPIRATION_DIGITS_MAX + 1:
        return None
    return int(content[1:])


def is_persistent(raw: bytes) -> bool:
    """Whether the delivery mode of a message is 2."""
    return _content(raw, DELIVERY_MODE) == b"\x02"


def priority(raw: bytes) -> int:
    """The priority of a message; 0 when it has none."""
    content = _content(raw, PRIORITY)
    return content[0] if content else 0


def identifier(raw: bytes, name: str) -> bytes | None:
    """The `message_id` or `correlation_id` of a message; None when it has none."""
    content = _content(raw, _LOOKED_AT[name])
    return None if content is None else content[1:]


def timestamp(raw: bytes) -> int | None:
    """The timestamp of a message, in seconds since 1970; None when it has none."""
    content = _content(raw, TIMESTAMP)
    return None if content is None else int.from_bytes(content, "big")


def property_value(raw: bytes, flag: int) -> bytes | int | None:
    """A property that is not the headers, by its flag: octets of a text, or a number; None: there is none."""
    content = _content(raw, flag)
    if content is None:
        return None
    return int.from_bytes(content, "big") if flag in _SIZED else content[1:]


def _content(raw: bytes, wanted: int) -> bytes | None:
    if not int.from_bytes(raw[:2], "big") & wanted:
        return None
    try:
        places = property_places(raw)
    except MalformedProperties:
        return None
    return next((raw[start:end] for flag, start, end in places if flag == wanted), None)


def encode_table(table: dict[bytes, bytes]) -> bytes:
    """A table with its length, of names and values with their letters."""
    content = b"".join(bytes((len(name),)) + name + value for name, value in table.items())
    return len(content).to_bytes(4, "big") + content
