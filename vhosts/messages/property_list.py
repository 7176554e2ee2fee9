"""The property list of a stored message: cut into raw parts, changed, and put together again.

    properties   flags u16 | content type | content encoding | header table | ...      each if its flag is set

What is not changed keeps its bytes. Nobody checked the list of a plain message, so it may be malformed.

Source: AMQP 0-9-1 specification, section 4.2.6.1 and class basic.
"""

from collections.abc import Iterator

from routelog.vhosts.messages.message_header import value_place

HEADERS = 1 << 13
DELIVERY_MODE = 1 << 12
PRIORITY = 1 << 11
EXPIRATION = 1 << 8

_FIRST_FLAG = 1 << 15
_LAST_FLAG = 1 << 2
_SIZES = {
    DELIVERY_MODE: 1,
    PRIORITY: 1,
    1 << 6: 8,
}  # delivery mode, priority, timestamp; others are strings
_LOOKED_AT = {"correlation_id": 1 << 10, "message_id": 1 << 7, "timestamp": 1 << 6}
_EXPIRATION_DIGITS_MAX = 15  # ten years of milliseconds have twelve


class MalformedProperties(Exception):
    """The parts of a property list do not add up."""


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
        try:
            for flag, start, end in _places(raw):
                if flag == HEADERS:
                    self.headers = dict(fields(raw, start + 4, end))
                else:
                    self._parts[flag] = raw[start:end]
        except IndexError:
            raise MalformedProperties from None

    def pop(self, flag: int) -> bytes | None:
        """Remove a property that is a string; returns its content, None when it is not there."""
        part = self._parts.pop(flag, None)
        return None if part is None else part[1:]

    def value(self, name: str) -> bytes | None:
        """The octets of a property that exchanges look at, by its name; None when it is not there."""
        flag = _LOOKED_AT.get(name, 0)
        part = self._parts.get(flag)
        return part if part is None or flag in _SIZES else part[1:]

    def encode(self) -> bytes:
        """The list as on the wire."""
        flags = 0
        parts: list[bytes] = []
        flag = _FIRST_FLAG
        while flag >= _LAST_FLAG:
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
    if not int.from_bytes(raw[:2], "big") & EXPIRATION:
        return None
    content = _content(raw, EXPIRATION)
    if content is None or not content[1:].isdigit() or len(content) > _EXPIRATION_DIGITS_MAX + 1:
        return None
    return int(content[1:])


def is_persistent(raw: bytes) -> bool:
    """Whether the delivery mode of a message is 2."""
    if not int.from_bytes(raw[:2], "big") & DELIVERY_MODE:
        return False
    return _content(raw, DELIVERY_MODE) == b"\x02"


def priority(raw: bytes) -> int:
    """The priority of a message; 0 when it has none."""
    if not int.from_bytes(raw[:2], "big") & PRIORITY:
        return 0
    content = _content(raw, PRIORITY)
    return content[0] if content else 0


def _content(raw: bytes, wanted: int) -> bytes | None:
    try:
        for flag, start, end in _places(raw):
            if flag == wanted:
                return raw[start:end]
    except (IndexError, MalformedProperties):
        return None
    return None


def fields(raw: bytes, at: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """The fields of a table that lies in [at, end): name, and value with its letter.

    Raises:
        MalformedProperties, IndexError: they do not add up.
    """
    while at < end:
        kind_at = at + 1 + raw[at]
        _, after = value_place(raw, kind_at)
        if after > end:
            raise MalformedProperties
        yield raw[at + 1 : kind_at], raw[kind_at:after]
        at = after


def encode_table(table: dict[bytes, bytes]) -> bytes:
    """A table with its length, of names and values with their letters."""
    content = b"".join(bytes((len(name),)) + name + value for name, value in table.items())
    return len(content).to_bytes(4, "big") + content


def _places(raw: bytes) -> Iterator[tuple[int, int, int]]:
    # Flag, start and end of each property, lengths included.
    flags = int.from_bytes(raw[:2], "big")
    if len(raw) < 2 or flags & 3:
        raise MalformedProperties
    at = 2
    flag = _FIRST_FLAG
    while flag >= _LAST_FLAG:
        if flags & flag:
            if flag == HEADERS:
                end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
            else:
                end = at + _SIZES[flag] if flag in _SIZES else at + 1 + raw[at]
            if end > len(raw):
                raise MalformedProperties
            yield flag, at, end
            at = end
        flag >>= 1
    if at != len(raw):
        raise MalformedProperties
