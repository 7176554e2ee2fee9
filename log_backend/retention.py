"""How long a partition keeps records that it could let go of."""

from collections.abc import Sequence
from dataclasses import dataclass

from log_backend.segment import Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule for whole segments; times are microseconds.

    Attributes:
        settled_age: settled records stay this long.
        is_stream: nothing is settled by consumers: the limits below end a record's life.
        age_max: of a stream, records older than this go.
        bytes_max: of a stream, the oldest records go when the log is larger.
        is_forced: these limits win over cursors of groups that have not come so far.
    """

    settled_age: int = 0
    is_stream: bool = False
    age_max: int | None = None
    bytes_max: int | None = None
    is_forced: bool = False

    def ended(self, segments: Sequence[Segment], queue_low_water: int, now: int) -> int:
        """How many of the segments, oldest first, this rule does not keep any more.

        Args:
            queue_low_water: the queue's own consumers have settled everything below; not so in a
                stream, where they settle nothing.
        """
        if self.is_stream:
            return self._ended_of_stream(segments, now)
        count = 0
        for segment in segments:
            if segment.end_offset > queue_low_water or segment.last_time > now - self.settled_age:
                break
            count += 1
        return count

    def _ended_of_stream(self, segments: Sequence[Segment], now: int) -> int:
        count = 0
        kept = sum(segment.file_bytes for segment in segments)
        for segment in segments[:-1]:  # the newest stays: it is still written
            too_old = self.age_max is not None and now - segment.last_time > self.age_max
            too_much = self.bytes_max is not None and kept > self.bytes_max
            if not (too_old or too_much) or segment.last_time > now - self.settled_age:
                break
            kept -= segment.file_bytes
            count += 1
        return count
