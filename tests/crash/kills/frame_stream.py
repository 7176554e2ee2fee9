"""What a broker sends on one channel, cut into the few frames a load client looks at."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_FRAME_HEAD = struct.Struct(">BHI")
_TAG = struct.Struct(">Q")
_METHOD = struct.Struct(">HH")

# A field of the header table: length and name, type, value. Messages of a load have no other headers.
_OFFSET_FIELD = b"\x0fx-stream-offsetl"

BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)
BASIC_NACK = (60, 120)


@dataclass(frozen=True, slots=True)
class Settled:
    """The broker has taken over a publish, or refused to."""

    tag: int
    multiple: bool
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """One message for one consumer.

    Attributes:
        offset: in the log that is read, if it is; otherwise -1.
    """

    consumer_tag: str
    tag: int
    redelivered: bool
    body: bytes
    offset: int = -1


class UnexpectedMethod(Exception):
    """The broker said something else, such as an error."""


class FrameStream:
    """Cuts bytes into confirms and deliveries; what is incomplete waits for the next bytes."""

    def __init__(self) -> None:
        self._rest = b""
        self._deliver: tuple[str, int, bool] | None = None
        self._body_bytes = 0
        self._body = b""
        self._offset = -1

    def feed(self, data: bytes) -> Iterator[Settled | Delivered]:
        """What is complete with these bytes."""
        data = self._rest + data
        at = 0
        while at + 8 <= len(data):
            kind, _, size = _FRAME_HEAD.unpack_from(data, at)
            end = at + 8 + size
            if end > len(data):
                break
            found = self._take(kind, data[at + 7 : end - 1])
            if found is not None:
                yield found
            at = end
        self._rest = data[at:]

    def _take(self, kind: int, payload: bytes) -> Settled | Delivered | None:
        if kind == 1:
            return self._take_method(payload)
        if kind == 2:
            self._body_bytes = _TAG.unpack_from(payload, 4)[0]
            self._body = b""
            self._offset = _stream_offset(payload)
        elif kind == 3:
            self._body += payload
        else:
            return None
        if self._deliver is None or len(self._body) < self._body_bytes:
            return None
        (consumer_tag, tag, redelivered), self._deliver = self._deliver, None
        return Delivered(consumer_tag, tag, redelivered, self._body, self._offset)

    def _take_method(self, payload: bytes) -> Settled | None:
        method = _METHOD.unpack_from(payload)
        if method == BASIC_DELIVER:
            end = 5 + payload[4]
            tag = _TAG.unpack_from(payload, end)[0]
            self._deliver = payload[5:end].decode(), tag, bool(payload[end + 8] & 1)
            return None
        if method in (BASIC_ACK, BASIC_NACK):
            tag, bits = struct.unpack_from(">QB", payload, 4)
            return Settled(tag, bool(bits & 1), method == BASIC_ACK)
        raise UnexpectedMethod(f"method {method}: {payload[:200]!r}")


def _stream_offset(content_header: bytes) -> int:
    at = content_header.find(_OFFSET_FIELD)
    return _TAG.unpack_from(content_header, at + len(_OFFSET_FIELD))[0] if at >= 0 else -1
