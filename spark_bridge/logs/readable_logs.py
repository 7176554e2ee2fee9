"""The interface for reading logs: partitions, their offsets, their batches, and how a range is cut to
a size.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from routelog.log_backend.records.record_batch import RecordBatch


@dataclass(frozen=True, slots=True, order=True)
class LogPartition:
    """One log: a partition of a queue."""

    vhost: str
    queue: str
    partition: int

    def __str__(self) -> str:
        return f"partition {self.partition} of queue '{self.queue}' in vhost '{self.vhost}'"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of a partition; some of them may have no record.

    `bytes_estimate` is their approximate stored size. `position_hint` is a position in the segment at or before
    the first record; the store checks it before use. `number` is the partition's on its broker, if it is known:
    where it has another one, the queue was declared again, and the records are others.
    """

    partition: LogPartition
    start: int
    end: int
    bytes_estimate: int
    position_hint: int = 0
    number: int | None = field(default=None, compare=False)

    def is_of(self, number: int | None) -> bool:
        """Whether it is a range of the partition with a number, as far as both are known."""
        return None in (self.number, number) or self.number == number


class Cut(NamedTuple):
    """The end of a beginning of a range, and the bytes of the bodies in it."""

    end: int
    body_bytes: int


Ticket = Mapping[str, str]  # by vhost, the token with which a task opens its logs


class ReadableLogs(Protocol):
    """Read access to the logs of one broker."""

    def ticket(self, vhost: str) -> Ticket:
        """What tasks on other hosts need to open these logs."""

    def vhosts(self) -> list[str]:
        """Names of the vhosts that have logs, sorted."""

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of the queues with these names (None: all) in a vhost, sorted.

        Queues that do not exist have none.

        Raises:
            BadOption: all queues are asked for, and the full name of one is unknown.
        """

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """The offsets of each segment of a log: oldest first, none overlapping.

        The start of the first range is the earliest offset, the end of the last one the latest. There is at
        least one range, which may be empty.
        """

    def next_offset(self, partition: LogPartition) -> int:
        """Offset of the next record to come: the broker may have some before it that are not stored.

        What does not know of such records returns the latest offset.
        """

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that is known without reading."""

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        """Offset of the first record that was received at a time or later; None if there is none.

        Args:
            time: microseconds since 1970. If the broker's clock was set back, the result may be wrong by the
                records of that time.
        """

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most `bytes_max` bytes.

        It has at least one record, however large, if the range has any.

        Args:
            wanted: within one of the ranges of `extents`.

        Cost:
            Reads the headers of this beginning.
        """

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range, in order; the first and the last may reach beyond it.

        Args:
            wanted: not beyond the end that `extents` returned.
            lost_is_error: False: skip records that are not in the log any more.

        Raises:
            RecordsLost: the log begins behind the range's start, ends before its end, or has another number.
            DamagedSegment: a batch of the range fails a check.
        """


class BatchSize(NamedTuple):
    """A batch's offsets [start, end), the bytes of its bodies, and a function that loads the batch."""

    start: int
    end: int
    bodies_bytes: int
    load: Callable[[], RecordBatch]


def cut_batches(batches: Iterable[BatchSize], start: int, end: int, bytes_max: int) -> Cut:
    """Return the longest beginning of a range of offsets that fits; see `ReadableLogs.cut`.

    Args:
        batches: those of the range, in order; only as many are consumed as are needed.
    """
    size, taken = 0, False
    for batch in batches:
        if batch.start >= end:
            break
        inside = start <= batch.start and batch.end <= end
        if inside and size + batch.bodies_bytes <= bytes_max:
            size += batch.bodies_bytes
            taken = True
            if batch.end == end:
                break  # the broker may be writing behind it
            continue
        offsets = batch.load().records.offset_columns()
        first = max(start - batch.start, 0)
        stop = min(end, batch.end) - batch.start
        limit = offsets[first] + bytes_max - size
        fitting = bisect_right(offsets, limit, first, stop + 1) - 1
        fitting = max(fitting, first if taken else first + 1)
        size += offsets[fitting] - offsets[first]
        taken = True
        if fitting < stop or batch.end >= end:
            return Cut(batch.start + fitting, size)
    return Cut(end, size)
