"""A message under construction: content that comes in several frames, or needs a closer look.

A lifecycle in three steps: publish method, content header, bodies; see `PartialContent.add`.
"""

import struct
from array import array
from typing import Any

from amqp_front.command import CARBON_COPY, Frame, PublishRun
from amqp_front.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    HardError,
    SoftError,
)
from amqp_front.frame_cutter import FRAME_BODY, FRAME_HEADER
from amqp_front.properties import Properties

EMPTY_BODIES_MAX = 1_000  # empty body frames in a row: legal, but no progress
_HEADER = struct.Struct(">HHQ")


class PartialContent:
    """A publish whose content is not complete yet.

    Attributes:
        refused: the message will not be taken; its content is only read to get past it.
    """

    def __init__(self, publish: Any, message_bytes_max: int) -> None:
        self._publish = publish
        self._message_bytes_max = message_bytes_max
        self._properties: Properties | None = None
        self._body_bytes = 0
        self._body = bytearray()
        self._received = 0
        self._empty = 0

    def add(self, frame: Frame) -> PublishRun | None:
        """Take the next content frame; returns the publish when it is complete.

        Raises:
            HardError: 505 the frame does not belong here, 501 it is malformed or too long.
            SoftError: 406 the message is not acceptable; the rest of its content must be skipped.
        """
        if self._properties is None:
            if frame.kind != FRAME_HEADER:
                raise HardError(UNEXPECTED_FRAME, "expected a content header after basic.publish")
            self._add_header(frame.payload)
        elif frame.kind != FRAME_BODY:
            raise HardError(UNEXPECTED_FRAME, "expected a content body")
        else:
            self._add_body(frame.payload)
        return self._run() if self._received == self._body_bytes else None

    def _add_header(self, payload: bytes) -> None:
        if len(payload) < 14:
            raise HardError(FRAME_ERROR, "a content header is too short")
        class_id, weight, self._body_bytes = _HEADER.unpack_from(payload)
        if class_id != 60 or weight != 0:
            raise HardError(
                UNEXPECTED_FRAME, f"content header of class {class_id}, weight {weight}"
            )
        self._properties = Properties(payload[12:])
        self._properties.headers()
        self._properties.delivery_mode()
        if self._body_bytes > self._message_bytes_max:
            reason = f"message size {self._body_bytes} is larger than {self._message_bytes_max}"
            raise SoftError(PRECONDITION_FAILED, reason)

    def _add_body(self, payload: bytes) -> None:
        self._empty = 0 if payload else self._empty + 1
        self._received += len(payload)
        if self._received > self._body_bytes:
            raise HardError(FRAME_ERROR, "more content than the header said")
        if self._empty > EMPTY_BODIES_MAX:
            raise HardError(FRAME_ERROR, f"more than {EMPTY_BODIES_MAX} empty body frames in a row")
        self._body += payload

    def _run(self) -> PublishRun:
        assert self._properties is not None
        publish = self._publish
        flags = publish.mandatory | publish.immediate << 1
        key = publish.routing_key.encode(errors="surrogateescape")
        return single_run(
            0, publish.exchange.encode(), key, flags, self._properties, memoryview(self._body)
        )


def single_run(
    channel: int,
    exchange: bytes,
    routing_key: bytes,
    flags: int,
    properties: Properties,
    body: bytes | memoryview,
) -> PublishRun:
    """A publish run of one message that owns its bytes."""
    property_flags = int.from_bytes(properties.raw[:2], "big")
    headers = properties.headers()
    if "CC" in headers or "BCC" in headers:
        property_flags |= CARBON_COPY
    source = bytearray(routing_key + properties.raw)
    source += body
    key_end = len(routing_key)
    properties_end = key_end + len(properties.raw)
    rows = array("i", (0, key_end, key_end, len(properties.raw), properties_end, len(body)))
    return PublishRun(
        channel,
        memoryview(source),
        memoryview(rows),
        1,
        exchange,
        routing_key,
        flags,
        property_flags,
        properties.delivery_mode() == 2,
    )
