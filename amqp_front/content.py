"""A message under construction: content that comes in several frames, or needs a closer look.

A lifecycle in three steps: publish method, content header, bodies; see `PartialContent.add`.
"""

import struct
from typing import Any

from amqp_front.command import Frame, PublishRun
from amqp_front.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    HardError,
    SoftError,
)
from amqp_front.frame_cutter import FRAME_BODY, FRAME_HEADER
from amqp_front.properties import Properties
from amqp_front.single_run import run_of_record
from log_backend import SingleRecord

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
        self._record: SingleRecord | None = None
        self._empty = 0

    def add(self, frame: Frame) -> PublishRun | None:
        """Take the next content frame; returns the publish when it is complete.

        Raises:
            HardError: 505 the frame does not belong here, 501 it is malformed or too long.
            SoftError: 406 the message is not acceptable; the rest of its content must be skipped.
        """
        if self._record is None:
            if frame.kind != FRAME_HEADER:
                raise HardError(UNEXPECTED_FRAME, "expected a content header after basic.publish")
            record = self._record = self._begun(frame.payload)
        elif frame.kind != FRAME_BODY:
            raise HardError(UNEXPECTED_FRAME, "expected a content body")
        else:
            record = self._record
            self._add_body(record, frame.payload)
        return None if record.missing else self._run(record)

    def body(self, size: int) -> SingleRecord | None:
        """What so many bytes of body may be read into; None when they are not what comes next."""
        record = self._record
        if record is None or not 0 < size <= record.missing:
            return None
        self._empty = 0
        return record

    def _begun(self, payload: bytes) -> SingleRecord:
        if len(payload) < 14:
            raise HardError(FRAME_ERROR, "a content header is too short")
        class_id, weight, body_bytes = _HEADER.unpack_from(payload)
        if class_id != 60 or weight != 0:
            raise HardError(
                UNEXPECTED_FRAME, f"content header of class {class_id}, weight {weight}"
            )
        properties = self._properties = Properties(payload[12:])
        properties.headers()
        properties.delivery_mode()
        if body_bytes > self._message_bytes_max:
            reason = f"message size {body_bytes} is larger than {self._message_bytes_max}"
            raise SoftError(PRECONDITION_FAILED, reason)
        publish = self._publish
        key = publish.routing_key.encode(errors="surrogateescape")
        return SingleRecord(publish.exchange.encode(), key, properties.raw, body_bytes)

    def _add_body(self, record: SingleRecord, payload: bytes) -> None:
        self._empty = 0 if payload else self._empty + 1
        if len(payload) > record.missing:
            raise HardError(FRAME_ERROR, "more content than the header said")
        if self._empty > EMPTY_BODIES_MAX:
            raise HardError(FRAME_ERROR, f"more than {EMPTY_BODIES_MAX} empty body frames in a row")
        record.add(payload)

    def _run(self, record: SingleRecord) -> PublishRun:
        assert self._properties is not None
        publish = self._publish
        exchange = publish.exchange.encode()
        key = publish.routing_key.encode(errors="surrogateescape")
        flags = publish.mandatory | publish.immediate << 1
        return run_of_record(0, exchange, key, flags, self._properties, record)
