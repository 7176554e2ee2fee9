"""Messages that say which they are: queue, sequence number and a checksum in every body."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from pamqp import commands, frame, header

from routelog.benchmarks.traffic.frames import CHANNEL

_HEAD = struct.Struct(">HQ")  # number of the queue, sequence number within it
_CRC = struct.Struct(">I")
_BODY_FRAME = struct.Struct(">BHI")
BODY_BYTES_MIN = _HEAD.size + _CRC.size


class BodyDamaged(Exception):
    """A body is not what some publisher sent."""


class NumberedMessages:
    """The publishes of one queue, encoded.

    Args:
        keys: with more than one, message n goes through an exchange of the queue's name, with the
            routing key `key-` and n modulo this; otherwise straight to the queue.
        filter_values: message n has the one at n modulo their count, if that is not empty.

    Attributes:
        cycle: behind so many messages, their values begin again.
    """

    def __init__(
        self,
        queue: str,
        number: int,
        body_bytes: int,
        keys: int = 1,
        *,
        persistent: bool = True,
        filter_values: Sequence[str] = ("",),
    ) -> None:
        self.queue = queue
        self.number = number
        self.body_bytes = max(body_bytes, BODY_BYTES_MIN)
        self.cycle = len(filter_values)
        ways = [("", queue)] if keys == 1 else [(queue, f"key-{key}") for key in range(keys)]
        content_headers = [self._content_header(value, persistent) for value in filter_values]
        self._prefixes = [
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), CHANNEL)
            + frame.marshal(content_header, CHANNEL)
            + _BODY_FRAME.pack(3, CHANNEL, self.body_bytes)
            for exchange, key in ways
            for content_header in content_headers
        ]
        filler_bytes = self.body_bytes - BODY_BYTES_MIN
        self._fillers = [bytes([value]) * filler_bytes for value in range(256)]

    def _content_header(self, filter_value: str, persistent: bool) -> header.ContentHeader:
        headers = {"x-stream-filter-value": filter_value} if filter_value else None
        properties = commands.Basic.Properties(
            delivery_mode=2 if persistent else 1, headers=headers
        )
        return header.ContentHeader(body_size=self.body_bytes, properties=properties)

    def encoded(self, first: int, end: int) -> bytes:
        """The frames of the publishes [first, end)."""
        parts: list[bytes] = []
        for sequence in range(first, end):
            content = _HEAD.pack(self.number, sequence) + self._fillers[sequence & 0xFF]
            prefix = self._prefixes[sequence % len(self._prefixes)]
            parts += (prefix, content, _CRC.pack(zlib.crc32(content)), b"\xce")
        return b"".join(parts)

    def read(self, body: bytes) -> int:
        """The sequence number of a body.

        Raises:
            BodyDamaged: it is not a whole body of this queue.
        """
        content, crc = body[: -_CRC.size], body[-_CRC.size :]
        if len(body) != self.body_bytes or _CRC.pack(zlib.crc32(content)) != crc:
            raise BodyDamaged(f"{self.queue}: {len(body)} bytes {body[:32].hex()}")
        number, sequence = _HEAD.unpack_from(body)
        if number != self.number:
            raise BodyDamaged(f"{self.queue}: message {sequence} of queue {number}")
        return int(sequence)
