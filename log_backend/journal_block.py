"""The journal's format: blocks of entries, one block a commit.

All integers are little-endian; a block starts at a multiple of 4,096 bytes, so that writing it never
touches a page of a block that is already durable::

    block                                              entry
     0  magic       4s  b"RLJ1"                         0  kind       u8   BATCH, SETTLED
     4  crc         u32 CRC-32C of [8:length]           1  zeros      7
     8  file        u64 number of the journal file      8  partition  u64
    16  salt        u64 of the journal file            16 length     u32  of the content
    24  position    u64 of this block, by one more     20 zeros      4
    32  first       u64 position of the file's first   24 content, padded with zeros to a multiple of 8
    40  durable     u64 position known durable before
    48  length      u32 in bytes, without padding
    52  entries     u32
    56  entries, one behind the other

    BATCH content     a record batch
    SETTLED content   cursor u64, then pairs of u64: first offset, end offset

Number and salt of the file are under the checksum, so that what a recycled file held before never parses,
and neither does a block that a client put into the body of a message: nobody outside knows the salt. Zeros
are no block. A block that is missing although a later one calls it durable is damage; otherwise the journal
ends there.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from log_backend.record_batch import RecordBatch, batch_bytes, crc32c, decode_batch

MAGIC = b"RLJ1"
BLOCK_ALIGNMENT = 4_096
BLOCK_HEADER_BYTES = 56
ENTRY_HEADER_BYTES = 24

BATCH = 1
SETTLED = 2

_BLOCK = struct.Struct("<QQQQQII")
_ENTRY = struct.Struct("<B7xQI4x")
_U64 = struct.Struct("<Q")


class Settlement:
    """Ranges that a cursor settled: [first, end) pairs."""

    __slots__ = ("cursor", "ranges")

    def __init__(self, cursor: int, ranges: Sequence[tuple[int, int]]) -> None:
        self.cursor = cursor
        self.ranges = ranges

    def encode(self) -> bytes:
        """The content of a SETTLED entry."""
        numbers = [self.cursor]
        for first, end in self.ranges:
            numbers += (first, end)
        return struct.pack(f"<{len(numbers)}Q", *numbers)

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Settlement":
        """Read the content of a SETTLED entry."""
        cursor, *numbers = struct.unpack(f"<{len(content) // 8}Q", content)
        return cls(cursor, list(zip(numbers[::2], numbers[1::2], strict=True)))


Change = RecordBatch | Settlement


class JournalEntry:
    """One change of one partition."""

    __slots__ = ("change", "partition")

    def __init__(self, partition: int, change: Change) -> None:
        self.partition = partition
        self.change = change

    def size(self) -> int:
        """Bytes in a block."""
        change = self.change
        if isinstance(change, RecordBatch):
            return ENTRY_HEADER_BYTES + change.records.batch_bytes
        return ENTRY_HEADER_BYTES + 8 + 16 * len(change.ranges)


class FileMark(NamedTuple):
    """What all blocks of one journal file carry: the file's number, and a salt that nobody can guess."""

    number: int
    salt: int


class Block:
    """A block as read: its place in the journal, and its entries.

    Attributes:
        position: one more than that of the block before it.
        first: position of the first block of its file.
        durable: what was durable when it was written.
        length: in bytes, without padding.
    """

    __slots__ = ("durable", "entries", "first", "length", "position")

    def __init__(
        self, position: int, first: int, durable: int, length: int, entries: list[JournalEntry]
    ) -> None:
        self.position = position
        self.first = first
        self.durable = durable
        self.length = length
        self.entries = entries


def block_buffers(
    mark: FileMark, position: int, first: int, durable: int, entries: Sequence[JournalEntry]
) -> list[bytes]:
    """The bytes of a block, padded to a multiple of 4,096, in pieces to be written one behind the other."""
    parts: list[bytes | bytearray | memoryview] = [b""]
    for entry in entries:
        change = entry.change
        if isinstance(change, RecordBatch):
            parts.append(_ENTRY.pack(BATCH, entry.partition, change.records.batch_bytes))
            parts.append(change.header())
            parts.append(change.records.payload)
        else:
            content = change.encode()
            parts.append(_ENTRY.pack(SETTLED, entry.partition, len(content)))
            parts.append(content)
    length = BLOCK_HEADER_BYTES + sum(map(len, parts))
    parts[0] = _BLOCK.pack(*mark, position, first, durable, length, len(entries))
    body = b"".join(parts)
    head = MAGIC + struct.pack("<I", crc32c(body))
    return [head, body, bytes(-length % BLOCK_ALIGNMENT)]


def encode_block(
    mark: FileMark, position: int, first: int, durable: int, entries: Sequence[JournalEntry]
) -> bytes:
    """The bytes of a block; see `block_buffers`."""
    return b"".join(block_buffers(mark, position, first, durable, entries))


def decode_block(buffer: bytearray | memoryview, at: int, mark: FileMark) -> Block | None:
    """Read the block at a position of a journal file.

    Args:
        buffer: the whole file.
        at: a multiple of 4,096.
        mark: of the file.

    Returns:
        The block; None when no whole, undamaged block of this file starts there.
    """
    header = bytes(buffer[at : at + BLOCK_HEADER_BYTES])
    if len(header) < BLOCK_HEADER_BYTES or header[:4] != MAGIC:
        return None
    number, salt, position, first, durable, length, count = _BLOCK.unpack(header[8:])
    if (number, salt) != mark or length < BLOCK_HEADER_BYTES or at + length > len(buffer):
        return None
    if crc32c(buffer[at + 8 : at + length]) != int.from_bytes(header[4:8], "little"):
        return None
    entries = list(_entries(memoryview(buffer)[at + BLOCK_HEADER_BYTES : at + length]))
    if len(entries) != count:
        return None
    return Block(position, first, durable, length, entries)


def aligned(size: int) -> int:
    """The room that so many bytes of a block take in a file."""
    return size + -size % BLOCK_ALIGNMENT


def _entries(content: memoryview) -> Iterator[JournalEntry]:
    at = 0
    while at < len(content):
        kind, partition, length = _ENTRY.unpack_from(content, at)
        at += ENTRY_HEADER_BYTES
        piece = content[at : at + length]
        if kind == BATCH:
            yield JournalEntry(partition, decode_batch(piece, 0))
        elif kind == SETTLED:
            yield JournalEntry(partition, Settlement.decode(piece))
        at += length


__all__ = [
    "BATCH",
    "BLOCK_ALIGNMENT",
    "SETTLED",
    "Block",
    "FileMark",
    "JournalEntry",
    "Settlement",
    "aligned",
    "batch_bytes",
    "block_buffers",
    "decode_block",
    "encode_block",
]
