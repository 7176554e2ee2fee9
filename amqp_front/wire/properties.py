"""The property list of a content header: strict decoding, and the few properties a broker acts on.

Source: AMQP 0-9-1 specification, section 4.2.6.1 and class basic.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Protocol

from routelog.amqp_front.wire.errors import FRAME_ERROR, PRECONDITION_FAILED, HardError, SoftError
from routelog.amqp_front.wire.field_table import FieldTableReader
from routelog.exchanges import Message
from routelog.log_backend import BLIND_COPIES, Records

HEADERS = 1 << 13
PRIORITY = 1 << 11
REPLY_TO = 1 << 9
EXPIRATION = 1 << 8
USER_ID = 1 << 4

EXPIRATION_MAX = 10 * 365 * 86_400_000  # milliseconds; RabbitMQ's limit of ten years

PROPERTY_NAMES = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
_BEFORE_HEADERS = ("content_type", "content_encoding")
_SIZES = {"delivery_mode": 1, "priority": 1, "timestamp": 8}


class Identity(Protocol):
    """The user who publishes."""

    user: str

    @property
    def impersonates(self) -> bool:
        """Whether he may publish with the `user-id` of another user."""


class Properties:
    """The properties of one message by name, as slices of the list they came in.

    Attributes:
        raw: property flags and values, as on the wire.
    """

    def __init__(self, raw: bytes) -> None:
        """Walk a property list.

        Raises:
            HardError: it is malformed.
        """
        self.raw = raw
        self._places: dict[str, tuple[int, int]] = {}
        flags = int.from_bytes(raw[:2], "big")
        if flags & 3 or len(raw) < 2:
            raise HardError(FRAME_ERROR, "the property flags of a content header are not valid")
        at = 2
        for name in _names(flags):
            at = self._place(name, at)
        if at != len(raw):
            raise HardError(FRAME_ERROR, "the properties of a content header do not fill it")

    def _place(self, name: str, at: int) -> int:
        if name == "headers":
            start, size = at + 4, int.from_bytes(self.raw[at : at + 4], "big")
        elif name in _SIZES:
            start, size = at, _SIZES[name]
        else:
            start, size = at + 1, self.raw[at] if at < len(self.raw) else 1
        if start + size > len(self.raw):
            raise HardError(FRAME_ERROR, f"property {name} is longer than its content header")
        self._places[name] = (start, start + size)
        return start + size

    def value(self, name: str) -> bytes | None:
        """The octets of a property without its length; None when it is not there."""
        place = self._places.get(name)
        return None if place is None else self.raw[slice(*place)]

    def headers(self) -> Mapping[str, object]:
        """The header table; empty when there is none.

        Raises:
            HardError: it is malformed.
        """
        place = self._places.get("headers")
        return FieldTableReader(self.raw).table(*place) if place else {}

    def message(self) -> Message:
        """The message as exchanges see it.

        Raises:
            HardError: the header table is malformed.
        """
        return Message(self.headers(), self.value)

    def delivery_mode(self) -> int:
        """0 (not given), 1 (transient) or 2 (persistent).

        Raises:
            SoftError: another value.
        """
        value = self.value("delivery_mode")
        if value is None:
            return 0
        mode = value[0]
        if mode not in (1, 2):
            raise SoftError(PRECONDITION_FAILED, f"invalid delivery mode {mode}")
        return mode

    def check(self, publisher: Identity) -> None:
        """Refuse values that the broker must not accept from a user.

        Raises:
            SoftError: an expiration that is no number of milliseconds, or the user-id of another user.
        """
        expiration = self.value("expiration")
        if expiration is not None and not _is_expiration(expiration):
            text = expiration.decode(errors="replace")
            raise SoftError(PRECONDITION_FAILED, f"invalid expiration '{text}'")
        claimed = self.value("user_id")
        user = publisher.user
        if claimed is not None and claimed != user.encode() and not publisher.impersonates:
            text = claimed.decode(errors="replace")
            reason = f"user_id property set to '{text}' but authenticated user was '{user}'"
            raise SoftError(PRECONDITION_FAILED, reason)

    def without_blind_copies(self) -> bytes:
        """The property list without the BCC header, byte for byte otherwise."""
        return self.with_headers(self._headers_without((b"BCC",)))

    def _headers_without(self, names: Collection[bytes]) -> bytes:
        start, end = self._places["headers"]
        reader = FieldTableReader(self.raw)
        kept = bytearray()
        at = start
        while at < end:
            after = reader.field_end(at)
            if self.raw[at + 1 : at + 1 + self.raw[at]] not in names:
                kept += self.raw[at:after]
            at = after
        return bytes(kept)

    def with_integers(self, headers: Mapping[bytes, int]) -> bytes:
        """The property list with headers that are 64-bit integers, in front of the others.

        Published headers of these names are removed.
        """
        fields = b"".join(
            bytes((len(name),)) + name + b"l" + value.to_bytes(8, "big")
            for name, value in headers.items()
        )
        if "headers" in self._places:
            fields += self._headers_without(headers)
        return self.with_headers(fields)

    def with_headers(self, fields: bytes) -> bytes:
        """The property list with the fields of another header table."""
        table = len(fields).to_bytes(4, "big") + fields
        place = self._places.get("headers")
        if place is not None:
            start, end = place
            return b"".join((self.raw[: start - 4], table, self.raw[end:]))
        at = max((self._places[p][1] for p in _BEFORE_HEADERS if p in self._places), default=2)
        flags = int.from_bytes(self.raw[:2], "big") | HEADERS
        return b"".join((flags.to_bytes(2, "big"), self.raw[2:at], table, self.raw[at:]))

    def with_reply_to(self, address: str) -> bytes:
        """The property list with another reply-to."""
        start, end = self._places["reply_to"]
        content = address.encode()
        return b"".join((self.raw[: start - 1], bytes((len(content),)), content, self.raw[end:]))


@lru_cache(maxsize=256)  # publishers set the same ones again and again
def _names(flags: int) -> tuple[str, ...]:
    bits = zip(range(15, 1, -1), PROPERTY_NAMES, strict=True)
    return tuple(name for bit, name in bits if flags >> bit & 1)


def visible_properties(records: Records, index: int) -> bytes:
    """The property list of a stored message, without what consumers may not see."""
    raw: bytes = records.properties(index)
    if not records.attributes & BLIND_COPIES:
        return raw
    properties = Properties(raw)
    return properties.without_blind_copies() if "BCC" in properties.headers() else raw


def copies(headers: Mapping[str, object]) -> list[bytes]:
    """The further routing keys of the CC and BCC headers.

    Raises:
        SoftError: one of them is no array of long strings.
    """
    keys: list[bytes] = []
    for name in ("CC", "BCC"):
        value = headers.get(name, [])
        if not isinstance(value, list) or not all(isinstance(key, str | bytes) for key in value):
            raise SoftError(
                PRECONDITION_FAILED, f"invalid {name} header: expected an array of strings"
            )
        keys += [key.encode() if isinstance(key, str) else key for key in value]
    return keys


def _is_expiration(value: bytes) -> bool:
    return value.isdigit() and len(value) < 16 and int(value) <= EXPIRATION_MAX
