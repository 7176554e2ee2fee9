"""Methods other than publish, deliver and ack: strict decoding and encoding by pamqp's definitions.

Decoded methods are instances of pamqp's classes, filled without their validation: the names that
RabbitMQ takes are more than the specification allows.
"""

import struct
from collections.abc import Mapping
from typing import Any

from pamqp import commands, encode

from routelog.amqp_front.wire.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_IMPLEMENTED,
    HardError,
)
from routelog.amqp_front.wire.properties import read_table


class AccessRequest:
    """The obsolete access.request; it grants nothing and is answered with ticket 1."""


ACCESS_REQUEST = 0x001E000A
ACCESS_REQUEST_OK = struct.pack(">HHH", 30, 11, 1)

_PUBLISH = commands.Basic.Publish.index
_SIZES = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
_BY_INDEX: Mapping[int, type[Any]] = commands.INDEX_MAPPING
# Name and type of each argument, in order: to ask pamqp for them takes as long as all else.
_ARGUMENTS = {
    kind: tuple((name, kind.amqp_type(name)) for name in kind.attributes())
    for kind in _BY_INDEX.values()
}

# What only a server sends.
_FROM_SERVER = frozenset(
    method.index
    for method in _BY_INDEX.values()
    if method.name.endswith("Ok")
    and method.__qualname__
    not in (
        "Connection.StartOk",
        "Connection.SecureOk",
        "Connection.TuneOk",
        "Connection.CloseOk",
        "Channel.CloseOk",
        "Channel.FlowOk",
        "Basic.CancelOk",
    )
) | {
    commands.Connection.Start.index,
    commands.Connection.Secure.index,
    commands.Connection.Tune.index,
    commands.Connection.Blocked.index,
    commands.Connection.Unblocked.index,
    commands.Basic.Deliver.index,
    commands.Basic.Return.index,
    commands.Basic.GetEmpty.index,
}


class MethodReader:
    """Reads the arguments of one method, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4
        self._bit = 0

    def argument(self, kind: str) -> object:
        """The next argument, of a specification type.

        Raises:
            HardError: the arguments end too early, or a value cannot be.
        """
        if kind == "bit":
            return self._read_bit()
        self._bit = 0
        if kind == "shortstr":
            return self._short_string()
        if kind in _SIZES:
            return int.from_bytes(self._take(_SIZES[kind]), "big")
        length = int.from_bytes(self._take(4), "big")
        content = self._take(length)
        return read_table(content, 0, length) if kind == "table" else content

    def routing_key(self) -> str:
        """The routing key of a message: any octets, those that are no UTF-8 as surrogates."""
        self._bit = 0
        return self._take(self._take(1)[0]).decode(errors="surrogateescape")

    def finish(self) -> None:
        """Refuse octets behind the last argument."""
        if self._at != len(self._data):
            raise HardError(FRAME_ERROR, "there are octets behind the last argument of a method")

    def _take(self, size: int) -> bytes:
        if len(self._data) - self._at < size:
            raise HardError(FRAME_ERROR, "the arguments of a method are cut off")
        self._at += size
        return self._data[self._at - size : self._at]

    def _short_string(self) -> str:
        content = self._take(self._take(1)[0])
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise HardError(FRAME_ERROR, "a short string is not UTF-8") from None

    def _read_bit(self) -> bool:
        if self._bit % 8 == 0:
            self._bit = 0
            self._take(1)
        value = bool(self._data[self._at - 1] >> self._bit & 1)
        self._bit += 1
        return value


def decode_method(payload: bytes) -> Any:
    """The method of a method frame, as an instance of pamqp's class, or AccessRequest.

    Raises:
        HardError: 540 unknown, 503 (504 in class connection) only a server may send it, 501
            malformed arguments, 502 unknown field type.
    """
    index = int.from_bytes(payload[:4], "big")
    if index == ACCESS_REQUEST:
        return AccessRequest()
    kind = _BY_INDEX.get(index)
    if kind is None:
        raise HardError(NOT_IMPLEMENTED, f"method {index >> 16}.{index & 0xFFFF} is unknown")
    if index in _FROM_SERVER:
        if index >> 16 == 10:
            raise HardError(CHANNEL_ERROR, f"{kind.name} is not for a client to send")
        raise HardError(COMMAND_INVALID, f"{kind.name} is not for a client to send")
    method: Any = object.__new__(kind)
    reader = MethodReader(payload)
    for name, type_name in _ARGUMENTS[kind]:
        is_message_key = index == _PUBLISH and name == "routing_key"
        value = reader.routing_key() if is_message_key else reader.argument(type_name)
        setattr(method, name, value)
    reader.finish()
    return method


def encode_method(channel: int, kind: type[Any], **values: Any) -> bytes:
    """The method frame of a method, arguments by name; those not given are zero or empty.

    Raises:
        ValueError: a short string is longer than 255 bytes.
    """
    parts = [struct.pack(">I", kind.index)]
    bits: list[bool] = []
    for name, type_name in _ARGUMENTS[kind]:
        if type_name == "bit":
            bits.append(bool(values.get(name, False)))
            continue
        if bits:
            parts.append(_encode_bits(bits))
        parts.append(_encode_value(type_name, values.get(name)))
    if bits:
        parts.append(_encode_bits(bits))
    payload = b"".join(parts)
    return b"".join((struct.pack(">BHI", 1, channel, len(payload)), payload, b"\xce"))


def _encode_bits(bits: list[bool]) -> bytes:
    octets = bytearray()
    for at, bit in enumerate(bits):
        if at % 8 == 0:
            octets.append(0)
        octets[-1] |= bit << at % 8
    bits.clear()
    return bytes(octets)


def _encode_value(type_name: str, value: Any) -> bytes:
    if type_name == "shortstr":
        content = value if isinstance(value, bytes) else (value or "").encode()
        if len(content) > 255:
            raise ValueError("a short string is longer than 255 bytes")
        return bytes((len(content),)) + content
    if type_name == "longstr":
        content = value if isinstance(value, bytes) else (value or "").encode()
        return struct.pack(">I", len(content)) + content
    if type_name == "table":
        return encode.field_table(value or {})
    return int(value or 0).to_bytes(_SIZES[type_name], "big")
