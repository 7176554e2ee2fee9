"""A segment: one file of a partition's log, record batches one behind the other from position 0.

The first batch begins at the offset that the file is named for, and offsets ascend. Only the newest
segment of a partition is written; the others are sealed, and have the index files of segment_index.py.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from routelog.log_backend.doors.disk import Disk
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
from routelog.log_backend.segments.segment_file import FILE_MISSING, SegmentFile, open_segment_file
from routelog.log_backend.segments.segment_file import SegmentDamaged as SegmentDamaged
from routelog.log_backend.segments.segment_index import SegmentIndex, read_index

RELATIVE_OFFSET_MAX = 2**32 - 1  # of an index entry
INDEX_INTERVAL_BYTES = 4_096  # of log between two index entries
READ_BYTES = 1024 * 1024  # of one cold read, unless one batch is larger

Ranges = list[tuple[int, int]]  # [first, end) offsets


class Segment:
    """What is known of one segment file.

    Attributes:
        base_offset: offset of its first record, and its name.
        end_offset: behind its last record.
        size: bytes of whole batches; the next batch goes there.
        last_time: the latest of its batches and of the segments before, microseconds since 1970; 0 when empty.
        written_at: when this run wrote to it, monotonic seconds; None: an earlier run did.
        written_end, written_size: as `end_offset` and `size`, without what is only planned: readers go
            so far.
        unsynced: written since the last sync.
        doubtful: positions [first, end) that recovery read behind what was synced for certain. If their
            sync has failed, only the system's cache has them and takes them for written: what writes
            them again makes the next sync a true one.
        transient: some batch is not persistent.
        next_base: base offset of the segment behind it; None while it is the newest.
        compressed_bytes: size of its file, when that has the compressed form.
        compressible: nothing speaks against compressing it in this run.
        damaged: its file is left as it is: nothing is added, and it is not sealed.
    """

    __slots__ = (
        "_offsets",
        "_positions",
        "_times",
        "base_offset",
        "compressed_bytes",
        "compressible",
        "damaged",
        "doubtful",
        "end_offset",
        "last_time",
        "next_base",
        "path",
        "size",
        "transient",
        "unsynced",
        "written_at",
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
        self.written_at: float | None = None
        self.unsynced = False
        self.doubtful: tuple[int, int] | None = None
        self.transient = self.damaged = False
        self.next_base: int | None = None
        self.compressed_bytes: int | None = None
        self.compressible = True
        self._offsets = array("Q")
        self._positions = array("Q")
        self._times = array("q")

    def add(self, batch: RecordBatch, position: int, size: int) -> None:
        """Note that a batch lies, or will lie, at a position."""
        if not self._positions or position - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._index(batch, position)
        if not batch.records.persistent:
            self.transient = True
        self.end_offset = batch.end_offset
        self.last_time = max(self.last_time, batch.records.last_time)
        self.size = position + size

    def add_fitting(self, batches: list[RecordBatch], at: int, bytes_max: int) -> int:
        """Plan to write batches, from an index on, as many as fit; returns the index behind them.

        However large it is, an empty segment has room for one.
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
        self._offsets.append(batch.base_offset)
        self._positions.append(position)
        # The clock may have been set back; times are searched.
        self._times.append(max(batch.records.time, self._times[-1] if self._times else 0))

    def mark(self) -> "SegmentMark":
        """What `restore` goes back to."""
        parts = (self.end_offset, self.size, self.last_time, self.transient, self.next_base)
        return SegmentMark(*parts, len(self._offsets))

    def restore(self, mark: "SegmentMark") -> None:
        """Forget the batches that were added since a mark: they were not written."""
        self.end_offset, self.size = mark.end_offset, mark.size
        self.last_time, self.transient = mark.last_time, mark.transient
        self.next_base = mark.next_base
        for column in (self._offsets, self._positions, self._times):
            del column[mark.entries :]

    def written(self) -> None:
        """All batches that were added are in the file."""
        self.written_end = self.end_offset
        self.written_size = self.size

    @property
    def is_open(self) -> bool:
        """Batches may be added."""
        return self.next_base is None and not self.damaged

    @property
    def file_bytes(self) -> int:
        """What its batches take on the disk."""
        return self.size if self.compressed_bytes is None else self.compressed_bytes

    def blocks(self) -> list[tuple[int, int]]:
        """Stretches of whole batches, [start, end), each to be compressed on its own."""
        return cut_blocks(self._positions, self.size)

    def extend(self, end_offset: int) -> None:
        """Damage hides the end: take an offset for it that is known, or was promised."""
        self.end_offset = self.written_end = end_offset

    def position_of(self, offset: int) -> int:
        """A position at or before the batch with an offset."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def lowest_offset_at(self, position: int) -> int:
        """No batch at or behind a position of `position_of` begins at a lower offset."""
        at = bisect_right(self._positions, position) - 1
        return self._offsets[at] if at >= 0 else self.base_offset

    @property
    def first_time(self) -> int:
        """When its first batch came in; 0 when nothing says so."""
        return self._times[0] if self._times else self.last_time

    def offset_at(self, time: int) -> int:
        """The offset of an index entry, close before the first batch of a time or later."""
        at = bisect_left(self._times, time) - 1
        return self._offsets[at] if at >= 0 else self.base_offset

    def index_files(self) -> list[tuple[Path, bytes]]:
        """The index files of this segment, which another one follows, and their content."""
        relative = array("Q", [offset - self.base_offset for offset in self._offsets])
        index = SegmentIndex(
            self.size,
            self.end_offset,
            self.end_offset if self.next_base is None else self.next_base,
            self.transient,
            relative,
            self._positions,
            self._times,
        )
        suffixes = (".index", ".timeindex")
        return [
            (self.path.with_suffix(suffix), content)
            for suffix, content in zip(suffixes, index.encode(), strict=True)
        ]

    def use_index(self, index: SegmentIndex) -> None:
        """Take over what the index files say."""
        self.transient = index.transient
        self._offsets = array("Q", [self.base_offset + offset for offset in index.offsets])
        self._positions, self._times = index.positions, index.times
        if self._times:
            self.last_time = self._times[-1]  # if the walk from there meets damage

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
    next_base: int | None
    entries: int


def read_batches(
    disk: Disk, path: Path, position: int, end: int, offset: int, at_offset: int = 0
) -> list[RecordBatch]:
    """Read about READ_BYTES of batches, from the one that holds an offset or follows it.

    Args:
        position: of a batch at or before that one.
        end: size of the segment.
        at_offset: the batch at the position begins at this offset or behind it.

    Raises:
        SegmentDamaged: the first batch that is wanted fails a check; those before a damaged one are
            returned.
    """
    file = open_segment_file(disk, path)
    batches: list[RecordBatch] = []
    total = 0
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
    finally:
        file.close()
    return batches


def read_batch(file: SegmentFile, header: RecordBatch, at: int, size: int) -> RecordBatch:
    """Read the batch of a header.

    Raises:
        SegmentDamaged: it fails a check.
    """
    first, behind = header.base_offset, header.end_offset
    try:
        return decode_batch(file.read(at, size), 0)
    except CorruptBatch as error:
        raise SegmentDamaged(file.path, at, error.reason, first, behind) from None
    except SegmentDamaged as error:
        raise SegmentDamaged(file.path, at, error.reason, first, behind) from None


def headers(
    file: SegmentFile, position: int, end: int, offset: int
) -> Iterator[tuple[RecordBatch, int, int]]:
    """Walk the headers of a segment from a batch on: batch without payload, position, size.

    Args:
        end: where the last batch ends.
        offset: the first batch begins there or behind it.

    Raises:
        SegmentDamaged: there is no header where one has to be, or its offsets were there before.
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


def _window(file: SegmentFile, position: int, offset: int) -> bytearray:
    try:
        return file.read(position, 65_536)
    except SegmentDamaged as error:
        raise SegmentDamaged(file.path, position, error.reason, offset) from None


@dataclass(slots=True)
class OpenedSegment:
    """A segment as it was found.

    Attributes:
        gone: offsets whose records are not there: missing between batches (in the newest segment), or
            transient, which end with the broker's run.
        damage: why it cannot be read to its end; the segment then holds what lies before.
        unindexed: its index files were missing or damaged; the segment was walked instead.
        torn: bytes behind the last whole batch that were cut off.
    """

    segment: Segment
    gone: Ranges = field(default_factory=list)
    damage: SegmentDamaged | None = None
    unindexed: bool = False
    torn: int = 0

    @property
    def holds_nothing(self) -> bool:
        """Whether no batch is in it, and none is missed."""
        return self.segment.size == 0 and self.damage is None

    def fail(self, position: int, reason: str, end: int | None = None) -> None:
        """There is damage at a position."""
        segment = self.segment
        self.damage = SegmentDamaged(segment.path, position, reason, segment.end_offset, end)


def open_sealed(disk: Disk, path: Path, base_offset: int, next_base: int) -> OpenedSegment:
    """Open a segment that is not written any more; its index files are used when they are whole.

    Args:
        next_base: base offset of the segment that follows in the directory.
    """
    segment = Segment(path, base_offset)
    opened = OpenedSegment(segment)
    index = read_index(disk, path)
    segment.next_base = next_base
    try:
        file = open_segment_file(disk, path)
    except FileNotFoundError:
        opened.fail(0, FILE_MISSING)
        return opened
    except SegmentDamaged as error:
        opened.damage = error
        return opened
    try:
        size = file.size
        segment.compressed_bytes = file.compressed_bytes
        position = 0
        if index is None:
            opened.unindexed = True
        elif size >= index.size and not index.transient:
            segment.use_index(index)
            position = segment.last_indexed_position
        start = segment.last_indexed_offset
        end = size if index is None else min(size, index.size)
        for batch, at, length in headers(file, position, end, start):
            if segment.size == 0 and at == 0 and batch.base_offset != base_offset:
                opened.fail(0, f"it begins at offset {batch.base_offset}: it is another segment")
                break
            segment.add(batch, at, length)
            if not batch.records.persistent:
                opened.gone.append((batch.base_offset, batch.end_offset))
    except SegmentDamaged as error:
        opened.damage = error
    finally:
        file.close()
    if opened.damage is None:
        _check_end(opened, index, size)
    segment.written()
    return opened


def _check_end(opened: OpenedSegment, index: SegmentIndex | None, size: int) -> None:
    segment = opened.segment
    next_base = segment.next_base
    assert next_base is not None
    if index is not None and size != index.size:
        way = "cut off" if size < index.size else "longer than when it was sealed"
        opened.fail(min(size, index.size), f"it is {way}: {size} bytes, not {index.size}")
    elif segment.size == 0:
        opened.fail(0, "it holds no batch")
    elif segment.end_offset > next_base:
        opened.fail(segment.size, f"it overlaps the segment of offset {next_base}")
    elif index is None:
        return
    elif segment.end_offset != index.end_offset:
        opened.fail(segment.size, f"it ends at another offset than {index.end_offset}")
    elif next_base != index.next_base:
        reason = f"the segment of offset {index.next_base}, which follows it, is missing"
        opened.fail(segment.size, reason)


def holes(disk: Disk, segment: Segment) -> Ranges:
    """Offsets between the batches of a segment that no batch holds.

    Raises:
        SegmentDamaged: it holds something that is no batch.
    """
    found: Ranges = []
    end = segment.base_offset
    file = open_segment_file(disk, segment.path)
    try:
        for batch, _, _ in headers(file, 0, segment.size, end):
            if batch.base_offset > end:
                found.append((end, batch.base_offset))
            end = batch.end_offset
    finally:
        file.close()
    return found


def open_active(disk: Disk, path: Path, base_offset: int, synced_offset: int) -> OpenedSegment:
    """Open the newest segment: verify every batch, and cut a torn tail back to the last whole one.

    Args:
        synced_offset: records below it were made durable; damage among them is no torn tail.

    Guarantees:
        A damaged segment is not changed.
    """
    segment = Segment(path, base_offset)
    opened = OpenedSegment(segment)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        opened.fail(0, FILE_MISSING)
        return opened
    try:
        content = disk.read(file, 0, disk.size(file))
        view = memoryview(content)
        position = synced_size = 0
        while position < len(content):
            try:
                batch = _next_batch(view, position, segment)
            except CorruptBatch as error:
                if segment.end_offset < synced_offset:
                    opened.fail(position, error.reason)
                    break
                opened.torn = len(content) - position
                disk.truncate(file, position)
                disk.sync(file)  # or old bytes could follow new ones after the next crash
                break
            if batch.base_offset > segment.end_offset:
                opened.gone.append((segment.end_offset, batch.base_offset))
            if not batch.records.persistent:
                opened.gone.append((batch.base_offset, batch.end_offset))
            size = batch_bytes(view, position)
            segment.add(batch, position, size)
            position += size
            if segment.end_offset <= synced_offset:
                synced_size = position
        if segment.end_offset < synced_offset and opened.damage is None:
            opened.fail(position, "the file is cut off")
        if synced_size < position and opened.damage is None:
            segment.doubtful = (synced_size, position)
    finally:
        disk.close(file)
    segment.written()
    return opened


def _next_batch(view: memoryview, position: int, segment: Segment) -> RecordBatch:
    batch = decode_batch(view, position)
    if position == 0 and batch.base_offset != segment.base_offset:
        reason = f"it begins at offset {batch.base_offset}: it is another segment"
        raise CorruptBatch(reason)
    if batch.base_offset < segment.end_offset:
        raise CorruptBatch("offsets go backwards")
    return batch
