"""Retention: how long a partition keeps records that consumers do not need any more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from routelog.log_backend.doors.clock import Moment
from routelog.log_backend.segments.segment import Segment


class Compaction(NamedTuple):
    """Of each key, the last record stays; a record with an empty body deletes its key. Times are microseconds.

    Attributes:
        key_header: whose value is the key; empty: the routing key is it.
        deletion_age: a deletion stays so long after the pass that took the older records of its key.
        age_min: no younger record goes.
    """

    key_header: str = ""
    deletion_age: int = 0
    age_min: int = 0


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule for whole segments; times are microseconds.

    Attributes:
        settled_age: records stay this long after they were written, even if they are settled.
        is_stream: consumers settle nothing: only `age_max` and `bytes_max` remove records.
        age_max: of a stream: older records are removed.
        bytes_max: of a stream: while the log is larger, the oldest records are removed.
        is_forced: these limits also remove records that a consumer group has not settled.
        is_remote: sealed segments are copied to remote storage, and not removed before that.
        compaction: of a stream, beside the other limits; None: records with one key stay.
        local_age_max, local_bytes_max: copied segments are removed from the disk if they are older, or while
            there are more bytes; None: only the limits above count.
    """

    settled_age: int = 0
    is_stream: bool = False
    age_max: int | None = None
    bytes_max: int | None = None
    is_forced: bool = False
    is_remote: bool = False
    local_age_max: int | None = None
    local_bytes_max: int | None = None
    compaction: Compaction | None = None

    def ended(self, segments: Sequence[Segment], queue_low_water: int, now: Moment) -> int:
        """How many of the segments, oldest first, this rule keeps neither on disk nor in remote storage.

        Args:
            queue_low_water: the queue's own cursor has settled every offset below; ignored for a stream.
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
            segment_age = age(segment, now)
            if not self.exceeds(segment_age, kept) or segment_age < self.settled_age:
                break
            kept -= segment.file_bytes
            count += 1
        return count

    def exceeds(self, age: int, log_bytes: int) -> bool:
        """Whether the oldest segment of a stream is past its limits."""
        return _exceeds(self.age_max, age) or _exceeds(self.bytes_max, log_bytes)

    def copied(self, segments: Sequence[Segment], copied_end: int, now: Moment) -> int:
        """How many of the segments, oldest first, need not be on the disk: remote storage has them.

        Args:
            copied_end: remote storage has the sealed segments below this offset.
        """
        if not self.is_remote:
            return 0
        count = 0
        kept = sum(segment.file_bytes for segment in segments)
        for segment in segments:
            is_over = _exceeds(self.local_age_max, age(segment, now))
            is_over |= _exceeds(self.local_bytes_max, kept)
            if not (is_over and is_copied(segment, copied_end)):
                break
            kept -= segment.file_bytes
            count += 1
        return count

    def removable(
        self, segments: Sequence[Segment], low_water: int, copied_end: int, now: Moment
    ) -> int:
        """How many of the segments, oldest first, may be removed from the disk.

        Args:
            low_water: all cursors that need the disk have settled every offset below.
            copied_end: remote storage has the sealed segments below this offset.
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


class Extent(Protocol):
    """A segment, wherever it lies.

    Attributes:
        end_offset: no record of it lies at or behind this offset.
        file_bytes: its stored size.
    """

    @property
    def end_offset(self) -> int:
        """See the class."""

    @property
    def file_bytes(self) -> int:
        """See the class."""


class Hold(NamedTuple):
    """A limit of what a log keeps for one reader beyond its retention.

    Attributes:
        bytes_max: of segments that are past retention.
        lapse: called when there are more bytes; its argument is the offset below which they are.
    """

    bytes_max: int
    lapse: Callable[[int], None]

    def check(self, ended: Sequence[Extent]) -> None:
        """Call `lapse` if the limit is exceeded.

        Args:
            ended: segments that are past retention, oldest first.
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
    """Microseconds since a segment was last written.

    Wall time may jump, so it is used only for segments that an earlier run has written.
    """
    if segment.written_at is None:
        return now.now - segment.last_time
    return int((now.monotonic - segment.written_at) * 1_000_000)


def _exceeds(limit: int | None, value: int) -> bool:
    return limit is not None and value > limit
