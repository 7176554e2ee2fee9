"""One pass of compaction over the sealed segments of a log: of each key, the last record stays.

A record has the key of a header, or else its routing key. One with an empty body deletes its key: it stays,
too, until it may go itself. Offsets stay as they are, so gaps grow: each run of neighbouring survivors becomes
a batch. No batch has records of two earlier ones, so whoever reads on behind a batch of an old file begins at a
batch of the new one.

Neighbouring segments become one, as long as it has `segment_bytes_max`; so one without survivors needs no file.
The new segment has the base offset of the first one, the next base offset of the last one, and a name of its
own, `<base offset>.<pass>.log`: a reader that knows a position in an old file cannot meet the new one. It is
written to a scratch file. Who gives it its name removes the old ones when that is durable; see segment_forms.py
for a crash.

The last record of the pass stays: it is the last one of its key, and no deletion that young goes. So there is
a survivor, and the offset behind the last sealed segment does not change: recovery compares that with what was
synced.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import msgspec

from routelog.log_backend.doors.disk import Buffer, Disk, DiskFull, is_full, opened
from routelog.log_backend.records.header_key import header_key
from routelog.log_backend.records.record_batch import (
    CorruptBatch,
    RecordBatch,
    Records,
    batch_bytes,
    decode_batch,
)
from routelog.log_backend.records.record_selection import split_records
from routelog.log_backend.segments.log_directory import PLAIN
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_file import SegmentDamaged, open_segment_file

DIGEST_BYTES = 16  # of a key: two keys of one digest would be one; 2^64 keys may have two of them
DIGESTS_KEPT = 65_536  # of keys that come again and again


class CompactionInput(msgspec.Struct, frozen=True):
    """A sealed segment; `path` is that of its `.log`, and `size` before compression."""

    path: str
    base_offset: int
    next_base: int
    size: int


class CompactionTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass is to do.

    Attributes:
        inputs: neighbouring segments, from the first one of the log on.
        clean_end: an earlier pass has left one record of each key below this offset.
        deletions_end: deletions below this offset go; at most `clean_end`.
        key_header: whose value is the key; empty: the routing key is it.
        keys_max: of the segments behind `clean_end`. The pass ends in front of a segment with more, unless that
            is the first of them.
        segment_bytes_max: of a segment that is made of several.
        scratch: folder of new segments, until they get their names.
    """

    inputs: list[CompactionInput]
    clean_end: int
    deletions_end: int
    key_header: str
    keys_max: int
    segment_bytes_max: int
    scratch: str


class CompactedSegment(msgspec.Struct, frozen=True, tag="segment"):
    """A new segment is written and synced, with its index files.

    Attributes:
        path: of its `.log` in the scratch folder.
        first, end: it takes the place of inputs [first, end).
        removed: how many records it lacks.
    """

    path: str
    first: int
    end: int
    removed: int


class CompactionEnd(msgspec.Struct, frozen=True, tag="end"):
    """The pass is complete: there is one record of each key below an offset."""

    clean_end: int


CompactionStep = CompactedSegment | CompactionEnd


def compact(
    disk: Disk, task: CompactionTask, name: str, look: Callable[[], None] = lambda: None
) -> Iterator[CompactionStep]:
    """Carry out a pass. Each new segment must have its name before the next step.

    Args:
        name: of the files in the scratch folder: no other pass, even a forgotten one, has the same.
        look: called before each segment is read; what it raises ends the pass.

    Raises:
        SegmentDamaged: an input fails a check.
        FileNotFoundError: an input was removed meanwhile.
        DiskFull: a new segment has no room.

    Cost:
        Reads the segments behind `clean_end` twice, and has two of them in memory, and some 200 bytes a key.
    """
    scratch = Path(task.scratch) / f"{name}{PLAIN}"
    keys = KeyDigests(task.key_header.encode())
    last, count = _last_offsets(disk, task, keys, look)
    inputs = task.inputs[:count]
    group = _Group(task)
    for at, each in enumerate(inputs):
        look()
        survivors, removed = _survivors(disk, each, task, keys, last)
        size = sum(batch.records.batch_bytes for batch in survivors)
        # A group without survivors is no segment: it goes on with the next input.
        if group.size and group.size + size > task.segment_bytes_max:
            if group.is_changed:
                yield group.write(disk, scratch, at)
            group = _Group(task)
        group.add(at, survivors, size, removed)
    if group.is_changed:
        yield group.write(disk, scratch, count)
    yield CompactionEnd(inputs[-1].next_base)


class KeyDigests:
    """The digests of records' keys.

    Args:
        header: whose value is the key; empty: the routing key is it, as of a record without this header.
    """

    def __init__(self, header: bytes) -> None:
        self._header = header
        self._known: dict[bytes, bytes] = {}

    def of(self, records: Records) -> list[bytes]:
        """One digest for each record."""
        if self._header:
            return [self._of_header(records, index) for index in range(records.count)]
        if records.has_key_column:
            return [self._digest(records.routing_key(index)) for index in range(records.count)]
        return [self._digest(records.routing_key(0))] * records.count

    def _of_header(self, records: Records, index: int) -> bytes:
        key = header_key(records.properties(index), self._header)
        if key is None:
            return self._digest(b"r" + records.routing_key(index))
        return self._digest(b"h" + key)

    def _digest(self, key: bytes) -> bytes:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= DIGESTS_KEPT:
                self._known.clear()
            found = self._known[key] = blake2b(key, digest_size=DIGEST_BYTES).digest()
        return found


def _last_offsets(
    disk: Disk, task: CompactionTask, keys: KeyDigests, look: Callable[[], None]
) -> tuple[dict[bytes, int], int]:
    """The last offset of each key behind `clean_end`, and how many inputs the pass has."""
    last: dict[bytes, int] = {}
    is_first = True
    for at, each in enumerate(task.inputs):
        if each.base_offset < task.clean_end:
            continue
        look()
        own: dict[bytes, int] = {}
        for batch in _batches(disk, each):
            offsets = range(batch.base_offset, batch.end_offset)
            own.update(zip(keys.of(batch.records), offsets, strict=True))
        if not is_first and len(last) + len(own.keys() - last.keys()) > task.keys_max:
            return last, at
        last.update(own)
        is_first = False
    return last, len(task.inputs)


def _survivors(
    disk: Disk,
    segment: CompactionInput,
    task: CompactionTask,
    keys: KeyDigests,
    last: dict[bytes, int],
) -> tuple[list[RecordBatch], int]:
    """The batches that are left of a segment, and how many records are not."""
    survivors: list[RecordBatch] = []
    removed = 0
    for batch in _batches(disk, segment):
        records, base = batch.records, batch.base_offset
        gone = [
            index
            for index, digest in enumerate(keys.of(records))
            if last.get(digest, -1) > base + index
        ]
        if base < task.deletions_end:
            ends = records.offset_columns()
            gone += [
                index
                for index in range(min(records.count, task.deletions_end - base))
                if ends[index] == ends[index + 1]
            ]
        if gone:
            kept = _without(batch, set(gone))
            survivors += kept
            removed += records.count - sum(each.records.count for each in kept)
        else:
            records.payload = bytes(records.payload)  # else it keeps the whole segment in memory
            survivors.append(batch)
    return survivors, removed


def _without(batch: RecordBatch, gone: set[int]) -> list[RecordBatch]:
    """A batch for each run of neighbours that stay."""
    count = batch.records.count
    places = array("i", bytes(4 * count))  # 0: it goes; else the number of its run
    begins = [0]
    for index in range(count):
        if index not in gone:
            if index == 0 or places[index - 1] == 0:
                begins.append(index)
            places[index] = len(begins) - 1
    parts = split_records(batch.records, places, len(begins))
    return [
        RecordBatch(part, batch.base_offset + begins[place], batch.leader_epoch)
        for place, part in parts
        if place
    ]


def _batches(disk: Disk, segment: CompactionInput) -> Iterator[RecordBatch]:
    path = Path(segment.path)
    with closing(open_segment_file(disk, path)) as file:
        content = memoryview(file.read(0, file.size))
    if len(content) != segment.size:
        raise SegmentDamaged(path, len(content), f"it has not {segment.size} bytes")
    position, offset = 0, segment.base_offset
    while position < len(content):
        try:
            batch = decode_batch(content, position)
            if batch.base_offset < offset or batch.end_offset > segment.next_base:
                raise CorruptBatch("its offsets are not those of this segment")
        except CorruptBatch as error:
            raise SegmentDamaged(path, position, error.reason, offset) from None
        yield batch
        offset = batch.end_offset
        position += batch_bytes(content, position)


class _Group:
    """Neighbouring inputs that become one segment.

    Attributes:
        first: index of the first one; None: there is none yet.
        size: bytes of its batches.
    """

    def __init__(self, task: CompactionTask) -> None:
        self.first: int | None = None
        self.size = 0
        self._task = task
        self._batches: list[RecordBatch] = []
        self._removed = self._count = 0

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return self._removed > 0 or self._count > 1

    def add(self, at: int, batches: Sequence[RecordBatch], size: int, removed: int) -> None:
        """Take what is left of an input."""
        self.first = at if self.first is None else self.first
        self.size += size
        self._batches += batches
        self._removed += removed
        self._count += 1

    def write(self, disk: Disk, path: Path, end: int) -> CompactedSegment:
        """Write the new segment and its index files to the scratch files."""
        assert self.first is not None
        segment = Segment(path, self._task.inputs[self.first].base_offset)
        segment.next_base = self._task.inputs[end - 1].next_base
        buffers: list[Buffer] = []
        for batch in self._batches:
            segment.add(batch, segment.size, batch.records.batch_bytes)
            buffers += (batch.header(), batch.records.payload)
        _write(disk, path, segment.size, buffers)
        for index_path, content in segment.index_files():
            _write(disk, index_path, len(content), [content])
        return CompactedSegment(str(path), self.first, end, self._removed)


def _write(disk: Disk, path: Path, size: int, buffers: Sequence[Buffer]) -> None:
    try:
        with opened(disk, path, create=True) as file:
            disk.truncate(file, 0)
            disk.allocate(file, 0, size)
            disk.write(file, 0, buffers)
            disk.sync(file)
    except OSError as error:
        raise (DiskFull(str(error)) if is_full(error) else error) from error
