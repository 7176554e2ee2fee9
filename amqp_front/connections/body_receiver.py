# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Where a body is read that comes in large frames: straight into the message under construction.

With what is left of a body frame, the end of the frame and the header of the next one are read, as long as more
of the body is to come. They lie where the next bytes of the body go, and are looked at before these come:

    ... body of this frame | CE | type, channel, size | body of the next frame ...
        `left` bytes         1    7 bytes               goes behind `left`

When something else follows than a body frame of the message that is large or its last, reads go to the
receive buffer again. What is found there is as if the client had cut the frame in two: an empty body frame
behind what was read here.
"""

import struct

import cython

from routelog.amqp_front.connections.channel_table import ChannelTable
from routelog.amqp_front.node.services import Services
from routelog.amqp_front.publishing.content import PartialContent
from routelog.amqp_front.wire.frame_cutter import FRAME_BODY, FRAME_END, FRAME_OVERHEAD
from routelog.log_backend.records.single_record import SingleRecord

DIRECT_BYTES_MIN = 16_384  # of a frame: less is copied faster than read on its own
NEXT_BYTES_MAX = 4_096  # read behind a body: the next publish, and little of its body to be copied
# Of a body's last frame, which is read and copied with what follows.
LAST_BYTES_MAX = NEXT_BYTES_MAX // 2

_HEAD = struct.Struct(">BHI")


@cython.final
@cython.cclass
class BodyReceiver:
    """The rest of one message's body.

    Args:
        content: the message, of the channel of this number.
        left: bytes of the frame that have not come.
        frame_limit: largest payload of a frame.
    """

    __slots__ = (
        "_channel",
        "_content",
        "_ended",
        "_frame_limit",
        "_left",
        "_record",
        "_services",
    )

    def __init__(
        self,
        services: Services,
        channel: int,
        content: PartialContent,
        record: SingleRecord,
        left: int,
        frame_limit: int,
    ) -> None:
        self._services = services
        self._channel = channel
        self._content = content
        self._record = record
        self._left = left
        self._frame_limit = frame_limit
        # All but a little of the body is there: the beginning of the frame that ends it.
        self._ended = b""

    @cython.ccall
    @cython.locals(with_next=cython.Py_ssize_t)
    def room(self) -> memoryview:
        """Where the next read goes."""
        if self._ended:
            return self._services.cutter.receive_into(self._ended)[:NEXT_BYTES_MAX]
        room = self._record.room()
        with_next = self._left + FRAME_OVERHEAD
        return room[: with_next if with_next <= self._record.missing else self._left]

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(size=cython.Py_ssize_t, of_body=cython.Py_ssize_t)
    def received(self, size: int) -> bool:
        """A read has brought so many bytes.

        Returns:
            Whether the body has ended: what follows is in the receive buffer, and to be carried out.
        """
        if self._ended:
            self._services.cutter.received(size, self._frame_limit)
            return True
        of_body, next_head = size, b""
        if size > self._left:
            of_body, next_head = self._left, self._record.in_room(self._left, size)
        self._record.filled(of_body)
        self._left -= of_body
        if self._left or self._goes_on(next_head):
            return False
        ended = _HEAD.pack(FRAME_BODY, self._channel, 0)
        if not self._record.missing:
            self._ended = ended
            return False
        self._services.cutter.receive_into(ended + next_head)
        self._services.cutter.received(0, self._frame_limit)
        return True

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(head=bytes, size=cython.Py_ssize_t)
    def _goes_on(self, head: bytes) -> bool:
        if len(head) < FRAME_OVERHEAD or head[0] != FRAME_END or self._services.gate.closed:
            return False
        kind, channel, size = _HEAD.unpack_from(head, 1)
        if kind != FRAME_BODY or channel != self._channel:
            return False
        if size == self._record.missing and size <= LAST_BYTES_MAX:
            self._ended = head[1:]
            return True
        is_worth_it = size >= DIRECT_BYTES_MIN or size == self._record.missing
        if not is_worth_it or size > self._frame_limit or self._content.body(size) is None:
            return False
        self._left = size
        return True


def body_receiver(
    unread: bytes, channels: ChannelTable, services: Services, frame_limit: int
) -> BodyReceiver | None:
    """A receiver for the body frame of which `unread` is the beginning, when that is large and next."""
    if len(unread) < _HEAD.size:
        return None
    kind, channel, size = _HEAD.unpack_from(unread)
    left = size + _HEAD.size - len(unread)
    if kind != FRAME_BODY or left < DIRECT_BYTES_MIN or size > frame_limit:
        return None
    content = channels.partial(channel)
    record = None if content is None else content.body(size)
    if content is None or record is None:
        return None
    record.add(memoryview(unread)[_HEAD.size :])
    return BodyReceiver(services, channel, content, record, left, frame_limit)
