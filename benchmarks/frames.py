"""Pre-encoded frames: runs of publishes and runs of basic.ack, sent as slices of one buffer."""

import struct
from collections.abc import Iterator

from pamqp import body, commands, frame, header

CHANNEL = 1

# Bodies carry their index in this cycle, so that a lost or doubled message shows as a body that
# does not belong to its delivery tag.
BODY_CYCLE = 256
BODY_INDEX = struct.Struct(">H")
PUBLISH_RUN_BYTES = 131_072  # one send: large enough that the system call costs little per message

ACK_BYTES = 21
ACK_RECORD = struct.Struct(">BHIHHQBB")  # type, channel, size, class, method, tag, multiple, end
_ACK_TAG_OFFSET = 11
_ACK_BLOCK = 65_536

CLOSE_FRAME = frame.marshal(commands.Connection.Close(200, "done", 0, 0), 0)


def body_of(index: int, body_bytes: int) -> bytes:
    """The body of message number `index`, counted from 0."""
    return BODY_INDEX.pack(index % BODY_CYCLE).ljust(body_bytes, b"m")


def content_frames(index: int, body_bytes: int, persistent: bool) -> bytes:
    """Header and body frame of message number `index`."""
    properties = commands.Basic.Properties(delivery_mode=2 if persistent else 1)
    return frame.marshal(
        header.ContentHeader(body_size=body_bytes, properties=properties), CHANNEL
    ) + frame.marshal(body.ContentBody(body_of(index, body_bytes)), CHANNEL)


class PublishRun:
    """Publishes to one queue through the default exchange, encoded once."""

    def __init__(self, queue: str, body_bytes: int, persistent: bool) -> None:
        method = frame.marshal(commands.Basic.Publish(exchange="", routing_key=queue), CHANNEL)
        cycle = [method + content_frames(i, body_bytes, persistent) for i in range(BODY_CYCLE)]
        self.publish_bytes = len(cycle[0])
        self.messages_max = max(1, PUBLISH_RUN_BYTES // self.publish_bytes)
        cycles = 1 + -(-self.messages_max // BODY_CYCLE)
        self._frames = memoryview(b"".join(cycle) * cycles)

    def encoded(self, first_index: int, count: int) -> memoryview:
        """The frames of `count` messages from number `first_index` on, without a copy.

        Args:
            count: at most `messages_max`.
        """
        start = first_index % BODY_CYCLE * self.publish_bytes
        return self._frames[start : start + count * self.publish_bytes]


class AckRun:
    """basic.ack frames, one a delivery, for consecutive delivery tags.

    A block holds the acks of 65,536 tags that share their upper six bytes; only those bytes are
    written again when the tags leave the block.
    """

    def __init__(self) -> None:
        self._block_number = 0
        self._block = bytearray(
            b"".join(ack_frame(tag, multiple=False) for tag in range(_ACK_BLOCK))
        )

    def encoded(self, first_tag: int, count: int) -> Iterator[memoryview]:
        """The acks of these tags in one slice, or more where they cross blocks.

        Each slice is valid until the next one is asked for.
        """
        while count:
            within = first_tag % _ACK_BLOCK
            taken = min(count, _ACK_BLOCK - within)
            self._move_to(first_tag // _ACK_BLOCK)
            yield memoryview(self._block)[within * ACK_BYTES : (within + taken) * ACK_BYTES]
            first_tag += taken
            count -= taken

    def _move_to(self, block_number: int) -> None:
        if block_number == self._block_number:
            return
        for column, value in enumerate(block_number.to_bytes(6, "big")):
            self._block[_ACK_TAG_OFFSET + column :: ACK_BYTES] = bytes([value]) * _ACK_BLOCK
        self._block_number = block_number


def ack_frame(tag: int, multiple: bool) -> bytes:
    """One basic.ack frame."""
    return ACK_RECORD.pack(1, CHANNEL, 13, 60, 80, tag, multiple, 0xCE)
