"""The journal's format: blocks of entries, one block a commit.

All integers are little-endian; a block starts at a multiple of 4,096 bytes, so that writing it never
touches a page of a block that is already durable::

     0  magic       4s  b"RLJ2"
     4  crc         u32 CRC-32C of [8:48]
     8  file        u64 number of the journal file
    16  salt        u64 of the journal file
    24  first       u64 position of the file's first
    32  committed   u64 position known committed before
    40  length      u32 in bytes, without padding
    44  checksum    u32 CRC-32C of [48:length]; see `journal_chain.py`, as for what follows
    48  shard       u32
    52  epoch       u64
    60  position    u64 of this block, by one more
    68  previous    u32 checksum of the block before
    72  entries, one behind the other: see `journal_entry.py`

The kinds of entries, and their contents::

    1  BATCH        a record batch
    2  SETTLED      cursor u32, reason u8, packed u8, zeros 2, then
                    packed 0: pairs of u64: first offset, end offset
                    packed 1: first offset u64, a bit an offset, least significant first
    3  HANDED_OUT   cursor u32, zeros 4, end u64: everything below was delivered, or is settled
    4  REDELIVERED  cursor u32, zeros 4, then triples of u64: first offset, end offset, count
    5  METADATA     changes of topology, users, policies ...: see `metadata_changes.py`
    6  BATCH_AGAIN  a batch with the records of the one before: see `journal_entry.py`

Entry 3 with the cursor 0xffffffff, of which there is none, says that offsets below `end` were given to records
that are not in the journal: they are not given again. Entry 2 with this cursor says that a log which is kept
beyond its settlements has let go of these records: a copy of it keeps no more, and no less.

A reason is a value of `Reason`. Entries 2 to 4 tell what became of messages and are written behind it, so a
crash may take the last ones. They say what is, not what changed, and nothing falls: a mark or a count that is
already higher stays, and what is settled stays settled. Replaying them once more, or over a later snapshot,
changes nothing.

Number and salt of the file are under the crc, so that what a recycled file held before never parses, and
neither does a block that a client put into the body of a message: nobody outside knows the salt. The checksum
is of the journal, not of the file, so that it is the same wherever the journal is kept. Zeros are no block. A
block that does not follow the one before it is none of this journal. One that is missing although a later one
calls it committed is damage; otherwise the journal ends there. A block without entries only vouches for those
before it: it is written when the journal has become idle.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from routelog.log_backend.journal.journal_chain import Mark, ShardBlock
from routelog.log_backend.journal.journal_entry import (
    BATCH,
    BATCH_AGAIN,
    JournalEntry,
    decode_batch_again,
    entry_places,
)
from routelog.log_backend.journal.journal_groups import (
    BLOCK_ALIGNMENT,
    BLOCK_HEADER_BYTES,
    CHAIN_AT,
    MAGIC,
    JournalGroup,
)
from routelog.log_backend.journal.metadata_changes import METADATA, MetadataChanges
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.records.checksum import crc32c
from routelog.log_backend.records.record_batch import (
    CorruptBatch,
    RecordBatch,
    Records,
    decode_batch,
)
from routelog.log_backend.settlement.settled_chunk import set_bits

SETTLED = 2
HANDED_OUT = 3
REDELIVERED = 4

NO_CURSOR = 0xFFFF_FFFF  # cursors are numbered from 0: a queue cannot have made so many groups

_BLOCK = struct.Struct("<QQQQIIIQQI")
_SETTLED = struct.Struct("<IBB2x")
_ONE_SETTLED = struct.Struct("<IBB2xQQ")
_CURSOR = struct.Struct("<I4x")
_HANDED_OUT = struct.Struct("<I4xQ")
_U64 = struct.Struct("<Q")
_U64_BYTES = _U64.size


class UnknownEntry(CorruptBatch):
    """A whole, undamaged block holds an entry that this version cannot read: a later one wrote it."""

    def __init__(self, kind: int, partition: int, problem: str) -> None:
        super().__init__(
            f"a later version wrote journal entry of kind {kind} of partition {partition}: {problem}"
        )


class Reason(IntEnum):
    """Why an offset is settled."""

    ACKED = 1  # by its consumer, or handed out without waiting for an ack
    REJECTED = 2  # by its consumer, and not to come again
    PURGED = 3
    EXPIRED = 4  # by age or by what its log may hold
    LOST = 5  # no batch holds it: transient, or a crash took it before it was durable


class Settlement:
    """Offsets that a cursor settled for one reason.

    Attributes:
        first, bitmap: where many scattered offsets lie close together: bit i of the bitmap, least significant
            first, is offset `first` + i. Otherwise `bitmap` is None.
    """

    kind = SETTLED

    __slots__ = ("_ranges", "bitmap", "cursor", "first", "reason")

    def __init__(
        self, cursor: int, ranges: Sequence[tuple[int, int]], reason: Reason = Reason.ACKED
    ) -> None:
        self.cursor = cursor
        self.reason = reason
        self.first = 0
        self.bitmap: bytes | None = None
        self._ranges = ranges
        if len(ranges) > 1:
            self._pack()

    def _pack(self) -> None:
        first = min(self._ranges)[0]
        span = max(end for _, end in self._ranges) - first
        size = (span + 63) // 64 * _U64_BYTES
        if size + _U64_BYTES < 2 * _U64_BYTES * len(self._ranges):
            bits = bytearray(size)
            for low, high in self._ranges:
                set_bits(bits, low - first, high - first)
            self.first, self.bitmap = first, bytes(bits)

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """[first, end) pairs."""
        if self.bitmap is None or self._ranges:
            return self._ranges
        bits, found, place = int.from_bytes(self.bitmap, "little"), [], self.first
        while bits:
            gap = (bits & -bits).bit_length() - 1
            run = (~(bits >> gap) & (bits >> gap) + 1).bit_length() - 1
            found.append((place + gap, place + gap + run))
            place += gap + run
            bits >>= gap + run
        return found

    def encode(self) -> bytes:
        """The content of a SETTLED entry."""
        if self.bitmap is not None:
            return _SETTLED.pack(self.cursor, self.reason, 1) + _pack((self.first,)) + self.bitmap
        if len(self._ranges) == 1:  # nearly always
            return _ONE_SETTLED.pack(self.cursor, self.reason, 0, *self._ranges[0])
        ranges = _pack(chain.from_iterable(self._ranges))
        return _SETTLED.pack(self.cursor, self.reason, 0) + ranges

    @classmethod
    def of_bits(cls, cursor: int, first: int, bitmap: bytes, reason: Reason) -> "Settlement":
        """Offsets as bits, a multiple of 64 of them."""
        settlement = cls(cursor, (), reason)
        settlement.first, settlement.bitmap = first, bitmap
        return settlement

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Settlement":
        """Read the content of a SETTLED entry."""
        cursor, reason, packed = _SETTLED.unpack_from(content)
        if packed:
            (first,) = _U64.unpack_from(content, _SETTLED.size)
            bitmap = bytes(content[_SETTLED.size + _U64_BYTES :])
            return cls.of_bits(cursor, first, bitmap, Reason(reason))
        numbers = _numbers(content)
        settlement = cls(cursor, (), Reason(reason))
        settlement._ranges = list(zip(numbers[::2], numbers[1::2], strict=True))
        return settlement


class HandedOut:
    """A cursor's messages below `end` were delivered to somebody, or are settled."""

    kind = HANDED_OUT

    __slots__ = ("cursor", "end")

    def __init__(self, cursor: int, end: int) -> None:
        self.cursor = cursor
        self.end = end

    def encode(self) -> bytes:
        """The content of a HANDED_OUT entry."""
        return _HANDED_OUT.pack(self.cursor, self.end)

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "HandedOut":
        """Read the content of a HANDED_OUT entry."""
        (cursor,) = _CURSOR.unpack_from(content)
        (end,) = _numbers(content)
        return cls(cursor, end)


class Redelivered:
    """How often a cursor's messages were delivered again: (first, end, count) triples."""

    kind = REDELIVERED

    __slots__ = ("counts", "cursor")

    def __init__(self, cursor: int, counts: Sequence[tuple[int, int, int]]) -> None:
        self.cursor = cursor
        self.counts = counts

    def encode(self) -> bytes:
        """The content of a REDELIVERED entry."""
        return _CURSOR.pack(self.cursor) + _pack(chain.from_iterable(self.counts))

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Redelivered":
        """Read the content of a REDELIVERED entry."""
        (cursor,) = _CURSOR.unpack_from(content)
        numbers = _numbers(content)
        triples = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        return cls(cursor, list(triples))


def _pack(numbers: Iterable[int]) -> bytes:
    values = tuple(numbers)
    return struct.pack(f"<{len(values)}Q", *values)


def _numbers(content: bytes | memoryview) -> tuple[int, ...]:
    # Those behind the cursor's eight bytes.
    return struct.unpack_from(f"<{len(content) // _U64_BYTES - 1}Q", content, _CURSOR.size)


StateChange = Settlement | HandedOut | Redelivered
_CHANGES: Mapping[int, type[StateChange | MetadataChanges]] = {
    each.kind: each for each in (Settlement, HandedOut, Redelivered, MetadataChanges)
}
KINDS = {BATCH, BATCH_AGAIN, *_CHANGES}
_Place = tuple[int, int, int, int]  # of an entry: see `entry_places`


class FileMark(NamedTuple):
    """What all blocks of one journal file carry: the file's number, and a salt that nobody can guess."""

    number: int
    salt: int


class Block:
    """A block as read: its place in the journal, and its entries.

    Attributes:
        first: position of the first block of its file.
        committed: what was committed when it was written.
        length: in bytes, without padding.
        shard, epoch, position, previous, checksum: see `ShardBlock`.
    """

    __slots__ = (
        "_content",
        "_kinds",
        "_places",
        "checksum",
        "committed",
        "epoch",
        "first",
        "length",
        "position",
        "previous",
        "shard",
    )

    def __init__(self, header: Sequence[int], content: memoryview) -> None:
        self.first, self.committed, self.length, self.checksum, *chained = header
        self.shard, self.epoch, self.position, self.previous = chained
        self._content = content
        self._places, self._kinds = _places(content)

    @property
    def mark(self) -> Mark:
        """Its place in the journal."""
        return Mark(self.position, self.epoch, self.checksum)

    @property
    def payload(self) -> bytes:
        """The bytes of its entries."""
        return bytes(self._content)

    @property
    def entries(self) -> list[JournalEntry]:
        """All of them, decoded anew; batches are parts of the buffer that the block was read from.

        Raises:
            UnknownEntry: one is from a later version.
        """
        return _decoded(self._content, self._places)

    @property
    def partition_entries(self) -> list[JournalEntry]:
        """As `entries`, without changes of metadata."""
        others = (place for place in self._places if place[0] != METADATA)
        return _decoded(self._content, others)

    def metadata_changes(self) -> list[Change]:
        """What it changes in the metadata, in order.

        Raises:
            UnknownEntry: from a later version.
        """
        if METADATA not in self._kinds:
            return []
        metadata = (place for place in self._places if place[0] == METADATA)
        entries = _decoded(self._content, metadata)
        return [change for entry in entries for change in entry.change.changes]


def encode_block(file: FileMark, block: ShardBlock, first: int, committed: int) -> bytes:
    """The bytes of a block in a journal file whose first block has a position."""
    group = JournalGroup(block.position)
    group.content.add(block.payload)
    return bytes(group.block(*file, first, committed, block.shard, block.epoch, block.previous))


def decode_block(buffer: bytearray | memoryview, at: int, mark: FileMark) -> Block | None:
    """Read the block at a position of a journal file.

    Args:
        buffer: the whole file.
        at: a multiple of 4,096.
        mark: of the file.

    Returns:
        The block; None when no whole, undamaged block of this file starts there.

    Raises:
        UnknownEntry: it is whole, and from a later version.
    """
    numbers = _header(buffer[at : at + BLOCK_HEADER_BYTES], mark)
    if numbers is None:
        return None
    _, _, length, checksum, *_ = numbers
    if length < BLOCK_HEADER_BYTES or at + length > len(buffer):
        return None
    if crc32c(buffer[at + CHAIN_AT : at + length]) != checksum:
        return None
    content = memoryview(buffer)[at + BLOCK_HEADER_BYTES : at + length]
    return Block(numbers, content)


def decode_mark(header: bytes | bytearray, file: FileMark) -> Mark | None:
    """The mark of a block whose header this is; None: it is no header of the file."""
    numbers = _header(header, file)
    if numbers is None:
        return None
    *_, checksum, _, epoch, position, _ = numbers
    return Mark(position, epoch, checksum)


def decode_entries(payload: bytes | memoryview) -> list[JournalEntry]:
    """The entries of a block; batches are parts of its bytes.

    Raises:
        UnknownEntry: one is from a later version.
        CorruptBatch: they are no entries.
    """
    content = memoryview(payload)
    return _decoded(content, _places(content)[0])


def _header(octets: bytes | bytearray | memoryview, file: FileMark) -> list[int] | None:
    # What follows number and salt of the file.
    header = bytes(octets)
    if len(header) < BLOCK_HEADER_BYTES or header[:4] != MAGIC:
        return None
    if crc32c(header[8:CHAIN_AT]) != int.from_bytes(header[4:8], "little"):
        return None
    number, salt, *numbers = _BLOCK.unpack(header[8:])
    return numbers if (number, salt) == file else None


def aligned(size: int) -> int:
    """The room that so many bytes of a block take in a file."""
    return size + -size % BLOCK_ALIGNMENT


def _places(content: memoryview) -> tuple[list[_Place], set[int]]:
    # And the kinds among them.
    try:
        places = entry_places(content)
    except struct.error:
        raise CorruptBatch("an entry is cut off") from None
    if places and places[-1][3] > len(content):
        raise CorruptBatch("an entry goes beyond the end of its block")
    kinds = {place[0] for place in places}
    for kind in kinds - KINDS:
        partition = next(place[1] for place in places if place[0] == kind)
        raise UnknownEntry(kind, partition, "this kind is not known")
    return places, kinds


def _decoded(block: memoryview, places: Iterable[_Place]) -> list[JournalEntry]:
    entries: list[JournalEntry] = []
    records: Records | None = None  # of the last batch that has its own
    change: RecordBatch | StateChange | MetadataChanges
    for kind, partition, begin, end in places:
        content = block[begin:end]
        try:
            if kind == BATCH:
                change = decode_batch(content, 0, is_checked=True)
                records = change.records
            elif kind == BATCH_AGAIN:
                change = decode_batch_again(content, records)
            else:
                change = _CHANGES[kind].decode(content)
        except (ValueError, OverflowError, struct.error) as error:
            raise UnknownEntry(kind, partition, str(error)) from None
        entries.append(JournalEntry(partition, change))
    return entries


__all__ = [
    "BATCH",
    "BATCH_AGAIN",
    "BLOCK_ALIGNMENT",
    "BLOCK_HEADER_BYTES",
    "CHAIN_AT",
    "HANDED_OUT",
    "MAGIC",
    "METADATA",
    "REDELIVERED",
    "SETTLED",
    "Block",
    "FileMark",
    "HandedOut",
    "JournalEntry",
    "MetadataChanges",
    "Reason",
    "Redelivered",
    "Settlement",
    "StateChange",
    "UnknownEntry",
    "aligned",
    "decode_block",
    "decode_entries",
    "decode_mark",
    "encode_block",
]
