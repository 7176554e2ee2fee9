"""Where logs are read from, as a query sees it: partitions, how far they reach, their batches."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
    """The offsets from `start` up to, and without, `end`; not each of them has a record.

    `bytes_estimate` is what they take in the store, roughly. `position_hint` is a position in the
    stored stretch at or before the first of them: the store believes it only after a look.
    """

    partition: LogPartition
    start: int
    end: int
    bytes_estimate: int
    position_hint: int = 0


class Cut(NamedTuple):
    """The beginning of a range, and how many bytes the bodies in it have."""

    end: int
    body_bytes: int


Ticket = Mapping[str, str]  # what lets a task open the logs of a vhost


class LogStore(Protocol):
    """Read access to the logs of one broker."""

    def ticket(self, vhost: str) -> Ticket:
        """What tasks on other hosts need to open these logs."""

    def vhosts(self) -> list[str]:
        """Names of the vhosts that have logs, sorted."""

    def partitions(self, vhost: str, queues: Collection[str] | None) -> list[LogPartition]:
        """Partitions of the queues with these names (None: of all) in a vhost, sorted.

        What does not exist has none.

        Raises:
            BadOption: all are asked for, and a queue's name cannot be told.
        """

    def extents(self, partition: LogPartition) -> list[OffsetRange]:
        """What the log holds, as the stretches it is stored in: oldest first, none overlapping.

        The first one's start is the earliest offset, the last one's end the latest. At least
        one, which may be empty.
        """

    def located(self, wanted: OffsetRange) -> OffsetRange:
        """The same range with the best position hint that costs nothing."""

    def offset_at(self, partition: LogPartition, time: int) -> int | None:
        """The first offset received at a time or later; None when there is none yet.

        Args:
            time: microseconds since 1970. Where the broker's clock was set back, the answer may be
                off by the records of that time.
        """

    def cut(self, wanted: OffsetRange, bytes_max: int) -> Cut:
        """The longest beginning of a range whose bodies have at most so many bytes.

        One record at least, however large, if the range has any.

        Args:
            wanted: within one of the stretches that `extents` gave.

        Cost:
            Looks at the headers of what is taken.
        """

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range, in order; the first and the last may reach beyond it.

        Args:
            wanted: not past the end that `extents` gave.
            lost_is_error: False leaves out what the log has no more.

        Raises:
            RecordsLost: the log begins behind the range's start, or ends before its end.
            DamagedSegment: bytes inside the range are no valid batch.
        """
