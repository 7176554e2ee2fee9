"""What one flush writes: the batches of some partitions, each at its place in a segment."""

from collections.abc import AsyncIterator, Iterable, Iterator

from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.tail import LetGo
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_writer import SegmentWrite, SegmentWriter
from routelog.log_backend.upkeep.disk_space import DiskSpace


class FlushPlan:
    """Planned and taken note of in turns of the event loop, written in the flusher's thread.

    Attributes:
        partitions: those planned, each with its writes; there may be none.
        unwritten_bytes: what is planned and not on the disk.
    """

    def __init__(self) -> None:
        self.partitions: list[tuple[PartitionLog, list[SegmentWrite]]] = []
        self.unwritten_bytes = 0
        self._unsynced: list[Segment] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not any(writes for _, writes in self.partitions)

    async def add(self, partition: PartitionLog) -> None:
        """Plan what a partition has to write; it may have very many batches."""
        writes: list[SegmentWrite] = []
        self.partitions.append((partition, writes))
        async for some in in_turns(partition.plan_flush(), Lane.UPKEEP):
            writes += some
            self.unwritten_bytes += sum(write.bytes for write in some)

    async def sync(self, partitions: Iterable[PartitionLog]) -> None:
        """Have the segments of partitions synced, as far as somebody needs them."""
        async for partition in in_turns(partitions, Lane.UPKEEP):
            self._unsynced += partition.segments_to_sync()

    def write(self, writer: SegmentWriter, space: DiskSpace) -> None:
        """Write the partitions that there is room for; sync when that is all of them. In the flusher's thread.

        Raises:
            DiskFull, OSError, MetadataUnavailable: see `SegmentWriter.write`.
        """
        writes, left_out = self._fitting(space.segment_room())
        writer.write(self._counted(writes), () if left_out else self._unsynced)
        if left_out:
            raise DiskFull(f"{left_out} bytes of batches have to wait")
        space.check_metadata()  # others may have filled it meanwhile, and snapshots follow

    def _fitting(self, room: int) -> tuple[list[SegmentWrite], int]:
        # The writes that fit, and the bytes of all others. Partitions are written whole or not at all.
        fitting: list[SegmentWrite] = []
        left_out = 0
        for partition, writes in self.partitions:
            if partition.closed:
                continue  # since it was planned; it may have been removed before this
            size = sum(write.bytes for write in writes)
            if size <= room:
                fitting += writes
                room -= size
            else:
                left_out += size
        return fitting, left_out

    async def flushed(self, let_go: LetGo) -> AsyncIterator[PartitionLog]:
        """Have partitions take note of it, one after the other.

        Args:
            let_go: takes what was planned: of that very much may have left memory meanwhile.
        """
        async for partition, writes in in_turns(self.partitions, Lane.UPKEEP):
            partition.flushed()
            for write in writes:
                let_go(write.batches)
            yield partition

    async def synced(self) -> None:
        """Take note that `write` has returned."""
        async for segment in in_turns(self._unsynced, Lane.UPKEEP):
            segment.unsynced = False

    def refused(self) -> None:
        """There was no room."""
        for partition, writes in self.partitions:
            partition.flush_refused(writes)

    def _counted(self, writes: Iterable[SegmentWrite]) -> Iterator[SegmentWrite]:
        # Each is on the disk when the next one is asked for.
        for write in writes:
            yield write
            self.unwritten_bytes -= write.bytes
