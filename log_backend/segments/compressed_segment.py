"""A compressed segment: the batches of a sealed segment, in blocks that are compressed one by one.

All integers are little-endian. Positions and lengths are those before compression, as in the index files, so a
reader of batches sees no difference::

    <base offset>.zlog
     0  magic        4s   b"RLZ1"
     4  header crc   u32  CRC-32C of [8:48]
     8  codec        u32  1 zstd, 2 lz4
    12  block count  u32
    16  base offset  u64  as in the file's name
    24  size         u64  before compression
    32  file size    u64
    40  table crc    u32  CRC-32C of the table
    44  reserved     u32  zero
    48  blocks, end to end, each an entry and its content
        table: the entries of all blocks again, to the end of the file

    entry, 16 bytes
     0  position       u32  of the block's first byte: where the block before it ends
     4  length         u32  before compression
     8  stored length  u32  of the content; equal to the length: the content is not compressed
    12  content crc    u32  CRC-32C of the content as it is stored

Blocks are cut between batches. A block longer than BLOCK_BYTES consists of little more than one large batch,
and is stored in no less than 1/RATIO_MAX of its length. So a reader allocates at most BLOCK_BYTES for a block,
or RATIO_MAX times its size in the file.
"""

import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import lz4.block
import zstandard

from routelog.log_backend.records.record_batch import BATCH_BYTES_MAX, CorruptBatch, Octets, crc32c

MAGIC = b"RLZ1"
HEADER_BYTES = 48
ENTRY_BYTES = 16
# A cold read of 1 MiB unpacks little more than that; larger blocks save 1 % of space
BLOCK_BYTES = 256 * 1024
# The best ratio of lz4; blocks that zstd would make smaller are stored uncompressed
RATIO_MAX = 256
SIZE_MAX = 2**32 - 1  # positions have 32 bits, as in the index
BLOCKS_KEPT = 2  # a window of headers may reach into the block behind that of the next batch

ZSTD, LZ4 = 1, 2
CODECS = {"zstd": ZSTD, "lz4": LZ4}  # by their names in x-compression
ZSTD_LEVEL = 1  # level 9 packs 6 % smaller, at a tenth of the speed

_HEADER = struct.Struct("<4sIIIQQQII")
_CHECKED = struct.Struct("<IIQQQII")  # the header from the codec on
_ENTRY = struct.Struct("<IIII")

ReadAt = Callable[[int, int], Octets]  # file offset, size: fewer bytes only at the end of the file


class CorruptCompression(CorruptBatch):
    """A compressed segment fails a check; `file_offset` says where in its file."""

    def __init__(self, file_offset: int, reason: str) -> None:
        super().__init__(f"{reason}, at byte {file_offset} of the compressed file")
        self.file_offset = file_offset


class CodecFailed(Exception):
    """A codec cannot restore what it has compressed, or gives another length than the table says."""


class PackedBlock(NamedTuple):
    """An entry of the table, and where it stands in the file."""

    position: int
    length: int
    stored_length: int
    crc: int
    file_offset: int


class SegmentPacker:
    """Encodes a compressed segment.

    The caller writes each `block` at the `end` before the call; after the last one, `table` at `end` and
    `header` at the start of the file.

    Attributes:
        file_bytes: size of the file so far, table included.
    """

    def __init__(self, codec: int, base_offset: int) -> None:
        self._codec = codec
        self._base_offset = base_offset
        self._compress = _compressor(codec)
        self._unpack = _unpacker(codec)
        self._entries = bytearray()
        self._size = 0
        self.file_bytes = HEADER_BYTES

    def block(self, raw: Octets) -> list[Octets]:
        """Encode the next block: whole batches, end to end.

        Raises:
            CodecFailed: the codec does not restore the bytes that it was given.
        """
        content: Octets = self._compress(raw)
        short = len(raw) > BLOCK_BYTES and len(content) * RATIO_MAX < len(raw)
        if len(content) >= len(raw) or short:
            content = raw
        elif self._unpack(content, len(raw)) != raw:
            # A fault of memory or codec must be found while the original is still there.
            raise CodecFailed("what was compressed does not give the same bytes")
        entry = _ENTRY.pack(self._size, len(raw), len(content), crc32c(content))
        self._entries += entry
        self._size += len(raw)
        self.file_bytes += 2 * ENTRY_BYTES + len(content)
        return [entry, content]

    @property
    def end(self) -> int:
        """File offset behind the last block, where the next block or the table goes."""
        return self.file_bytes - len(self._entries)

    def table(self) -> bytes:
        """The table of all blocks."""
        return bytes(self._entries)

    def header(self) -> bytes:
        """The header of the file with all blocks."""
        checked = _CHECKED.pack(
            self._codec,
            len(self._entries) // ENTRY_BYTES,
            self._base_offset,
            self._size,
            self.file_bytes,
            crc32c(self._entries),
            0,
        )
        return MAGIC + struct.pack("<I", crc32c(checked)) + checked


class CompressedSegment:
    """Reads the uncompressed bytes of a compressed segment.

    Attributes:
        base_offset: of the segment.
        codec: ZSTD or LZ4.
        size: before compression.
        blocks: in order.

    Raises:
        CorruptCompression: header or table fail a check; blocks are checked when they are read.
    """

    def __init__(self, read_at: ReadAt, file_bytes: int) -> None:
        self._read_at = read_at
        header = bytes(read_at(0, HEADER_BYTES))
        if len(header) < HEADER_BYTES:
            raise CorruptCompression(0, "the header is cut off")
        magic, crc, codec, count, base_offset, size, expected_bytes, table_crc, reserved = (
            _HEADER.unpack(header)
        )
        if magic != MAGIC:
            raise CorruptCompression(0, "no compressed segment starts here")
        if crc != crc32c(header[8:]):
            raise CorruptCompression(0, "the header fails its checksum")
        if codec not in CODECS.values() or reserved or size > SIZE_MAX:
            raise CorruptCompression(0, "the header has a field out of range")
        if expected_bytes != file_bytes:
            raise CorruptCompression(0, f"the file has {file_bytes} bytes, not {expected_bytes}")
        self.codec = codec
        self.base_offset = base_offset
        self.size = size
        self.blocks = self._read_table(count, table_crc, file_bytes)
        self._unpack = _unpacker(codec)
        self._kept: OrderedDict[int, Octets] = OrderedDict()  # by number of the block

    def read(self, position: int, size: int) -> bytearray:
        """Up to `size` bytes; fewer only at the end of the segment.

        Raises:
            CorruptCompression: a block with some of these bytes fails a check.
        """
        found = bytearray()
        end = min(position + size, self.size)
        number = bisect_right(self.blocks, position, key=lambda block: block.position) - 1
        while position < end:
            block = self.blocks[number]
            content = memoryview(self._content(number))
            found += content[position - block.position : end - block.position]
            position = block.position + block.length
            number += 1
        return found

    def _read_table(self, count: int, crc: int, file_bytes: int) -> list[PackedBlock]:
        table_at = file_bytes - count * ENTRY_BYTES
        if table_at < HEADER_BYTES + count * ENTRY_BYTES:
            raise CorruptCompression(0, "the file has no room for its table")
        table = self._read_at(table_at, count * ENTRY_BYTES)
        if crc32c(table) != crc:
            raise CorruptCompression(table_at, "the table fails its checksum")
        blocks = list(_located(table))
        position, file_offset = 0, HEADER_BYTES
        for block in blocks:
            if block.position != position or not _is_possible(block):
                raise CorruptCompression(table_at, "the table has an entry that cannot be")
            position += block.length
            file_offset += ENTRY_BYTES + block.stored_length
        if position != self.size or file_offset != table_at:
            raise CorruptCompression(table_at, "the table's sizes do not add up")
        return blocks

    def _content(self, number: int) -> Octets:
        content = self._kept.get(number)
        if content is None:
            content = self._unpacked(self.blocks[number])
            if len(self._kept) >= BLOCKS_KEPT:
                self._kept.popitem(last=False)
            self._kept[number] = content
        return content

    def _unpacked(self, block: PackedBlock) -> Octets:
        stored = self._read_at(block.file_offset, ENTRY_BYTES + block.stored_length)
        if stored[:ENTRY_BYTES] != _ENTRY.pack(*block[:4]):
            raise CorruptCompression(block.file_offset, "the block is not the table's")
        content: Octets = memoryview(stored)[ENTRY_BYTES:]
        if crc32c(content) != block.crc:  # also if the block is cut off
            raise CorruptCompression(block.file_offset, "the block fails its checksum")
        if block.stored_length == block.length:
            return content
        try:
            return self._unpack(content, block.length)
        except CodecFailed as error:
            raise CorruptCompression(block.file_offset, str(error)) from None


def _located(table: Octets) -> Iterator[PackedBlock]:
    file_offset = HEADER_BYTES
    for position, length, stored_length, crc in _ENTRY.iter_unpack(table):
        yield PackedBlock(position, length, stored_length, crc, file_offset)
        file_offset += ENTRY_BYTES + stored_length


def _is_possible(block: PackedBlock) -> bool:
    """Whether the writer makes such blocks; checked before memory is allocated for one."""
    if not 0 < block.stored_length <= block.length <= BLOCK_BYTES + BATCH_BYTES_MAX:
        return False
    return block.length <= BLOCK_BYTES or block.stored_length * RATIO_MAX >= block.length


def _compressor(codec: int) -> Callable[[Octets], bytes]:
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress

    def compress(raw: Octets) -> bytes:
        content: bytes = lz4.block.compress(raw, store_size=False)
        return content

    return compress


def _unpacker(codec: int) -> Callable[[Octets, int], bytes]:
    """A function of content and length that restores a block, or raises CodecFailed."""
    if codec == LZ4:
        return _unpack_lz4
    decompressor = zstandard.ZstdDecompressor()

    def unpack(content: Octets, length: int) -> bytes:
        try:
            # The library ignores a given limit if the frame names its own size: check that first.
            if zstandard.frame_content_size(content) != length:
                raise CodecFailed("the block has another length than the table's")
            return decompressor.decompress(content, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise CodecFailed(f"the block cannot be unpacked: {error}") from None

    return unpack


def _unpack_lz4(content: Octets, length: int) -> bytes:
    try:
        raw: bytes = lz4.block.decompress(content, uncompressed_size=length)
    except lz4.block.LZ4BlockError as error:
        raise CodecFailed(f"the block cannot be unpacked: {error}") from None
    if len(raw) != length:
        raise CodecFailed("the block has another length than the table's")
    return raw


def cut_blocks(batch_positions: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Cut a segment into blocks.

    Args:
        batch_positions: some positions at which batches begin, ascending; 0 need not be there.
        size: of the segment.

    Returns:
        [start, end) of each block; at most BLOCK_BYTES, unless there is no position to cut at.
    """
    cuts = []
    start = end = 0
    for position in [*batch_positions, size]:
        if position - start > BLOCK_BYTES and end > start:
            cuts.append((start, end))
            start = end
        end = position
    if end > start:
        cuts.append((start, end))
    return cuts
