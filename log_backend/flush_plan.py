"""What one flush writes: the batches of some partitions, each at its place in a segment."""

from collections.abc import Callable, Iterable, Iterator

from log_backend.clock import Clock
from log_backend.partition_log import PartitionLog
from log_backend.segment import Segment
from log_backend.segment_writer import SegmentWrite, SegmentWriter
from log_backend.turns import in_turns


class FlushPlan:
    """Planned and taken note of in turns of the event loop, written in the flusher's thread.

    Attributes:
        partitions: those planned, each with its writes; there may be none.
    """

    def __init__(self) -> None:
        self.partitions: list[tuple[PartitionLog, list[SegmentWrite]]] = []
        self._unsynced: list[Segment] = []

    @property
    def unwritten_bytes(self) -> int:
        """What is planned and not on the disk."""
        return sum(write.bytes for write in self._writes() if not write.done)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not any(writes for _, writes in self.partitions)

    def add(self, partition: PartitionLog) -> None:
        """Plan what a partition has to write."""
        self.partitions.append((partition, partition.plan_flush()))

    async def sync(self, partitions: Iterable[PartitionLog], clock: Clock) -> None:
        """Have all segments of partitions synced that are not."""
        async for partition in in_turns(partitions, clock):
            self._unsynced += [segment for segment in partition.segments if segment.unsynced]

    def write(self, writer: SegmentWriter, check_space: Callable[[int], None]) -> None:
        """Write and sync, in the flusher's thread.

        Raises:
            DiskFull, OSError, MetadataUnavailable: see `SegmentWriter.write`.
        """
        # What was closed since it was planned may have been removed before this.
        writes = list(self._writes(closed=False))
        check_space(sum(write.bytes for write in writes))
        writer.write(writes, self._unsynced)

    async def synced(self, clock: Clock) -> None:
        """Take note that `write` has returned."""
        async for segment in in_turns(self._unsynced, clock):
            segment.unsynced = False

    def refused(self) -> None:
        """There was no room."""
        for partition, writes in self.partitions:
            partition.flush_refused(writes)

    def _writes(self, *, closed: bool = True) -> Iterator[SegmentWrite]:
        for partition, writes in self.partitions:
            if closed or not partition.closed:
                yield from writes
