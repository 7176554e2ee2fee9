"""A message under construction: content that comes in several frames, or needs a closer look.

A lifecycle in three steps: publish method, content header, bodies; see `PartialContent.add`.
"""

import struct
from typing import Any, Self

from routelog.amqp_front.wire.command import BegunPublish, Frame, LaidOutRun, PublishRun
from routelog.amqp_front.wire.errors import (
    FRAME_ERROR,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    HardError,
    SoftError,
)
from routelog.amqp_front.wire.frame_cutter import FRAME_BODY, FRAME_HEADER
from routelog.amqp_front.wire.properties import Properties
from routelog.amqp_front.wire.single_run import property_flags
from routelog.broker import Charge, IntakeShare
from routelog.log_backend import SingleRecord

EMPTY_BODIES_MAX = 1_000  # empty body frames in a row: legal, but no progress
_HEADER = struct.Struct(">HHQ")


class PartialContent:
    """A publish whose content is not complete yet.

    Args:
        flags: of the publish: mandatory, 1; immediate, 2.
        body_bytes_max: of the body that the content header may announce.
        intake: what it is charged to, as large as its header says, before memory is taken for it.
    """

    def __init__(
        self,
        exchange: bytes,
        routing_key: bytes,
        flags: int,
        body_bytes_max: int,
        intake: IntakeShare,
    ) -> None:
        self._exchange = exchange
        self._routing_key = routing_key
        self._flags = flags
        self._body_bytes_max = body_bytes_max
        self._intake = intake
        self._charge: Charge | None = None
        self._property_flags = 0
        self._persistent = False
        self._record: SingleRecord | None = None
        self._empty = 0

    @classmethod
    def of_method(cls, publish: Any, body_bytes_max: int, intake: IntakeShare) -> Self:
        """The content of a basic.publish whose header comes next."""
        key = publish.routing_key.encode(errors="surrogateescape")
        flags = publish.mandatory | publish.immediate << 1
        return cls(publish.exchange.encode(), key, flags, body_bytes_max, intake)

    @classmethod
    def begun(cls, publish: BegunPublish, intake: IntakeShare) -> Self:
        """The content whose header has come.

        Raises:
            IntakeFull: see `IntakeShare.charge`.
        """
        names = publish.exchange, publish.routing_key
        content = cls(*names, publish.flags, publish.body_bytes, intake)
        content._property_flags = publish.property_flags
        content._persistent = publish.persistent
        content._record = content._charged(publish.properties, publish.body_bytes)
        return content

    def add(self, frame: Frame) -> PublishRun | None:
        """Take the next content frame; returns the publish when it is complete.

        Raises:
            HardError: 505 the frame does not belong here, 501 it is malformed or too long.
            SoftError: 406 the message is not acceptable; the rest of its content must be skipped.
            IntakeFull: the same, see `IntakeShare.charge`.
        """
        record = self._record
        if record is None:
            if frame.kind != FRAME_HEADER:
                raise HardError(UNEXPECTED_FRAME, "expected a content header after basic.publish")
            record = self._record = self._laid_out(frame.payload)
        elif frame.kind != FRAME_BODY:
            raise HardError(UNEXPECTED_FRAME, "expected a content body")
        else:
            self._add_body(record, frame.payload)
        return None if record.missing else self._run(record)

    def body(self, size: int) -> SingleRecord | None:
        """What so many bytes of body may be read into; None when they are not what comes next."""
        record = self._record
        if record is None or not 0 < size <= record.missing:
            return None
        self._empty = 0
        return record

    def _laid_out(self, payload: bytes) -> SingleRecord:
        if len(payload) < 14:
            raise HardError(FRAME_ERROR, "a content header is too short")
        class_id, weight, body_bytes = _HEADER.unpack_from(payload)
        if class_id != 60 or weight != 0:
            raise HardError(
                UNEXPECTED_FRAME, f"content header of class {class_id}, weight {weight}"
            )
        properties = Properties(payload[12:])
        self._property_flags = property_flags(properties)
        self._persistent = properties.delivery_mode() == 2
        if body_bytes > self._body_bytes_max:
            reason = f"message size {body_bytes} is larger than {self._body_bytes_max}"
            raise SoftError(PRECONDITION_FAILED, reason)
        return self._charged(properties.raw, body_bytes)

    def _charged(self, properties: bytes, body_bytes: int) -> SingleRecord:
        self._charge = self._intake.charge(len(properties) + body_bytes)
        return SingleRecord(self._exchange, self._routing_key, properties, body_bytes)

    def _add_body(self, record: SingleRecord, payload: bytes) -> None:
        self._empty = 0 if payload else self._empty + 1
        if len(payload) > record.missing:
            raise HardError(FRAME_ERROR, "more content than the header said")
        if self._empty > EMPTY_BODIES_MAX:
            raise HardError(FRAME_ERROR, f"more than {EMPTY_BODIES_MAX} empty body frames in a row")
        record.add(payload)

    def _run(self, record: SingleRecord) -> PublishRun:
        parts = (record, 0, self._exchange, self._routing_key, self._flags, self._property_flags)
        return LaidOutRun(*parts, self._persistent)
