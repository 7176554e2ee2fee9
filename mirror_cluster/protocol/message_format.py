"""The bytes of a message between replicas. All integers are little-endian::

    0  length   u32  of what follows
    4  crc      u32  CRC-32C of [8:4 + length]
    8  version  u8   1
    9  kind     u8
   10  zero     u16
   12  shard    u32
   16  epoch    u64
   24  session  u64
   32  content, by kind

    1  HELLO        incarnation u64, node length u16, zero u16, ends u32, node in UTF-8, ends times a mark
    2  TRUNCATE_TO  mark
    3  COPY_FROM
    4  APPEND       after u64, committed u64, stamp f64, blocks u32, blocks times a block
    5  ACKNOWLEDGE  durable u64, stamp f64
    6  LEAVE
    7  FENCED

    mark   position u64, epoch u64, checksum u32
    block  epoch u64, position u64, previous u32, checksum u32, length u32, payload

Blocks are of the message's shard. A node that meets a later version closes the connection: the older
side of a rolling upgrade decides what both speak.
"""

import struct
from collections.abc import Callable, Mapping

from routelog.log_backend import Mark, ShardBlock, crc32c
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    Append,
    CopyFrom,
    Fenced,
    Hello,
    Leave,
    Message,
    TruncateTo,
)

VERSION = 1
MESSAGE_BYTES_MAX = 320 * 1024 * 1024  # a block holds a transaction, which writes up to 256 MiB
EPOCH_ENDS_MAX = 1_024  # newest: a follower that is further behind takes a copy

_LENGTH = struct.Struct("<II")
_HEAD = struct.Struct("<BBxxIQQ")
_HELLO = struct.Struct("<QHxxI")
_MARK = struct.Struct("<QQI")
_APPEND = struct.Struct("<QQdI")
_BLOCK = struct.Struct("<QQIII")
_ACKNOWLEDGE = struct.Struct("<Qd")
LENGTH_BYTES = _LENGTH.size
_HEAD_END = LENGTH_BYTES + _HEAD.size


class BadMessage(Exception):
    """The peer's bytes are no message of this version; the connection ends."""


def encode_message(message: Message) -> bytes:
    """The bytes of a message, its length included."""
    kind = _KINDS[type(message)]
    rest = _HEAD.pack(VERSION, kind, message.shard, message.epoch, message.session)
    rest += _content(message)
    return _LENGTH.pack(len(rest) + 4, crc32c(rest)) + rest


def message_bytes(head: bytes | memoryview) -> int:
    """How long a message is, by its first `LENGTH_BYTES`.

    Raises:
        BadMessage: no message is so long, or so short.
    """
    length, _ = _LENGTH.unpack_from(head)
    end: int = length + 4
    if not _HEAD_END <= end <= MESSAGE_BYTES_MAX:
        raise BadMessage(f"a message of {length:,} bytes")
    return end


def decode_message(buffer: bytes | bytearray | memoryview) -> tuple[Message, int] | None:
    """Read the message at the start of a buffer.

    Returns:
        The message and how many bytes it took; None when it is not there in full.

    Raises:
        BadMessage: the peer's fault.
    """
    view = memoryview(buffer)
    if len(view) < LENGTH_BYTES:
        return None
    end = message_bytes(view)
    _, crc = _LENGTH.unpack_from(view)
    if len(view) < end:
        return None
    if crc32c(view[_LENGTH.size : end]) != crc:
        raise BadMessage("wrong checksum")
    version, kind, shard, epoch, session = _HEAD.unpack_from(view, _LENGTH.size)
    if version != VERSION or kind not in _READERS:
        raise BadMessage(f"kind {kind} of version {version}")
    try:
        return _READERS[kind](_Content(view[_HEAD_END:end]), shard, epoch, session), end
    except (struct.error, UnicodeDecodeError):
        raise BadMessage(f"content of kind {kind} ends too early") from None


def _content(message: Message) -> bytes:
    match message:
        case Hello():
            name = message.node.encode()
            ends = message.epoch_ends[-EPOCH_ENDS_MAX:]
            head = _HELLO.pack(message.incarnation, len(name), len(ends))
            return head + name + b"".join(_MARK.pack(*mark) for mark in ends)
        case TruncateTo():
            return _MARK.pack(*message.common)
        case Append():
            count = len(message.blocks)
            head = _APPEND.pack(message.after, message.committed, message.stamp, count)
            return head + b"".join(map(_block_bytes, message.blocks))
        case Acknowledge():
            return _ACKNOWLEDGE.pack(message.durable, message.stamp)
        case _:
            return b""


def _block_bytes(block: ShardBlock) -> bytes:
    size = len(block.payload)
    numbers = (block.epoch, block.position, block.previous, block.checksum, size)
    return _BLOCK.pack(*numbers) + block.payload


class _Content:
    """What is left of a message's content."""

    __slots__ = ("_rest",)

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.octets(form.size))

    def mark(self) -> Mark:
        return Mark(*self.numbers(_MARK))

    def octets(self, size: int) -> bytes:
        if size > len(self._rest):
            raise struct.error("too short")
        piece, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return piece

    def block(self, shard: int) -> ShardBlock:
        epoch, position, previous, checksum, size = self.numbers(_BLOCK)
        block = ShardBlock(shard, epoch, position, previous, self.octets(size), checksum)
        if not block.is_intact:
            raise BadMessage(f"block {position} of epoch {epoch} is damaged")
        return block


def _hello(content: _Content, shard: int, epoch: int, session: int) -> Hello:
    incarnation, name_bytes, count = content.numbers(_HELLO)
    name = content.octets(name_bytes).decode()
    if count > EPOCH_ENDS_MAX:
        raise BadMessage(f"{count:,} epochs")
    ends = tuple(content.mark() for _ in range(count))
    return Hello(shard, epoch, session, name, incarnation, ends)


def _append(content: _Content, shard: int, epoch: int, session: int) -> Append:
    after, committed, stamp, count = content.numbers(_APPEND)
    blocks = tuple(content.block(shard) for _ in range(count))
    return Append(shard, epoch, session, after, committed, stamp, blocks)


_KINDS: Mapping[type[Message], int] = {
    Hello: 1,
    TruncateTo: 2,
    CopyFrom: 3,
    Append: 4,
    Acknowledge: 5,
    Leave: 6,
    Fenced: 7,
}
_READERS: Mapping[int, Callable[[_Content, int, int, int], Message]] = {
    1: _hello,
    2: lambda content, shard, epoch, session: TruncateTo(shard, epoch, session, content.mark()),
    3: lambda _, *head: CopyFrom(*head),
    4: _append,
    5: lambda content, *head: Acknowledge(*head, *content.numbers(_ACKNOWLEDGE)),
    6: lambda _, *head: Leave(*head),
    7: lambda _, *head: Fenced(*head),
}
