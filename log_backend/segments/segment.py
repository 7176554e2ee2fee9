"""A segment: one file of a partition's log, record batches end to end from position 0.

The file is named for the offset of its first record, or an earlier one if it is compacted, and offsets ascend.
Only the newest segment of a partition is written; the others are sealed, and have the index files of
segment_index.py.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, opened
from routelog.log_backend.records.placement import Placement
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
)
from routelog.log_backend.segments.compressed_segment import cut_blocks
from routelog.log_backend.segments.log_directory import base_offset_of, is_compacted
from routelog.log_backend.segments.segment_file import (
    FILE_MISSING,
    SegmentContent,
    SegmentFile,
    open_segment_file,
)
from routelog.log_backend.segments.segment_file import SegmentDamaged as SegmentDamaged
from routelog.log_backend.segments.segment_index import SegmentIndex, read_index

RELATIVE_OFFSET_MAX = 2**32 - 1  # of an index entry
INDEX_INTERVAL_BYTES = 4_096  # of log between two index entries
HEADERS_BYTES = 65_536  # read at once to look for headers
READ_BYTES = 1024 * 1024  # of one cold read, unless one batch is larger

Ranges = list[tuple[int, int]]  # [first, end) offsets


@dataclass(slots=True, eq=False, repr=False)
class Segment:
    """One segment file, and its index in memory.

    Attributes:
        base_offset: offset of its first record, or of an earlier one that compaction took; the file is named
            for it.
        end_offset: behind its last record.
        size: bytes of its batches, and position of the next one.
        written_end, written_size: as `end_offset` and `size`, without planned writes; the end for readers.
        last_time: the latest of its batches and of earlier segments, microseconds since 1970; 0 when empty.
        written_at: when this run last wrote to it, monotonic seconds; None: it did not.
        unsynced: it was written since the last sync.
        doubtful: positions [first, end) that recovery read behind the part known to be synced. If an earlier
            sync of them failed, they are only in the system's cache, which takes them for written: they must be
            written again before the next sync means anything.
        transient: some batch is not persistent.
        damaged: its file is not changed any more: nothing is added, and it is not sealed.
        next_base: base offset of the next segment; None: this is the newest.
        compressed_bytes: size of its file, if that has the compressed form.
        compressible: this run may still try to compress it.
    """

    path: Path
    base_offset: int
    end_offset: int = field(init=False)
    size: int = 0
    written_end: int = field(init=False)
    written_size: int = 0
    last_time: int = 0
    written_at: float | None = None
    unsynced: bool = False
    doubtful: tuple[int, int] | None = None
    transient: bool = False
    damaged: bool = False
    next_base: int | None = None
    compressed_bytes: int | None = None
    compressible: bool = True
    _offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    _positions: "array[int]" = field(default_factory=lambda: array("Q"))
    _times: "array[int]" = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        self.end_offset = self.written_end = self.base_offset

    def add(self, batch: RecordBatch, position: int, size: int) -> None:
        """Add a batch that lies, or will be written, at a position."""
        if not self._positions or position - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._index(batch, position)
        if not batch.records.persistent:
            self.transient = True
        self.end_offset = batch.end_offset
        self.last_time = max(self.last_time, batch.records.last_time)
        self.size = position + size

    def append_until_full(self, batches: list[RecordBatch], at: int, bytes_max: int) -> int:
        """Add as many batches as fit, from an index of the list on; returns the index of the next one.

        In an empty segment one batch fits, however large it is.
        """
        placement = Placement(self.size)
        placement.place(
            batches,
            at,
            bytes_max,
            self.base_offset + RELATIVE_OFFSET_MAX,
            self._positions[-1] + INDEX_INTERVAL_BYTES if self._positions else 0,
            INDEX_INTERVAL_BYTES,
        )
        if placement.end > at:
            for batch, position in placement.indexed:
                self._index(batch, position)
            last = batches[placement.end - 1]
            self.end_offset = last.end_offset
            self.last_time = max(self.last_time, last.records.last_time, self._times[-1])
            self.transient |= placement.transient
            self.size, self.unsynced = placement.size, True
        return placement.end

    def _index(self, batch: RecordBatch, position: int) -> None:
        if batch.base_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return  # behind a hole that compaction made: it is found from the last entry
        self._offsets.append(batch.base_offset)
        self._positions.append(position)
        # Times must ascend, because they are searched; the clock may have been set back.
        self._times.append(max(batch.records.time, self._times[-1] if self._times else 0))

    def mark(self) -> "SegmentMark":
        """Return the state for `restore`."""
        parts = (self.end_offset, self.size, self.last_time, self.transient, self.next_base)
        return SegmentMark(*parts, len(self._offsets))

    def restore(self, mark: "SegmentMark") -> None:
        """Remove the batches that were added since a mark: they were not written."""
        self.end_offset, self.size = mark.end_offset, mark.size
        self.last_time, self.transient = mark.last_time, mark.transient
        self.next_base = mark.next_base
        for column in (self._offsets, self._positions, self._times):
            del column[mark.entries :]

    def written(self) -> None:
        """Note that all added batches are in the file."""
        self.written_end = self.end_offset
        self.written_size = self.size

    @property
    def is_open(self) -> bool:
        """Whether batches may be added."""
        return self.next_base is None and not self.damaged

    @property
    def file_bytes(self) -> int:
        """Bytes of its file on the disk."""
        return self.size if self.compressed_bytes is None else self.compressed_bytes

    def blocks(self) -> list[tuple[int, int]]:
        """Positions [start, end) of the blocks in which it is compressed."""
        return cut_blocks(self._positions, self.size)

    def extend(self, end_offset: int) -> None:
        """Set the end offset of a damaged segment from other sources."""
        self.end_offset = self.written_end = end_offset

    def position_of(self, offset: int) -> int:
        """Position of a batch at or before the one with an offset."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def lowest_offset_at(self, position: int) -> int:
        """Lowest base offset of a batch at or behind a position that `position_of` returned."""
        at = bisect_right(self._positions, position) - 1
        return self._offsets[at] if at >= 0 else self.base_offset

    @property
    def first_time(self) -> int:
        """Time of its first batch; 0 when it is unknown."""
        return self._times[0] if self._times else self.last_time

    def offset_at(self, time: int) -> int:
        """Offset of an index entry, at most an interval before the first batch of a time or later."""
        at = bisect_left(self._times, time) - 1
        return self._offsets[at] if at >= 0 else self.base_offset

    def time_at(self, offset: int) -> int:
        """Time of a batch that begins at most an interval before an offset; 0 when it is unknown."""
        at = bisect_right(self._offsets, offset) - 1
        return self._times[at] if at >= 0 else self.first_time

    def index_files(self) -> list[tuple[Path, bytes]]:
        """Paths and content of the index files of this segment, which is sealed."""
        relative = array("Q", [offset - self.base_offset for offset in self._offsets])
        next_base = self.end_offset if self.next_base is None else self.next_base
        columns = (relative, self._positions, self._times)
        index = SegmentIndex(self.size, self.end_offset, next_base, self.transient, *columns)
        offsets, times = index.encode()
        with_suffix = self.path.with_suffix
        return [(with_suffix(".index"), offsets), (with_suffix(".timeindex"), times)]

    def use_index(self, index: SegmentIndex) -> None:
        """Take over the content of the index files."""
        self.transient = index.transient
        self._offsets = array("Q", [self.base_offset + offset for offset in index.offsets])
        self._positions, self._times = index.positions, index.times
        if self._times:
            self.last_time = self._times[-1]  # stays, if the scan from there meets damage

    @property
    def index_entries(self) -> int:
        """How many entries its index has."""
        return len(self._offsets)

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
    """A segment's state before batches were added; `entries` counts those of its index."""

    end_offset: int
    size: int
    last_time: int
    transient: bool
    next_base: int | None
    entries: int


def may_begin(path: Path, offset: int) -> bool:
    """Whether the first batch of a segment may begin at an offset, given that none goes backwards."""
    return is_compacted(path) or offset == base_offset_of(path)


def read_batches(
    disk: Disk, path: Path, position: int, end: int, offset: int, at_offset: int = 0
) -> list[RecordBatch]:
    """Read about READ_BYTES of batches, from the one that holds an offset or follows it.

    Args:
        position: of a batch at or before that one.
        end: size of the segment.
        at_offset: lowest base offset of the batch at the position.

    Raises:
        SegmentDamaged: the first wanted batch fails a check. If a later one does, those before it are returned.
    """
    batches: list[RecordBatch] = []
    total = 0
    with closing(open_segment_file(disk, path)) as file:
        try:
            for batch, at, size in headers(file, position, end, at_offset):
                if batch.end_offset <= offset:
                    continue
                batches.append(read_batch(file, batch, at, size))
                total += size
                if total >= READ_BYTES:
                    break
        except SegmentDamaged:
            if not batches:
                raise
    return batches


def read_batch(file: SegmentContent, header: RecordBatch, at: int, size: int) -> RecordBatch:
    """Read the batch of a header.

    Raises:
        SegmentDamaged: it fails a check.
    """
    try:
        return decode_batch(file.read(at, size), 0)
    except (CorruptBatch, SegmentDamaged) as error:
        first, end = header.base_offset, header.end_offset
        raise SegmentDamaged(file.path, at, error.reason, first, end) from None


def headers(
    file: SegmentContent, position: int, end: int, offset: int
) -> Iterator[tuple[RecordBatch, int, int]]:
    """Yield the batches of a segment without their payloads, each with its position and size.

    Args:
        position: of the first batch.
        end: position behind the last batch.
        offset: lowest base offset of the first batch.

    Raises:
        SegmentDamaged: a header fails a check, or offsets do not ascend.
    """
    window, window_at = bytearray(), position
    while position < end:
        at = position - window_at
        if at + HEADER_BYTES > len(window):
            window, window_at, at = _window(file, position, offset), position, 0
        try:
            batch = decode_header(window[at : at + HEADER_BYTES])
        except CorruptBatch as error:
            raise SegmentDamaged(file.path, position, error.reason, offset) from None
        size = batch_bytes(window, at)
        if batch.base_offset < offset:
            raise SegmentDamaged(file.path, position, "offsets go backwards", offset)
        if position + size > end:
            reason = "the batch is cut off"
            raise SegmentDamaged(file.path, position, reason, batch.base_offset, batch.end_offset)
        yield batch, position, size
        offset = batch.end_offset
        position += size


def _window(file: SegmentContent, position: int, offset: int) -> bytearray:
    try:
        return file.read(position, HEADERS_BYTES)
    except SegmentDamaged as error:
        raise SegmentDamaged(file.path, position, error.reason, offset) from None


@dataclass(slots=True)
class OpenedSegment:
    """A segment as recovery found it.

    Attributes:
        gone: offsets without records: missing between batches (in the newest segment), or of transient
            records, which end with the broker's run.
        damage: why it cannot be read to its end; `segment` then has what lies before.
        unindexed: its index files were missing or damaged, so the whole segment was scanned.
        torn: bytes behind the last whole batch that were cut off.
    """

    segment: Segment
    gone: Ranges = field(default_factory=list)
    damage: SegmentDamaged | None = None
    unindexed: bool = False
    torn: int = 0

    @property
    def holds_nothing(self) -> bool:
        """Whether it is empty and undamaged."""
        return self.segment.size == 0 and self.damage is None

    def fail(self, position: int, reason: str, end: int | None = None) -> None:
        """Note damage at a position."""
        segment = self.segment
        self.damage = SegmentDamaged(segment.path, position, reason, segment.end_offset, end)


def open_sealed(disk: Disk, path: Path, base_offset: int, next_base: int) -> OpenedSegment:
    """Open a sealed segment; only its headers behind the last index entry are read if the index is whole.

    Args:
        next_base: base offset of the next segment in the directory.
    """
    segment = Segment(path, base_offset)
    found = OpenedSegment(segment)
    index = read_index(disk, path)
    segment.next_base = next_base
    try:
        with closing(open_segment_file(disk, path)) as file:
            _scan_sealed(found, file, index)
            if found.damage is None:
                _check_end(found, index, file.size)
    except FileNotFoundError:
        found.fail(0, FILE_MISSING)
    except SegmentDamaged as error:
        found.damage = error
    segment.written()
    return found


def _scan_sealed(found: OpenedSegment, file: SegmentFile, index: SegmentIndex | None) -> None:
    segment = found.segment
    segment.compressed_bytes = file.compressed_bytes
    position, end = 0, file.size
    if index is None:
        found.unindexed = True
    else:
        end = min(end, index.size)
        if file.size >= index.size and not index.transient:
            segment.use_index(index)
            position = segment.last_indexed_position
    for batch, at, length in headers(file, position, end, segment.last_indexed_offset):
        if segment.size == 0 and at == 0 and not may_begin(segment.path, batch.base_offset):
            found.fail(0, f"it begins at offset {batch.base_offset}: it is another segment")
            return
        segment.add(batch, at, length)
        if not batch.records.persistent:
            found.gone.append((batch.base_offset, batch.end_offset))


def _check_end(found: OpenedSegment, index: SegmentIndex | None, size: int) -> None:
    segment = found.segment
    next_base = segment.next_base
    assert next_base is not None
    if index is not None and size != index.size:
        way = "cut off" if size < index.size else "longer than when it was sealed"
        found.fail(min(size, index.size), f"it is {way}: {size} bytes, not {index.size}")
    elif segment.size == 0:
        found.fail(0, "it holds no batch")
    elif segment.end_offset > next_base:
        found.fail(segment.size, f"it overlaps the segment of offset {next_base}")
    elif index is None:
        return
    elif segment.end_offset != index.end_offset:
        found.fail(segment.size, f"it ends at another offset than {index.end_offset}")
    elif next_base != index.next_base:
        reason = f"the segment of offset {index.next_base}, which follows it, is missing"
        found.fail(segment.size, reason)


def holes(disk: Disk, segment: Segment) -> Ranges:
    """Offsets between the batches of a segment that no batch holds.

    Raises:
        SegmentDamaged: a header fails a check.
    """
    found: Ranges = []
    end = segment.base_offset
    with closing(open_segment_file(disk, segment.path)) as file:
        for batch, _, _ in headers(file, 0, segment.size, end):
            if batch.base_offset > end:
                found.append((end, batch.base_offset))
            end = batch.end_offset
    return found


def open_active(disk: Disk, path: Path, base_offset: int, synced_offset: int) -> OpenedSegment:
    """Open the newest segment: verify every batch, and cut a torn tail back to the last whole one.

    Args:
        synced_offset: records below it were made durable; damage among them is no torn tail.

    Guarantees:
        A damaged segment is not changed.
    """
    segment = Segment(path, base_offset)
    found = OpenedSegment(segment)
    try:
        with opened(disk, path) as file:
            _scan_active(found, disk, file, synced_offset)
    except FileNotFoundError:
        found.fail(0, FILE_MISSING)
    segment.written()
    return found


def _scan_active(found: OpenedSegment, disk: Disk, file: int, synced_offset: int) -> None:
    segment = found.segment
    content = memoryview(disk.read(file, 0, disk.size(file)))
    position = synced_size = 0
    while position < len(content):
        try:
            batch = _next_batch(content, position, segment)
        except CorruptBatch as error:
            if segment.end_offset < synced_offset:
                found.fail(position, error.reason)
                return
            found.torn = len(content) - position
            disk.truncate(file, position)
            disk.sync(file)  # else old bytes could follow new ones after the next crash
            break
        if batch.base_offset > segment.end_offset:
            found.gone.append((segment.end_offset, batch.base_offset))
        if not batch.records.persistent:
            found.gone.append((batch.base_offset, batch.end_offset))
        size = batch_bytes(content, position)
        segment.add(batch, position, size)
        position += size
        if segment.end_offset <= synced_offset:
            synced_size = position
    if segment.end_offset < synced_offset:
        found.fail(position, "the file is cut off")
    elif synced_size < position:
        segment.doubtful = (synced_size, position)


def _next_batch(view: memoryview, position: int, segment: Segment) -> RecordBatch:
    batch = decode_batch(view, position)
    if position == 0 and not may_begin(segment.path, batch.base_offset):
        reason = f"it begins at offset {batch.base_offset}: it is another segment"
        raise CorruptBatch(reason)
    if batch.base_offset < segment.end_offset:
        raise CorruptBatch("offsets go backwards")
    return batch
