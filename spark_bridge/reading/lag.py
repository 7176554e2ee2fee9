"""How far a stream is behind the logs it reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.reading.read_plan import stretches_between


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The unread part of one partition.

    Attributes:
        next_offset: the next offset that the stream reads.
        latest_offset: behind the last record in the log.
        offsets_behind: stored offsets between these two; some may have no record.
        bytes_behind: their approximate stored size.
        seconds_behind: age of the oldest unread record; 0 if there is none.
    """

    partition: LogPartition
    next_offset: int
    latest_offset: int
    offsets_behind: int
    bytes_behind: int
    seconds_behind: float


@dataclass(frozen=True, slots=True)
class StreamLag:
    """The lag of a stream after one of its micro-batches.

    Attributes:
        query: its name; its id if it has none.
        batch: number of the micro-batch.
    """

    query: str
    batch: int
    partitions: tuple[PartitionLag, ...]

    @property
    def offsets_behind(self) -> int:
        """Offsets of all partitions together."""
        return sum(each.offsets_behind for each in self.partitions)

    @property
    def bytes_behind(self) -> int:
        """Bytes of all partitions together."""
        return sum(each.bytes_behind for each in self.partitions)

    @property
    def seconds_behind(self) -> float:
        """The highest of all partitions."""
        return max((each.seconds_behind for each in self.partitions), default=0.0)

    def metrics(self) -> dict[str, float]:
        """Totals, and the three numbers that Spark's Kafka source reports, under its names."""
        behind = [each.offsets_behind for each in self.partitions] or [0]
        return {
            "minOffsetsBehindLatest": min(behind),
            "maxOffsetsBehindLatest": max(behind),
            "avgOffsetsBehindLatest": sum(behind) / len(behind),
            "offsetsBehind": self.offsets_behind,
            "bytesBehind": self.bytes_behind,
            "secondsBehind": self.seconds_behind,
        }


def partition_lags(
    store: ReadableLogs, position: Mapping[LogPartition, int], now: int
) -> tuple[PartitionLag, ...]:
    """Return the lag of each partition of a stream.

    Args:
        position: the next offset that the stream reads.
        now: microseconds since 1970.
    """
    return tuple(_lag(store, each, offset, now) for each, offset in sorted(position.items()))


def _lag(store: ReadableLogs, partition: LogPartition, offset: int, now: int) -> PartitionLag:
    extents = store.extents(partition)
    latest = max(extents[-1].end, offset)  # a log without segments has no end of its own
    unread = stretches_between(extents, offset, latest, lost_is_error=False)
    return PartitionLag(
        partition,
        offset,
        latest,
        sum(each.end - each.start for each in unread),
        sum(each.bytes_estimate for each in unread),
        _waited(store, store.located(unread[0]), now) if unread else 0.0,
    )


def _waited(store: ReadableLogs, unread: OffsetRange, now: int) -> float:
    """Seconds since the first record of a range was received."""
    for batch in store.read(unread, lost_is_error=False):
        if batch.end_offset > unread.start:
            return max(now - batch.records.time, 0) / 1_000_000
    return 0.0
