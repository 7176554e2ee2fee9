"""A segment: one file of a partition's log, record batches one behind the other from position 0.

Sparse indexes lead to a batch by offset and by time; both can be rebuilt from the batches::

    <base offset>.index      b"RLX1" | attributes u32: bit 0 TRANSIENT, some batch is not persistent
                             entries of  offset - base offset u32 | file position u32
    <base offset>.timeindex  entries of  time i64, us since 1970  | offset - base offset u32

Only the newest segment of a partition is written; the others are sealed, and have index files.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from log_backend.compressed_segment import cut_blocks
from log_backend.disk import Disk
from log_backend.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
)
from log_backend.segment_file import SegmentDamaged as SegmentDamaged
from log_backend.segment_file import SegmentFile, open_segment_file

RELATIVE_OFFSET_MAX = 2**32 - 1  # of an index entry
INDEX_INTERVAL_BYTES = 4_096  # of log between two index entries
READ_BYTES = 1024 * 1024  # of one cold read, unless one batch is larger

INDEX_MAGIC = b"RLX1"
TRANSIENT = 1

_INDEX_HEADER = struct.Struct("<4sI")
_INDEX = struct.Struct("<II")
Ranges = list[tuple[int, int]]  # [first, end) offsets

_TIME_INDEX = struct.Struct("<qI")


class Segment:
    """What is known of one segment file.

    Attributes:
        base_offset: offset of its first record, and its name.
        end_offset: behind its last record.
        size: bytes of whole batches; the next batch goes there.
        last_time: of its last batch, microseconds since 1970; 0 when empty.
        written_end, written_size: as `end_offset` and `size`, without what is only planned: readers go
            so far.
        unsynced: written since the last sync.
        doubtful: positions [first, end) that recovery read behind what was synced for certain. If their
            sync has failed, only the system's cache has them and takes them for written: what writes
            them again makes the next sync a true one.
        transient: some batch is not persistent.
        compressed_bytes: size of its file, when that has the compressed form.
        compressible: nothing speaks against compressing it in this run.
    """

    __slots__ = (
        "_offsets",
        "_positions",
        "_times",
        "base_offset",
        "compressed_bytes",
        "compressible",
        "doubtful",
        "end_offset",
        "last_time",
        "path",
        "size",
        "transient",
        "unsynced",
        "written_end",
        "written_size",
    )

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.written_end = base_offset
        self.written_size = 0
        self.last_time = 0
        self.unsynced = False
        self.doubtful: tuple[int, int] | None = None
        self.transient = False
        self.compressed_bytes: int | None = None
        self.compressible = True
        self._offsets = array("Q")
        self._positions = array("Q")
        self._times = array("q")

    def add(self, batch: RecordBatch, position: int, size: int) -> None:
        """Note that a batch lies, or will lie, at a position."""
        if not self._positions or position - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._offsets.append(batch.base_offset)
            self._positions.append(position)
            self._times.append(batch.records.time)
        if not batch.records.persistent:
            self.transient = True
        self.end_offset = batch.end_offset
        self.last_time = batch.records.last_time
        self.size = position + size

    def mark(self) -> "SegmentMark":
        """What `restore` goes back to."""
        parts = (self.end_offset, self.size, self.last_time, self.transient)
        return SegmentMark(*parts, len(self._offsets))

    def restore(self, mark: "SegmentMark") -> None:
        """Forget the batches that were added since a mark: they were not written."""
        self.end_offset, self.size = mark.end_offset, mark.size
        self.last_time, self.transient = mark.last_time, mark.transient
        for column in (self._offsets, self._positions, self._times):
            del column[mark.entries :]

    def written(self) -> None:
        """All batches that were added are in the file."""
        self.written_end = self.end_offset
        self.written_size = self.size

    @property
    def file_bytes(self) -> int:
        """What its batches take on the disk."""
        return self.size if self.compressed_bytes is None else self.compressed_bytes

    def blocks(self) -> list[tuple[int, int]]:
        """Stretches of whole batches, [start, end), each to be compressed on its own."""
        return cut_blocks(self._positions, self.size)

    def position_of(self, offset: int) -> int:
        """A position at or before the batch with an offset."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def offset_at(self, time: int) -> int:
        """The offset of an index entry, close before the first batch of a time or later."""
        at = bisect_left(self._times, time) - 1
        return self._offsets[at] if at >= 0 else self.base_offset

    def index_files(self) -> list[tuple[Path, bytes]]:
        """The index files of this segment and their content."""
        relative = [offset - self.base_offset for offset in self._offsets]
        header = _INDEX_HEADER.pack(INDEX_MAGIC, TRANSIENT if self.transient else 0)
        index = header + b"".join(map(_INDEX.pack, relative, self._positions))
        times = b"".join(map(_TIME_INDEX.pack, self._times, relative))
        return [
            (self.path.with_suffix(".index"), index),
            (self.path.with_suffix(".timeindex"), times),
        ]

    def load_index(self, index: bytes, times: bytes) -> bool:
        """Take over the content of index files; False when they cannot belong to this segment."""
        entries = (len(index) - _INDEX_HEADER.size) / _INDEX.size
        if index[:4] != INDEX_MAGIC or entries != len(times) / _TIME_INDEX.size:
            return False
        self.transient = bool(_INDEX_HEADER.unpack_from(index)[1] & TRANSIENT)
        for (relative, position), (time, also) in zip(
            _INDEX.iter_unpack(index[_INDEX_HEADER.size :]),
            _TIME_INDEX.iter_unpack(times),
            strict=True,
        ):
            if relative != also or (self._positions and position <= self._positions[-1]):
                return False
            self._offsets.append(self.base_offset + relative)
            self._positions.append(position)
            self._times.append(time)
        return True

    def clear_index(self) -> None:
        """Forget the index, to build it again with `add`."""
        del self._offsets[:], self._positions[:], self._times[:]

    @property
    def last_indexed_offset(self) -> int:
        """Offset of the last index entry; the first record's when there is none."""
        return self._offsets[-1] if self._offsets else self.base_offset

    @property
    def last_indexed_position(self) -> int:
        """Position of the last index entry; 0 when there is none."""
        return self._positions[-1] if self._positions else 0


@dataclass(frozen=True, slots=True)
class SegmentMark:
    """A segment's state before batches were added to it; `entries` of its index."""

    end_offset: int
    size: int
    last_time: int
    transient: bool
    entries: int


def read_batches(disk: Disk, path: Path, position: int, end: int, offset: int) -> list[RecordBatch]:
    """Read about READ_BYTES of batches, from the one that holds an offset or follows it.

    Args:
        position: of a batch at or before that one.
        end: size of the segment.

    Raises:
        SegmentDamaged: a batch fails a check.
    """
    file = open_segment_file(disk, path)
    try:
        batches: list[RecordBatch] = []
        total = 0
        for batch, at, size in _headers(file, position, end):
            if batch.end_offset <= offset:
                continue
            try:
                batches.append(decode_batch(file.read(at, size), 0))
            except CorruptBatch as error:
                raise SegmentDamaged(file.path, at, error.reason) from None
            total += size
            if total >= READ_BYTES:
                break
        return batches
    finally:
        file.close()


def _headers(file: SegmentFile, position: int, end: int) -> Iterator[tuple[RecordBatch, int, int]]:
    window, window_at = bytearray(), position
    while position < end:
        at = position - window_at
        if at + HEADER_BYTES > len(window):
            window, window_at, at = file.read(position, 65_536), position, 0
        try:
            batch = decode_header(window[at : at + HEADER_BYTES])
        except CorruptBatch as error:
            raise SegmentDamaged(file.path, position, error.reason) from None
        size = batch_bytes(window, at)
        yield batch, position, size
        position += size


def open_sealed(disk: Disk, path: Path, base_offset: int) -> tuple[Segment, Ranges]:
    """Open a segment that is not written any more; its index files are used when they fit.

    Returns:
        The segment, and the offsets whose records are transient: they end with the broker's run.

    Raises:
        SegmentDamaged: it holds something that is no batch.
    """
    segment = Segment(path, base_offset)
    transient: Ranges = []
    file = open_segment_file(disk, path)
    try:
        size = file.size
        segment.compressed_bytes = file.compressed_bytes
        position = 0
        indexed = segment.load_index(
            _content(disk, path.with_suffix(".index")),
            _content(disk, path.with_suffix(".timeindex")),
        )
        if indexed and segment.last_indexed_position >= size > 0:
            raise SegmentDamaged(file.path, size, "the file is cut off")
        if indexed and not segment.transient:
            position = segment.last_indexed_position
        else:
            segment.clear_index()
        for batch, at, length in _headers(file, position, size):
            segment.add(batch, at, length)
            if not batch.records.persistent:
                transient.append((batch.base_offset, batch.end_offset))
    finally:
        file.close()
    segment.written()
    return segment, transient


def holes(disk: Disk, segment: Segment) -> Ranges:
    """Offsets between the batches of a segment that no batch holds.

    Raises:
        SegmentDamaged: it holds something that is no batch.
    """
    found: Ranges = []
    end = segment.base_offset
    file = open_segment_file(disk, segment.path)
    try:
        for batch, _, _ in _headers(file, 0, segment.size):
            if batch.base_offset > end:
                found.append((end, batch.base_offset))
            end = batch.end_offset
    finally:
        file.close()
    return found


def open_active(
    disk: Disk, path: Path, base_offset: int, synced_offset: int
) -> tuple[Segment, Ranges]:
    """Open the newest segment: verify every batch, and cut a torn tail back to the last whole one.

    Args:
        synced_offset: records below it were made durable; damage among them is no torn tail.

    Returns:
        The segment, and the offsets that are missing between its batches, or transient.

    Raises:
        SegmentDamaged: a batch that was durable fails a check.
    """
    segment = Segment(path, base_offset)
    gone: Ranges = []
    file = disk.open(path)
    try:
        content = disk.read(file, 0, disk.size(file))
        view = memoryview(content)
        position = synced_size = 0
        while position < len(content):
            try:
                batch = decode_batch(view, position)
            except CorruptBatch as error:
                if segment.end_offset < synced_offset:
                    raise SegmentDamaged(path, position, error.reason) from None
                disk.truncate(file, position)
                disk.sync(file)  # or old bytes could follow new ones after the next crash
                break
            if batch.base_offset > segment.end_offset:
                gone.append((segment.end_offset, batch.base_offset))
            if not batch.records.persistent:
                gone.append((batch.base_offset, batch.end_offset))
            size = batch_bytes(view, position)
            segment.add(batch, position, size)
            position += size
            if segment.end_offset <= synced_offset:
                synced_size = position
        if segment.end_offset < synced_offset:
            raise SegmentDamaged(path, position, "the file is cut off")
        if synced_size < position:
            segment.doubtful = (synced_size, position)
    finally:
        disk.close(file)
    segment.written()
    return segment, gone


def _content(disk: Disk, path: Path) -> bytes:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return b"?"  # no index: never a whole number of entries
    try:
        return bytes(disk.read(file, 0, disk.size(file)))
    finally:
        disk.close(file)
