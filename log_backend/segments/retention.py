"""How long a partition keeps records that it could let go of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from routelog.log_backend.doors.clock import Moment
from routelog.log_backend.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule for whole segments; times are microseconds.

    Attributes:
        settled_age: settled records stay this long.
        is_stream: nothing is settled by consumers: the limits below end a record's life.
        age_max: of a stream, records older than this go.
        bytes_max: of a stream, the oldest records go when the log is larger.
        is_forced: these limits win over cursors of groups that have not come so far.
        is_remote: sealed segments are copied to remote storage, and go nowhere before.
        local_age_max, local_bytes_max: what was copied goes from the disk when it is older, or when there is
            more; None: when the limits above say so.
    """

    settled_age: int = 0
    is_stream: bool = False
    age_max: int | None = None
    bytes_max: int | None = None
    is_forced: bool = False
    is_remote: bool = False
    local_age_max: int | None = None
    local_bytes_max: int | None = None

    def ended(self, segments: Sequence[Segment], queue_low_water: int, now: Moment) -> int:
        """How many of the segments, oldest first, this rule does not keep any more, here or elsewhere.

        Args:
            queue_low_water: the queue's own consumers have settled everything below; not so in a
                stream, where they settle nothing.
        """
        if self.is_stream:
            return self._ended_of_stream(segments, now)
        count = 0
        for segment in segments:
            if segment.end_offset > queue_low_water or age(segment, now) < self.settled_age:
                break
            count += 1
        return count

    def _ended_of_stream(self, segments: Sequence[Segment], now: Moment) -> int:
        count = 0
        kept = sum(segment.file_bytes for segment in segments)
        for segment in segments[:-1]:  # the newest stays: it is still written
            too_old = self.age_max is not None and age(segment, now) > self.age_max
            too_much = self.bytes_max is not None and kept > self.bytes_max
            if not (too_old or too_much) or age(segment, now) < self.settled_age:
                break
            kept -= segment.file_bytes
            count += 1
        return count

    def copied(self, segments: Sequence[Segment], copied_end: int, now: Moment) -> int:
        """How many of the segments, oldest first, need not be on the disk: remote storage has them.

        Args:
            copied_end: it has what was sealed below.
        """
        if not self.is_remote:
            return 0
        count = 0
        kept = sum(segment.file_bytes for segment in segments)
        for segment in segments:
            too_old = self.local_age_max is not None and age(segment, now) > self.local_age_max
            too_much = self.local_bytes_max is not None and kept > self.local_bytes_max
            if not ((too_old or too_much) and is_copied(segment, copied_end)):
                break
            kept -= segment.file_bytes
            count += 1
        return count

    def removable(
        self, segments: Sequence[Segment], low_water: int, copied_end: int, now: Moment
    ) -> int:
        """How many of the segments, oldest first, may go from the disk.

        Args:
            low_water: every cursor has settled everything below.
            copied_end: remote storage has what was sealed below.
        """
        copied = self.copied(segments, copied_end, now)
        count = 0
        for segment in segments:
            is_young = count >= copied and age(segment, now) < self.settled_age
            if segment.end_offset > low_water or is_young:
                break
            if self.is_remote and not is_copied(segment, copied_end):
                break
            count += 1
        return count


class Hold(NamedTuple):
    """What a log keeps for somebody beyond its retention.

    Attributes:
        bytes_max: so much of what retention would let go.
        lapse: called with the offset below which it is more.
    """

    bytes_max: int
    lapse: Callable[[int], None]

    def check(self, ended: Sequence[Segment]) -> None:
        """See that it is not more.

        Args:
            ended: segments that retention would let go, oldest first.
        """
        held = 0
        for segment in reversed(ended):
            held += segment.file_bytes
            if held > self.bytes_max:
                self.lapse(segment.end_offset)
                return


def is_copied(segment: Segment, copied_end: int) -> bool:
    """Whether a segment is in remote storage."""
    return segment.next_base is not None and segment.next_base <= copied_end


def age(segment: Segment, now: Moment) -> int:
    """Microseconds since a segment was written last.

    The clock on the wall may be set, so it counts only for what an earlier run has written.
    """
    if segment.written_at is None:
        return now.now - segment.last_time
    return int((now.monotonic - segment.written_at) * 1_000_000)
