"""What remote storage holds of one partition's log, and which of it the log's retention ends."""

from collections.abc import Sequence

from routelog.log_backend.remote.remote_segment import RemoteSegment
from routelog.log_backend.segments.retention import Retention


class RemoteLog:
    """The segments of a partition in remote storage, oldest first; known and changed on the loop only.

    Attributes:
        folder: of its objects.
        segments: those that are whole there.
        bytes: of all of them, as they are stored.
    """

    def __init__(self, folder: str, segments: Sequence[RemoteSegment]) -> None:
        self.folder = folder
        self.segments = list(segments)
        self.bytes = sum(each.bytes for each in segments)
        self._end = segments[-1].next_base if segments else 0

    @property
    def end(self) -> int:
        """All that was sealed below was copied."""
        return self._end

    def last_from(self, base_offset: int) -> RemoteSegment | None:
        """The last segment, if it begins at an offset: what is copied from there takes its place."""
        last = self.segments[-1] if self.segments else None
        return last if last is not None and last.base_offset == base_offset else None

    def add(self, segment: RemoteSegment) -> None:
        """A segment is whole: behind the others, or in place of the last one, which was written on."""
        if self.last_from(segment.base_offset):
            self.bytes -= self.segments.pop().bytes
        self.segments.append(segment)
        self.bytes += segment.bytes
        self._end = segment.next_base

    def drop(self, count: int) -> None:
        """The oldest segments are gone."""
        self.bytes -= sum(each.bytes for each in self.segments[:count])
        del self.segments[:count]

    def ended(self, retention: Retention, local_bytes: int, low_water: int, now: int) -> int:
        """How many of the segments, oldest first, a retention does not keep any more.

        Args:
            local_bytes: of the log that is not here.
            low_water: every cursor of the queue has settled what is below.
        """
        kept = self.bytes + local_bytes
        count = 0
        for segment in self.segments:
            if retention.is_stream:
                too_old = (
                    retention.age_max is not None and now - segment.last_time > retention.age_max
                )
                too_much = retention.bytes_max is not None and kept > retention.bytes_max
                is_over = too_old or too_much
            else:
                is_over = segment.next_base <= low_water
            if not is_over or segment.last_time > now - retention.settled_age:
                break
            kept -= segment.bytes
            count += 1
        return count
