"""Where logs are read from, as a query sees it: partitions, how far they reach, their batches."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from log_backend.record_batch import RecordBatch


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

    `bytes_estimate` is what they take in the store, roughly.
    """

    partition: LogPartition
    start: int
    end: int
    bytes_estimate: int


class LogStore(Protocol):
    """Read access to the logs of one broker."""

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

    def read(self, wanted: OffsetRange, *, lost_is_error: bool = True) -> Iterator[RecordBatch]:
        """Batches with offsets in a range, in order; the first and the last may reach beyond it.

        Args:
            wanted: not past the end that `extents` gave.
            lost_is_error: False leaves out what the log has no more.

        Raises:
            RecordsLost: the log begins behind the range's start, or ends before its end.
            DamagedSegment: bytes inside the range are no valid batch.
        """
