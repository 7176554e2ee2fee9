"""The property list of a content header, and field tables: strict decoding, and the few properties a broker
acts on.

Source: AMQP 0-9-1 specification, section 4.2.6.1 and class basic.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from routelog.amqp_front.wire.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    SYNTAX_ERROR,
    HardError,
    SoftError,
)
from routelog.exchanges import Message
from routelog.log_backend import (
    BLIND_COPIES,
    FIRST_FLAG,
    HEADERS,
    PROPERTY_NAMES,
    MalformedProperties,
    Records,
    UnknownFieldType,
    decode_table,
    property_places,
    table_fields,
)

REPLY_TO = 1 << 9
USER_ID = 1 << 4

EXPIRATION_MAX = 10 * 365 * 86_400_000  # milliseconds; RabbitMQ's limit of ten years

_BEFORE_HEADERS = ("content_type", "content_encoding")
_NAMES = {FIRST_FLAG >> place: name for place, name in enumerate(PROPERTY_NAMES)}
_LENGTH_BYTES = {"headers": 4, "delivery_mode": 0, "priority": 0, "timestamp": 0}  # others: 1


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
        try:
            places = property_places(raw)
        except MalformedProperties as error:
            raise refusal(error) from None
        self._places = {
            (name := _NAMES[flag]): (start + _LENGTH_BYTES.get(name, 1), end)
            for flag, start, end in places
        }

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
        return read_table(self.raw, *place) if place else {}

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
        fields = table_fields(self.raw, *self._places["headers"])
        kept = (bytes((len(name),)) + name + value for name, value in fields if name not in names)
        return b"".join(kept)

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


def visible_properties(records: Records, index: int) -> bytes:
    """The property list of a stored message, without what consumers may not see."""
    raw: bytes = records.properties(index)
    if not records.attributes & BLIND_COPIES:
        return raw
    # A dead letter may have more headers than a publisher may send, so the limit of `headers` is not for it.
    properties = Properties(raw)
    return raw if properties.value("headers") is None else properties.without_blind_copies()


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


FIELDS_MAX = 8_192  # of one table with everything in it


def read_table(data: bytes, at: int, end: int) -> dict[str, object]:
    """The table whose fields lie in [at, end).

    Raises:
        HardError: 501 for lengths, depth or names that cannot be; 502 for an unknown type.
    """
    try:
        return decode_table(data, at, end, values_max=FIELDS_MAX)
    except MalformedProperties as error:
        raise refusal(error) from None


def refusal(error: MalformedProperties) -> HardError:
    """What a peer is told of a malformed property list or table."""
    code = SYNTAX_ERROR if isinstance(error, UnknownFieldType) else FRAME_ERROR
    return HardError(code, str(error))
