"""The index files of a sealed segment: they find batches by offset and by time, and say how the segment ended.

    <base offset>.index      0  magic        4s   b"RLX2"
                             4  crc          u32  CRC-32C of [8:]
                             8  times crc    u32  CRC-32C of the .timeindex file
                            12  attributes   u32  bit 0 TRANSIENT, some batch is not persistent
                            16  size         u64  bytes of the segment
                            24  end offset   u64  behind its last record
                            32  next base    u64  base offset of the next segment
                            40  entries of  offset - base offset u32 | file position u32

    <base offset>.timeindex  entries of  time i64, us since 1970  | offset - base offset u32

All integers are little-endian. The files are synced before the next segment is begun. So a sealed segment is
damaged if its size, or the base offset of the next segment, is another than its index says. The entries can be
rebuilt from the batches.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, read_file
from routelog.log_backend.records.record_batch import crc32c

MAGIC = b"RLX2"
HEADER_BYTES = 40
TRANSIENT = 1

_HEADER = struct.Struct("<IIQQQ")
_ENTRY = struct.Struct("<II")
_TIME = struct.Struct("<qI")


@dataclass(slots=True)
class SegmentIndex:
    """The content of a segment's index files; the three columns have one row for each entry.

    Attributes:
        offsets: relative to the base offset.
        times: of the batch there, microseconds since 1970.
    """

    size: int
    end_offset: int
    next_base: int
    transient: bool = False
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    positions: "array[int]" = field(default_factory=lambda: array("Q"))
    times: "array[int]" = field(default_factory=lambda: array("q"))

    def position_before(self, offset: int) -> int:
        """Position of a batch at or before the one with a relative offset; 0 if none is indexed."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def position_behind(self, offset: int) -> int:
        """A position behind all batches that begin below a relative offset."""
        at = bisect_left(self.offsets, offset)
        return self.positions[at] if at < len(self.positions) else self.size

    def position_before_time(self, time: int) -> int:
        """A position before the first batch of a time or later; 0 if none is indexed."""
        at = bisect_left(self.times, time) - 1
        return self.positions[at] if at >= 0 else 0

    def encode(self) -> tuple[bytes, bytes]:
        """The content of the index and the time index file."""
        times = b"".join(map(_TIME.pack, self.times, self.offsets))
        attributes = TRANSIENT if self.transient else 0
        header = _HEADER.pack(crc32c(times), attributes, self.size, self.end_offset, self.next_base)
        body = header + b"".join(map(_ENTRY.pack, self.offsets, self.positions))
        return MAGIC + struct.pack("<I", crc32c(body)) + body, times


def following_base(index: bytes, *, verified: bool = False) -> int | None:
    """Base offset of the next segment, from the content of an index file, or from its header alone.

    Args:
        verified: the content is complete: check its checksum.

    Returns:
        None if it is no index, or a damaged one.
    """
    if not (_is_whole(index) if verified else _has_header(index)):
        return None
    base: int = _HEADER.unpack_from(index, 8)[-1]
    return base


def decode_index(index: bytes, times: bytes) -> SegmentIndex | None:
    """Decode the content of both files; None if one is damaged, or they do not belong together."""
    if not _is_whole(index):
        return None
    times_crc, attributes, size, end_offset, next_base = _HEADER.unpack_from(index, 8)
    if crc32c(times) != times_crc:
        return None
    found = SegmentIndex(size, end_offset, next_base, bool(attributes & TRANSIENT))
    entries = zip(_ENTRY.iter_unpack(index[HEADER_BYTES:]), _TIME.iter_unpack(times), strict=True)
    for (offset, position), (time, _) in entries:
        found.offsets.append(offset)
        found.positions.append(position)
        found.times.append(time)
    return found


def read_index(disk: Disk, path: Path) -> SegmentIndex | None:
    """Read the index files of a segment; None if they are missing or damaged."""
    return decode_index(
        _content(disk, path.with_suffix(".index")), _content(disk, path.with_suffix(".timeindex"))
    )


def _content(disk: Disk, path: Path) -> bytes:
    try:
        return bytes(read_file(disk, path))
    except FileNotFoundError:
        return b""


def _has_header(index: bytes) -> bool:
    return len(index) >= HEADER_BYTES and index[:4] == MAGIC


def _is_whole(index: bytes) -> bool:
    return _has_header(index) and crc32c(index[8:]) == int.from_bytes(index[4:8], "little")
