"""Reads a piece of a log from remote storage: the part that blocks, and runs in a thread."""

import logging
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.bucket import Bucket, StoredObject
from routelog.log_backend.remote.remote_segment import RemoteSegment, read_remote_index
from routelog.log_backend.segments.compressed_segment import CompressedSegment, CorruptCompression
from routelog.log_backend.segments.segment import HEADERS_BYTES, Segment, headers, read_batch
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.segments.segment_index import SegmentIndex

log = logging.getLogger(__name__)

# Of log between two index entries that are kept: fine for requests of 1 MiB and more, and a sixteenth of the
# entries that the object has.
INDEX_STEP_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """A copy to read from, and its index if that is known."""

    segment: RemoteSegment
    index: Segment | None


@dataclass(frozen=True, slots=True)
class RemotePiece:
    """Neighbouring batches of one copy: all that the log has of the offsets [first, end).

    Attributes:
        index: of the copy; only some of its entries.
    """

    copy: RemoteSegment
    index: Segment
    first: int
    end: int
    batches: list[RecordBatch]


class PieceDamaged(Exception):
    """No copy gives the records [first, end) whole."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__(f"offsets {first} to {end - 1} are damaged in every copy")
        self.first = first
        self.end = end


class RemoteContent:
    """The content of a segment in remote storage: a part of it is fetched with one request, then read.

    Attributes:
        path: names the object in errors.
        size: of the segment before compression.

    Raises:
        SegmentDamaged: header or table of the compressed form fail a check.
        BucketFailed: by each call: the storage does not answer.
    """

    def __init__(self, found: StoredObject, folder: str, segment: RemoteSegment) -> None:
        self.path = Path(folder) / segment.content_name
        self.size = found.size
        self._found = found
        self._first = segment.first_offset
        self._fetched, self._fetched_at = memoryview(b""), 0  # of the object
        self._compressed: CompressedSegment | None = None
        if segment.is_compressed:
            try:
                self._compressed = CompressedSegment(self._stored, found.size)
            except CorruptCompression as error:
                raise SegmentDamaged(self.path, 0, error.reason, self._first) from None
            self.size = self._compressed.size

    def fetch(self, position: int, size: int) -> int:
        """Fetch bytes from a position on: at least `size`, if there are so many; returns where they end."""
        end = min(position + size, self.size)
        if self._compressed is None:
            self._fetch(position, end)
            return end
        blocks = self._compressed.blocks
        at = bisect_right(blocks, position, key=lambda block: block.position) - 1
        last = bisect_right(blocks, end - 1, key=lambda block: block.position) - 1
        behind = blocks[last + 1 : last + 2]
        table = self._found.size  # a few bytes of it come along
        self._fetch(blocks[at].file_offset, behind[0].file_offset if behind else table)
        return blocks[last].position + blocks[last].length

    def read(self, position: int, size: int) -> bytearray:
        """See `SegmentFile`."""
        if self._compressed is None:
            return self._stored(position, min(size, self.size - position))
        try:
            return self._compressed.read(position, size)
        except CorruptCompression as error:
            raise SegmentDamaged(self.path, position, error.reason, self._first) from None

    def _fetch(self, at: int, end: int) -> None:
        self._fetched, self._fetched_at = memoryview(self._found.read(at, end - at)), at

    def _stored(self, at: int, size: int) -> bytearray:
        begin = at - self._fetched_at
        if begin >= 0 and begin + size <= len(self._fetched):
            return bytearray(self._fetched[begin : begin + size])
        return bytearray(self._found.read(at, size))


def read_piece(
    bucket: Bucket, folder: str, copies: Sequence[RemoteCopy], offset: int, size: int
) -> RemotePiece:
    """Read about `size` bytes of batches, from the one that holds an offset or follows it.

    Args:
        copies: segments that the offset belongs to, best first.

    Returns:
        What the first copy has that is whole there. There may be no batch: up to `end`, no record was stored.

    Raises:
        PieceDamaged: no copy is whole there.
        NoObject: a copy was removed.
        BucketFailed: the storage does not answer.
    """
    end = copies[0].segment.next_base
    for copy in copies:
        try:
            return _read_copy(bucket, folder, copy, offset, size)
        except SegmentDamaged as error:
            log.error("remote storage: %s", error)
            end = min(end, copy.segment.next_base if error.end is None else error.end)
    raise PieceDamaged(offset, max(end, offset + 1))


def _read_copy(
    bucket: Bucket, folder: str, copy: RemoteCopy, offset: int, size: int
) -> RemotePiece:
    segment = copy.segment
    with closing(bucket.open(f"{folder}/{segment.content_name}")) as found:
        content = RemoteContent(found, folder, segment)
        index = copy.index or _index(bucket, folder, segment, content, size)
        if content.size != index.size:
            reason = f"it has {content.size} bytes, not {index.size}"
            raise SegmentDamaged(content.path, 0, reason, offset)
        position = index.position_of(offset)
        lowest = index.lowest_offset_at(position)
        target = position + size
        reach = content.fetch(
            position, size + HEADERS_BYTES
        )  # so that no header needs a request more
        batches: list[RecordBatch] = []
        end = segment.next_base
        try:
            for header, at, length in headers(content, position, content.size, lowest):
                if batches and at + length > reach:
                    end = header.base_offset
                    break
                if header.end_offset > offset:
                    batches.append(read_batch(content, header, at, length))
                if batches and at + length >= target and at + length < content.size:
                    end = header.end_offset
                    break
        except SegmentDamaged:
            if not batches:
                raise
            end = batches[-1].end_offset
    return RemotePiece(segment, index, offset, end, batches)


def read_index(bucket: Bucket, folder: str, segment: RemoteSegment, size: int) -> Segment | None:
    """Read the index of a copy; None if it cannot be made of what is there.

    Args:
        size: of a request, if the index is damaged and built again from the content.

    Raises:
        NoObject: the copy was removed.
        BucketFailed: the storage does not answer.
    """
    try:
        with closing(bucket.open(f"{folder}/{segment.content_name}")) as found:
            content = RemoteContent(found, folder, segment)
            return _index(bucket, folder, segment, content, size)
    except SegmentDamaged as error:
        log.error("remote storage: %s", error)
        return None


def _index(
    bucket: Bucket, folder: str, segment: RemoteSegment, content: RemoteContent, size: int
) -> Segment:
    found = Segment(content.path, segment.base_offset, next_base=segment.next_base)
    index = read_remote_index(bucket, folder, segment)
    if index is None:
        log.error("remote storage: %s/%s is damaged", folder, segment.index_name)
        index = _built_index(content, segment, size)
    found.size, found.end_offset = index.size, index.end_offset
    found.use_index(_thinned(index))
    found.last_time = segment.last_time
    return found


def _built_index(content: RemoteContent, segment: RemoteSegment, size: int) -> SegmentIndex:
    # Of a whole content, with requests for all of it.
    base = segment.base_offset
    index = SegmentIndex(content.size, base, segment.next_base)
    reach = 0
    for batch, at, length in headers(content, 0, content.size, base):
        if reach <= at + length < content.size:
            reach = content.fetch(at + length, size)
        index.offsets.append(batch.base_offset - base)
        index.positions.append(at)
        index.times.append(max(batch.records.time, index.times[-1] if index.times else 0))
        index.end_offset = batch.end_offset
    return index


def _thinned(index: SegmentIndex) -> SegmentIndex:
    kept: list[int] = []
    for at, position in enumerate(index.positions):
        if not kept or position - index.positions[kept[-1]] >= INDEX_STEP_BYTES:
            kept.append(at)
    return SegmentIndex(
        index.size,
        index.end_offset,
        index.next_base,
        index.transient,
        array("Q", [index.offsets[at] for at in kept]),
        array("Q", [index.positions[at] for at in kept]),
        array("q", [index.times[at] for at in kept]),
    )
