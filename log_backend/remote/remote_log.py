"""The segments of one partition in remote storage, and which of them are past retention."""

from collections.abc import Sequence

from routelog.log_backend.remote.remote_segment import RemoteSegment
from routelog.log_backend.segments.retention import Retention


class RemoteLog:
    """The segments of a partition in remote storage; used on the event loop only.

    Attributes:
        folder: of its objects.
        segments: those that are complete, oldest first.
        bytes: stored size of all segments.
    """

    def __init__(self, folder: str, segments: Sequence[RemoteSegment]) -> None:
        self.folder = folder
        self.segments = list(segments)
        self.bytes = sum(each.bytes for each in segments)
        self._end = segments[-1].next_base if segments else 0

    @property
    def end(self) -> int:
        """All sealed segments below this offset were copied."""
        return self._end

    def last_from(self, base_offset: int) -> RemoteSegment | None:
        """The last segment, if it has this base offset: a new copy of the segment replaces it."""
        last = self.segments[-1] if self.segments else None
        return last if last is not None and last.base_offset == base_offset else None

    def add(self, segment: RemoteSegment) -> None:
        """Add a complete segment; it replaces the last one if that has the same base offset."""
        if self.last_from(segment.base_offset):
            self.bytes -= self.segments.pop().bytes
        self.segments.append(segment)
        self.bytes += segment.bytes
        self._end = segment.next_base

    def drop(self, count: int) -> None:
        """Forget the oldest segments: they were removed."""
        self.bytes -= sum(each.bytes for each in self.segments[:count])
        del self.segments[:count]

    def ended(self, retention: Retention, local_bytes: int, low_water: int, now: int) -> int:
        """How many of the segments, oldest first, are past retention.

        Args:
            local_bytes: of the segments that are not copied yet.
            low_water: all cursors of the queue have settled every offset below.
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
