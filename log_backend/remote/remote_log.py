"""The segments of one partition in remote storage, which of them are past retention, and the partition's
mark.

In the metadata store, big-endian::

    b"copied/" partition u64 -> nothing

The mark is in the journal before the first copy is, and goes with the files of the partition. Without it, a
log ends where the disk ends: nobody asks remote storage.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, takewhile
from operator import attrgetter

from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.metadata.read_ahead import StoredEntries
from routelog.log_backend.remote.remote_segment import RemoteSegment, counting
from routelog.log_backend.segments.retention import Retention

_next_base = attrgetter("next_base")


class RemoteLog:
    """The segments of a partition in remote storage; used on the event loop only.

    Attributes:
        folder: of its objects.
        segments: those that count, oldest first.
        bytes: stored size of these.
        damaged: ranges [first, end) of offsets that no copy gives whole, as readers of this run have found.
    """

    def __init__(self, folder: str, segments: Sequence[RemoteSegment] = ()) -> None:
        self.folder = folder
        self.damaged: list[tuple[int, int]] = []
        self._dropped_end = 0  # retention has removed segments up to here
        self.listed(segments)

    def listed(self, segments: Sequence[RemoteSegment]) -> None:
        """Take the segments that a listing of the folder has found."""
        self.segments = list(segments)
        self._bytes_through = array("Q", accumulate(each.bytes for each in segments))
        self.bytes = self._bytes_through[-1] if segments else 0

    @property
    def end(self) -> int:
        """Offset behind the newest segment."""
        return self.segments[-1].next_base if self.segments else self._dropped_end

    def end_from(self, offset: int) -> int:
        """All from an offset up to here was copied; the offset itself if it was not."""
        reached = max(offset, self._dropped_end)
        for segment in islice(self.segments, self._at(reached), None):
            if segment.first_offset > reached:
                break
            reached = segment.next_base
        return reached

    def segment_of(self, offset: int) -> RemoteSegment | None:
        """The segment that an offset belongs to, or the next one; None if all end before it."""
        at = self._at(offset)
        return self.segments[at] if at < len(self.segments) else None

    def copies_of(self, offset: int) -> list[RemoteSegment]:
        """All segments with an offset, best first: that of `segment_of`, and others that overlap it."""
        behind = islice(self.segments, self._at(offset), None)
        return list(takewhile(lambda each: each.base_offset <= offset, behind))

    def since(self, time: int) -> RemoteSegment | None:
        """The first segment with a batch of a time (us since 1970) or later."""
        at = bisect_left(self.segments, time, key=attrgetter("last_time"))
        return self.segments[at] if at < len(self.segments) else None

    def bytes_between(self, first: int, end: int) -> int:
        """Stored size of the segments that end behind `first` and begin below `end`."""
        begin = self._at(first)
        behind = bisect_right(self.segments, end - 1, key=attrgetter("first_offset"))
        if begin >= behind:
            return 0
        return self._bytes_through[behind - 1] - (self._bytes_through[begin - 1] if begin else 0)

    def is_damaged(self, offset: int) -> bool:
        """Whether no copy gives the record at an offset."""
        return any(first <= offset < end for first, end in self.damaged)

    def lost(self, segment: RemoteSegment) -> None:
        """Forget a segment whose objects are gone; others may have a part of it."""
        self.listed(counting([each for each in self.segments if each != segment]))

    def drop(self, end: int) -> None:
        """Forget the segments below an offset: they were removed."""
        self._dropped_end = max(self._dropped_end, end)
        self.listed(self.segments[self._at(end) :])

    def _at(self, offset: int) -> int:
        return bisect_right(self.segments, offset, key=_next_base)

    def ended(self, retention: Retention, local_bytes: int, low_water: int, now: int) -> int:
        """How many of the segments, oldest first, are past retention.

        Args:
            local_bytes: of the segments that are not copied yet.
            low_water: the queue's own cursor has settled every offset below; ignored for a stream.
        """
        kept = self.bytes + local_bytes
        count = 0
        for segment in self.segments:
            age = now - segment.last_time
            is_over = segment.next_base <= low_water
            if retention.is_stream:
                is_over = retention.exceeds(age, kept)
            if not is_over or age < retention.settled_age:
                break
            kept -= segment.bytes
            count += 1
        return count


MARK_PREFIX = b"copied/"
_NUMBER = struct.Struct(">Q")


def mark_change(partition: int, *, is_marked: bool = True) -> Change:
    """Mark a partition, or take the mark away."""
    return Change(MARK_PREFIX + _NUMBER.pack(partition), b"" if is_marked else None)


def is_marked(metadata: StoredEntries, partition: int) -> bool:
    """Whether a partition has the mark."""
    return metadata.get(MARK_PREFIX + _NUMBER.pack(partition)) is not None


def marked_partitions(metadata: StoredEntries) -> Iterator[int]:
    """The numbers of all that have it."""
    for key, _ in metadata.scan(MARK_PREFIX):
        yield _NUMBER.unpack(key.removeprefix(MARK_PREFIX))[0]
