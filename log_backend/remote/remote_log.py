"""The segments of one partition in remote storage, and which of them are past retention."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter

from routelog.log_backend.remote.remote_segment import RemoteSegment
from routelog.log_backend.segments.retention import Retention

_next_base = attrgetter("next_base")


class RemoteLog:
    """The segments of a partition in remote storage; used on the event loop only.

    Attributes:
        folder: of its objects.
        segments: those that count, oldest first.
        bytes: stored size of these.
    """

    def __init__(self, folder: str, segments: Sequence[RemoteSegment] = ()) -> None:
        self.folder = folder
        self._dropped_end = 0  # retention has removed segments up to here
        self.listed(segments)

    def listed(self, segments: Sequence[RemoteSegment]) -> None:
        """Take the segments that a listing of the folder has found."""
        self.segments = list(segments)
        self.bytes = sum(each.bytes for each in segments)

    @property
    def end(self) -> int:
        """Offset behind the newest segment."""
        return self.segments[-1].next_base if self.segments else self._dropped_end

    def end_from(self, offset: int) -> int:
        """All from an offset up to here was copied; the offset itself if it was not."""
        reached = max(offset, self._dropped_end)
        at = bisect_right(self.segments, reached, key=_next_base)
        for segment in islice(self.segments, at, None):
            if segment.first_offset > reached:
                break
            reached = segment.next_base
        return reached

    def drop(self, count: int) -> None:
        """Forget the oldest segments: they were removed."""
        if count:
            self._dropped_end = self.segments[count - 1].next_base
            self.listed(self.segments[count:])

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
