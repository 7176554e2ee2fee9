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
from collections.abc import Callable, Mapping, Sequence

from routelog.log_backend import (
    Mark,
    ShardBlock,
    crc32c,
    crc32c_between,
    crc32c_joined,
    crc32c_on,
)
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
JOINED_BYTES_MAX = 16 * 1024  # of a message: one piece is sent sooner than several
# A view of a smaller payload would keep a buffer that has much else.
COPIED_PAYLOAD_BYTES_MAX = 16 * 1024

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
    return b"".join(message_pieces(message))


def message_pieces(message: Message) -> Sequence[bytes | memoryview]:
    """The bytes of a message in pieces, so that large payloads are neither copied nor looked at."""
    kind = _KINDS[type(message)]
    head = _HEAD.pack(VERSION, kind, message.shard, message.epoch, message.session)
    head += _content(message)
    pieces: list[bytes | memoryview] = [head]
    crc = crc32c(head)
    if isinstance(message, Append):
        for block in message.blocks:
            block_head = _block_head(block)
            pieces += block_head, block.payload
            crc = _with_block(crc, block_head, block)
    length = 4 + sum(map(len, pieces))
    pieces[0] = _LENGTH.pack(length, crc) + head
    return [b"".join(pieces)] if length <= JOINED_BYTES_MAX else pieces


def message_bytes(head: bytes | bytearray, at: int = 0) -> int:
    """How long the message at a place is, by its first `LENGTH_BYTES`.

    Raises:
        BadMessage: no message is so long, or so short.
    """
    length, _ = _LENGTH.unpack_from(head, at)
    size: int = length + 4
    if not _HEAD_END <= size <= MESSAGE_BYTES_MAX:
        raise BadMessage(f"a message of {length:,} bytes")
    return size


def decode_message(buffer: bytearray, at: int, end: int) -> tuple[Message, int] | None:
    """Read the message that begins at a place of a buffer, which is filled up to `end`.

    Returns:
        The message, and how many bytes it took; large payloads are views of the buffer. None: it is not there
        in full.

    Raises:
        BadMessage: the peer's fault.
    """
    if end - at < LENGTH_BYTES:
        return None
    size = message_bytes(buffer, at)
    if end - at < size:
        return None
    end = at + size
    _, crc = _LENGTH.unpack_from(buffer, at)
    at += LENGTH_BYTES
    try:
        message = _decoded(buffer, at, end)
        blocks = message.blocks if isinstance(message, Append) else ()
        is_whole = _checksum(buffer, at, end, blocks) == crc
    except BadMessage:
        if crc32c_between(buffer, at, end) == crc:
            raise
        is_whole = False
    if not is_whole:
        raise BadMessage("wrong checksum")
    return message, size


def _decoded(buffer: bytearray, at: int, end: int) -> Message:
    """The message between two places, whatever its checksum is; its blocks are intact."""
    version, kind, shard, epoch, session = _HEAD.unpack_from(buffer, at)
    if version != VERSION or kind not in _READERS:
        raise BadMessage(f"kind {kind} of version {version}")
    try:
        content = _Content(memoryview(buffer)[at + _HEAD.size : end])
        return _READERS[kind](content, shard, epoch, session)
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
            return _APPEND.pack(message.after, message.committed, message.stamp, count)
        case Acknowledge():
            return _ACKNOWLEDGE.pack(message.durable, message.stamp)
        case _:
            return b""


def _checksum(buffer: bytearray, at: int, end: int, blocks: Sequence[ShardBlock]) -> int:
    """Of a place of a buffer that ends with blocks, which are intact: they are not looked at again."""
    first = end - sum(_BLOCK.size + len(block.payload) for block in blocks)
    crc: int = crc32c_between(buffer, at, first)
    for block in blocks:
        crc = _with_block(crc, bytes(buffer[first : first + _BLOCK.size]), block)
        first += _BLOCK.size + len(block.payload)
    return crc


def _with_block(crc: int, head: bytes, block: ShardBlock) -> int:
    checksum: int = crc32c_joined(crc32c_on(crc, head), block.payload_checksum, len(block.payload))
    return checksum


def _block_head(block: ShardBlock) -> bytes:
    size = len(block.payload)
    return _BLOCK.pack(block.epoch, block.position, block.previous, block.checksum, size)


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
        return bytes(self._view(size))

    def _view(self, size: int) -> memoryview:
        if size > len(self._rest):
            raise struct.error("too short")
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def block(self, shard: int) -> ShardBlock:
        epoch, position, previous, checksum, size = self.numbers(_BLOCK)
        payload: bytes | memoryview = self._view(size)
        if size <= COPIED_PAYLOAD_BYTES_MAX:
            payload = bytes(payload)
        block = ShardBlock(shard, epoch, position, previous, payload, checksum)
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
