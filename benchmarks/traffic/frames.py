"""Frames of messages and of basic.ack, encoded beforehand and sent as slices of one buffer."""

import functools
import struct
from collections.abc import Iterator

from pamqp import body, commands, frame, header

CHANNEL = 1

# The number of the producer, and of the message in the producer's cycle: a lost or doubled message shows as
# one that does not belong to its place.
BODY_HEAD = struct.Struct(">HI")
BODY_BYTES_MIN = BODY_HEAD.size
BODY_CYCLE = 256  # messages at least, where they are not too large

FRAME_BYTES_MAX = 131_072  # what brokers want by default
FRAME_HEAD_BYTES = 7
FRAME_OVERHEAD_BYTES = 8

ACK_BYTES = 21
ACK_RECORD = struct.Struct(">BHIHHQBB")  # type, channel, size, class, method, tag, multiple, end
_ACK_TAG_OFFSET = 11
_ACK_BLOCK = 65_536

CLOSE_FRAME = frame.marshal(commands.Connection.Close(200, "done", 0, 0), 0)


def body_of(index: int, body_bytes: int, producer: int = 0) -> bytes:
    """The body of message number `index` of a producer's cycle, counted from 0."""
    return BODY_HEAD.pack(producer, index).ljust(body_bytes, b"m")


def body_frames(content: bytes, frame_max: int = FRAME_BYTES_MAX) -> bytes:
    """A body as one frame, or more where it is too large for one."""
    room = frame_max - FRAME_OVERHEAD_BYTES
    parts = (content[at : at + room] for at in range(0, len(content), room))
    return b"".join(frame.marshal(body.ContentBody(part), CHANNEL) for part in parts)


def content_frames(
    index: int, body_bytes: int, persistent: bool, frame_max: int = FRAME_BYTES_MAX
) -> bytes:
    """Header and body frames of message number `index` of producer 0."""
    properties = commands.Basic.Properties(delivery_mode=2 if persistent else 1)
    return header_frame(properties, body_bytes) + body_frames(body_of(index, body_bytes), frame_max)


def header_frame(properties: commands.Basic.Properties, body_bytes: int) -> bytes:
    """The content header of a message."""
    content = header.ContentHeader(body_size=body_bytes, properties=properties)
    return frame.marshal(content, CHANNEL)


def acks(first_tag: int, count: int) -> Iterator[memoryview]:
    """basic.ack frames for consecutive delivery tags, one each: in one slice, or more across blocks."""
    while count:
        number, within = divmod(first_tag, _ACK_BLOCK)
        taken = min(count, _ACK_BLOCK - within)
        yield memoryview(_ack_block(number))[within * ACK_BYTES : (within + taken) * ACK_BYTES]
        first_tag += taken
        count -= taken


@functools.lru_cache(maxsize=4)
def _ack_block(number: int) -> bytes:
    """The acks of 65,536 tags that share their upper six bytes; all connections share them."""
    if not number:
        return b"".join(ack_frame(tag, multiple=False) for tag in range(_ACK_BLOCK))
    block = bytearray(_ack_block(0))
    for column, value in enumerate(number.to_bytes(6, "big")):
        block[_ACK_TAG_OFFSET + column :: ACK_BYTES] = bytes([value]) * _ACK_BLOCK
    return bytes(block)


def ack_frame(tag: int, multiple: bool) -> bytes:
    """One basic.ack frame."""
    return ACK_RECORD.pack(1, CHANNEL, 13, 60, 80, tag, multiple, 0xCE)
