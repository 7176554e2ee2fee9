# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Cuts received bytes into commands: runs of publishes, runs of settlements, and single frames.

    frame    type u8 | channel u16 | size u32 | payload, size bytes | 0xCE        (big-endian)
    method   class u16 | method u16 | arguments
    header   class u16 | weight u16 | body size u64 | property flags u16 | properties

One receive buffer and one record table serve all connections of an event loop, because a read is
handled whole before the next one begins; what stays unread goes back to its connection. A command
that points into the buffer is valid until the next call of `next` or `receive_into`.

Only well-formed publishes, each with its whole content in the buffer and its body in one frame, join a
run. One whose body is in several frames, or will be there later, comes out as begun. Everything else comes
out as a single frame: bodies in pieces, rare methods, and whatever is wrong in a way that needs words.

Source: AMQP 0-9-1 specification, sections 4.2.3 to 4.2.6; field types as RabbitMQ reads them.
"""

from array import array

import cython

from routelog.amqp_front.wire.command import (
    CARBON_COPY,
    RUN_RECORDS_MAX,
    BegunPublish,
    Command,
    Frame,
    PublishRun,
    SettleRun,
)
from routelog.amqp_front.wire.errors import FRAME_ERROR, UNEXPECTED_FRAME, HardError
from routelog.log_backend.records.property_list import PropertyWalk

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8  # type, channel, size, end

RECEIVE_BYTES = 262_144  # one read: thousands of small messages, and still in the cache

# What a look at a publish finds: 0 it is complete, 1 the buffer ends inside of it, 2 it does not
# qualify for a run, 3 it is well-formed but not of this run, 4 it is well-formed, but its body is not there
# in one frame.


@cython.cclass
class FrameCutter:
    """The receive buffer of an event loop and the state of cutting it."""

    _buffer = cython.declare(bytearray)
    _whole = cython.declare(object)
    _view = cython.declare(cython.uchar[::1])
    _table = cython.declare(object)
    _rows = cython.declare(cython.int[::1])
    _at = cython.declare(cython.Py_ssize_t)
    _end = cython.declare(cython.Py_ssize_t)
    _command_at = cython.declare(cython.Py_ssize_t)
    _payload_max = cython.declare(cython.Py_ssize_t)
    _run_max = cython.declare(cython.Py_ssize_t)
    _body_bytes_max = cython.declare(cython.ulonglong)
    # What the last publish that was looked at is made of.
    _exchange_at = cython.declare(cython.Py_ssize_t)
    _exchange_length = cython.declare(cython.Py_ssize_t)
    _key_at = cython.declare(cython.Py_ssize_t)
    _key_length = cython.declare(cython.Py_ssize_t)
    _publish_flags = cython.declare(cython.int)
    _properties_at = cython.declare(cython.Py_ssize_t)
    _properties_length = cython.declare(cython.Py_ssize_t)
    _body_at = cython.declare(cython.Py_ssize_t)
    _body_length = cython.declare(cython.Py_ssize_t)
    _message_end = cython.declare(cython.Py_ssize_t)
    _walk = cython.declare(PropertyWalk)

    def __init__(self, frame_max: int, body_bytes_max: int = 2**31 - 1) -> None:
        """Make the buffer and the table.

        Args:
            frame_max: the largest that a connection may agree on.
            body_bytes_max: a publish with a larger body joins no run.
        """
        capacity = max(RECEIVE_BYTES, 2 * frame_max + 8_192)
        self._buffer = bytearray(capacity)
        self._whole = memoryview(self._buffer)
        self._view = self._whole
        self._table = memoryview(array("i", bytes(4 * 6 * RUN_RECORDS_MAX)))
        self._rows = self._table
        self._walk = PropertyWalk(memoryview(self._buffer))
        self._at = self._end = self._command_at = 0
        self._payload_max, self._run_max = frame_max, RUN_RECORDS_MAX
        self._body_bytes_max = body_bytes_max

    def receive_into(self, unread: bytes) -> memoryview:
        """Put a connection's unread bytes at the front; the rest of the buffer is for its next read."""
        size = len(unread)
        self._at = 0
        self._end = size
        if not size:
            return self._whole
        self._buffer[:size] = unread
        return self._whole[size:]

    def received(self, size: int, payload_max: int, run_max: int = RUN_RECORDS_MAX) -> None:
        """Say how many bytes the read brought, how large the connection's frames may be, and its runs."""
        self._end += size
        self._payload_max, self._run_max = payload_max, min(run_max, RUN_RECORDS_MAX)

    def take_header(self) -> bytes | None:
        """The 8 bytes of a protocol header; None when they are not there yet."""
        if self._end - self._at < 8:
            return None
        self._at += 8
        return bytes(self._buffer[self._at - 8 : self._at])

    def give_back(self, begin: int | None = None) -> None:
        """The last command was not carried out, or not from `begin` in the buffer on: that is unread again."""
        self._at = self._command_at if begin is None else begin

    def unread(self) -> bytes:
        """The bytes that no command has taken yet."""
        return self._octets(self._at, self._end)

    @cython.locals(
        at=cython.Py_ssize_t,
        size=cython.Py_ssize_t,
        kind=cython.int,
        channel=cython.uint,
        method=cython.uint,
    )
    def next(self, assembling: bool) -> Command | None:
        """The next command, or None when the rest of the bytes is not a whole one yet.

        Args:
            assembling: a channel of this connection waits for more content frames, so each frame
                must be seen by itself.

        Raises:
            HardError: the bytes break the framing; nothing of the frame has been carried out.
        """
        at = self._command_at = self._at
        if self._end - at < 7:
            return None
        kind = self._view[at]
        channel = self._u16(at + 1)
        size = self._u32(at + 3)
        if kind != 1 and kind != 2 and kind != 3 and kind != 8:
            raise HardError(FRAME_ERROR, f"unknown frame type {kind}")
        if size > self._payload_max:
            raise HardError(
                FRAME_ERROR, f"frame of {size} bytes is larger than {self._payload_max}"
            )
        if self._end - at < size + 8:
            return None
        if self._view[at + 7 + size] != 0xCE:
            raise HardError(
                FRAME_ERROR, f"frame does not end with 206 but {self._view[at + 7 + size]}"
            )
        if kind == 1:
            if size < 4:
                raise HardError(FRAME_ERROR, "method frame is too short")
            if not assembling and channel != 0:
                method = self._u32(at + 7)
                if method == 0x003C0028:
                    return self._publish_run(channel)
                if (method == 0x003C0050 or method == 0x003C0078) and size == 13:
                    return self._settle_run(channel, method, size)
                if method == 0x003C005A and size == 13:
                    return self._settle_run(channel, method, size)
        elif kind == 8:
            if size != 0:
                raise HardError(FRAME_ERROR, "heartbeat frame with a payload")
            if channel != 0:
                raise HardError(UNEXPECTED_FRAME, "heartbeat frame on a channel")
        elif channel == 0:
            raise HardError(UNEXPECTED_FRAME, "content frame on channel 0")
        self._at = at + size + 8
        return Frame(kind, channel, self._octets(at + 7, at + 7 + size))

    @cython.cfunc
    @cython.inline
    @cython.returns(cython.uint)
    @cython.exceptval(0xFFFFFFFF, check=True)
    @cython.locals(at=cython.Py_ssize_t)
    def _u16(self, at: int) -> int:
        return (self._view[at] << 8) | self._view[at + 1]

    @cython.cfunc
    @cython.inline
    @cython.returns(cython.uint)
    @cython.exceptval(0xFFFFFFFF, check=True)
    @cython.locals(at=cython.Py_ssize_t, high=cython.uint)
    def _u32(self, at: int) -> int:
        high = self._view[at]
        return (
            (high << 24)
            | (self._view[at + 1] << 16)
            | (self._view[at + 2] << 8)
            | self._view[at + 3]
        )

    @cython.cfunc
    @cython.inline
    @cython.returns(cython.ulonglong)
    @cython.exceptval(0xFFFFFFFFFFFFFFFF, check=True)
    @cython.locals(at=cython.Py_ssize_t, high=cython.ulonglong)
    def _u64(self, at: int) -> int:
        high = self._u32(at)
        return (high << 32) | self._u32(at + 4)

    @cython.cfunc
    @cython.locals(
        channel=cython.uint,
        method=cython.uint,
        size=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        outcome=cython.int,
        flags=cython.int,
        multiple=cython.bint,
        first=cython.ulonglong,
        last=cython.ulonglong,
        tag=cython.ulonglong,
    )
    def _settle_run(self, channel: int, method: int, size: int) -> SettleRun:
        at = self._at
        first = self._u64(at + 11)
        flags = self._view[at + 19]
        outcome, multiple = 0, False
        if method == 0x003C0050:
            multiple = (flags & 1) != 0
        elif method == 0x003C0078:
            multiple = (flags & 1) != 0
            outcome = 1 if flags & 2 else 2
        else:
            outcome = 3 if flags & 1 else 2
        last = first
        at += 21
        # Further single settlements of the next tags are frames that differ in the tag alone.
        while not multiple and self._end - at >= 21 and last != 0:
            if (
                self._view[at] != 1
                or self._u16(at + 1) != channel
                or self._u32(at + 3) != 13
                or self._u32(at + 7) != method
                or self._view[at + 19] != flags
                or self._view[at + 20] != 0xCE
            ):
                break
            tag = self._u64(at + 11)
            if tag != last + 1 or tag == 0:  # 0 follows the largest tag in 64 bits
                break
            last = tag
            at += 21
        self._at = at
        return SettleRun(channel, outcome, first, last, multiple)

    @cython.cfunc
    @cython.locals(
        channel=cython.uint,
        at=cython.Py_ssize_t,
        first_at=cython.Py_ssize_t,
        first_size=cython.Py_ssize_t,
        exchange_at=cython.Py_ssize_t,
        exchange_length=cython.Py_ssize_t,
        key_at=cython.Py_ssize_t,
        key_length=cython.Py_ssize_t,
        flags=cython.int,
        persistent=cython.bint,
        shared_key=cython.bint,
        property_flags=cython.uint,
        count=cython.Py_ssize_t,
        outcome=cython.int,
        row=cython.Py_ssize_t,
        known_at=cython.Py_ssize_t,
        known_length=cython.Py_ssize_t,
    )
    def _publish_run(self, channel: int) -> PublishRun | BegunPublish | Frame | None:
        first_at = at = self._at
        outcome = self._method(at, channel)
        if outcome == 0:
            outcome = self._content(channel, 0, 0)
        if outcome == 4:
            return self._begun(channel)
        if outcome == 1:
            return None
        if outcome != 0:
            first_size = self._u32(at + 3)
            self._at = at + first_size + 8
            return Frame(1, channel, self._octets(at + 7, at + 7 + first_size))
        first_size = self._u32(at + 3) + 8
        exchange_at, exchange_length = self._exchange_at, self._exchange_length
        key_at, key_length = self._key_at, self._key_length
        flags = self._publish_flags
        persistent = self._walk.delivery_mode == 2
        shared_key = True
        property_flags = 0
        count = 0
        while True:
            row = 6 * count
            self._rows[row] = self._key_at
            self._rows[row + 1] = self._key_length
            self._rows[row + 2] = self._properties_at
            self._rows[row + 3] = self._properties_length
            self._rows[row + 4] = self._body_at
            self._rows[row + 5] = self._body_length
            property_flags |= self._u16(self._properties_at)
            if self._walk.carbon_copy:
                property_flags |= CARBON_COPY
            known_at, known_length = self._properties_at, self._properties_length
            count += 1
            at = self._message_end
            if count == self._run_max:
                break
            if not self._same(at, first_at, first_size):
                outcome = self._method(at, channel)
                if (
                    outcome != 0
                    or self._publish_flags != flags
                    or self._exchange_length != exchange_length
                    or not self._same(self._exchange_at, exchange_at, exchange_length)
                ):
                    break
                if self._key_length != key_length or not self._same(
                    self._key_at, key_at, key_length
                ):
                    shared_key = False
            else:
                self._key_at, self._key_length = key_at, key_length
                self._message_end = at + first_size
            if self._content(channel, known_at, known_length) != 0:
                break
            if (self._walk.delivery_mode == 2) != persistent:
                break
        self._at = at
        return PublishRun(
            channel,
            self._whole,
            self._table,
            count,
            self._octets(exchange_at, exchange_at + exchange_length),
            self._octets(key_at, key_at + key_length) if shared_key else None,
            flags,
            property_flags,
            persistent,
        )

    @cython.cfunc
    @cython.locals(
        channel=cython.uint,
        at=cython.Py_ssize_t,
        property_flags=cython.uint,
    )
    def _begun(self, channel: int) -> BegunPublish | None:
        # The publish that was looked at last; its body comes frame by frame.
        at = self._body_at
        if self._body_length <= self._payload_max:
            if self._end - at < 7:
                return None
            if (
                self._view[at] == 3
                and self._u16(at + 1) == channel
                and self._u32(at + 3) == cython.cast(cython.uint, self._body_length)
            ):
                return None
        self._at = at
        at = self._properties_at
        property_flags = self._u16(at)
        if self._walk.carbon_copy:
            property_flags |= CARBON_COPY
        return BegunPublish(
            channel,
            self._octets(self._exchange_at, self._exchange_at + self._exchange_length),
            self._octets(self._key_at, self._key_at + self._key_length),
            self._publish_flags,
            self._octets(at, at + self._properties_length),
            property_flags,
            self._walk.delivery_mode == 2,
            self._body_length,
        )

    @cython.cfunc
    @cython.inline
    @cython.locals(at=cython.Py_ssize_t, end=cython.Py_ssize_t)
    def _octets(self, at: int, end: int) -> bytes:
        # One copy; the caller answers for the place.
        if cython.compiled:
            return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(self._buffer) + at, end - at)
        return bytes(self._buffer[at:end])

    @cython.cfunc
    @cython.inline
    @cython.returns(cython.bint)
    @cython.exceptval(-1)
    @cython.locals(at=cython.Py_ssize_t, other=cython.Py_ssize_t, length=cython.Py_ssize_t)
    def _same(self, at: int, other: int, length: int) -> bool:
        if length == 0:
            return True
        if self._end - at < length or self._end - other < length:
            return False
        if cython.compiled:
            return (
                memcmp(cython.address(self._view[at]), cython.address(self._view[other]), length)
                == 0
            )
        return bool(self._view[at : at + length] == self._view[other : other + length])

    @cython.cfunc
    @cython.returns(cython.int)
    @cython.exceptval(-1)
    @cython.locals(
        at=cython.Py_ssize_t,
        channel=cython.uint,
        size=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        length=cython.Py_ssize_t,
    )
    def _method(self, at: int, channel: int) -> int:
        # Look at a basic.publish method frame: ticket u16, exchange and routing key, flags u8.
        if self._end - at < 7:
            return 1
        if self._view[at] != 1 or self._u16(at + 1) != channel:
            return 3
        size = self._u32(at + 3)
        if size < 9 or size > self._payload_max:
            return 2
        if self._end - at < size + 8:
            return 1
        if self._u32(at + 7) != 0x003C0028:
            return 3
        end = at + 7 + size
        if self._view[end] != 0xCE:
            return 2
        length = self._view[at + 13]
        self._exchange_at = at + 14
        self._exchange_length = length
        if at + 14 + length + 2 > end:
            return 2
        self._key_length = self._view[at + 14 + length]
        self._key_at = at + 15 + length
        if self._key_at + self._key_length + 1 != end:
            return 2
        self._publish_flags = self._view[end - 1]
        self._message_end = end + 1
        return 0

    @cython.cfunc
    @cython.returns(cython.int)
    @cython.exceptval(-1)
    @cython.locals(
        channel=cython.uint,
        known_at=cython.Py_ssize_t,
        known_length=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        size=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        body_size=cython.ulonglong,
    )
    def _content(self, channel: int, known_at: int, known_length: int) -> int:
        # Look at the header frame and the body frame behind a publish. The properties of the message
        # before are known to be well-formed: equal bytes need no second look.
        at = self._message_end
        if self._end - at < 7:
            return 1
        size = self._u32(at + 3)
        if (
            self._view[at] != 2
            or self._u16(at + 1) != channel
            or size < 14
            or size > self._payload_max
        ):
            return 2
        if self._end - at < size + 8:
            return 1
        if self._view[at + 7 + size] != 0xCE or self._u32(at + 7) != 0x003C0000:
            return 2
        body_size = self._u64(at + 11)
        if body_size > self._body_bytes_max:
            return 2
        self._properties_at = at + 19
        self._properties_length = size - 12
        known = self._properties_length == known_length and self._same(
            self._properties_at, known_at, known_length
        )
        end = self._properties_at + self._properties_length
        if not known and not self._walk.well_formed(self._properties_at, end):
            return 2
        at += size + 8
        self._body_at = at
        self._body_length = cython.cast(cython.Py_ssize_t, body_size)
        if body_size == 0:
            self._message_end = at
            return 0
        if self._body_length > self._payload_max or self._end - at < self._body_length + 8:
            return 4
        if self._view[at] != 3 or self._u16(at + 1) != channel or self._u32(at + 3) != body_size:
            return 4
        self._body_at = at + 7
        at += self._body_length + 8
        if self._view[at - 1] != 0xCE:
            return 2
        self._message_end = at
        return 0
