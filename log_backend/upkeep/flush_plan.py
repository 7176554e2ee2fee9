"""The plan of one flush: which partitions it is for, and which of their batches are written where."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager

from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.metadata.metadata import MetadataUnavailable
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.tail import LetGo
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_writer import SegmentWrite, SegmentWriter
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.eviction import largest_first


class FlushPlan:
    """Made on the event loop, in turns, and written in the flusher's thread.

    Attributes:
        partitions: each with its writes, which may be none.
        unwritten_bytes: planned bytes that are not on the disk yet.
    """

    def __init__(self) -> None:
        self.partitions: list[tuple[PartitionLog, list[SegmentWrite]]] = []
        self.unwritten_bytes = 0
        self._unsynced: list[Segment] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not any(writes for _, writes in self.partitions)

    @property
    def is_durable(self) -> bool:
        """Whether something is to be written that survives a restart."""
        return any(writes and partition.durable for partition, writes in self.partitions)

    async def add(self, partition: PartitionLog) -> None:
        """Plan the writes of a partition, in turns: it may have very many batches."""
        writes: list[SegmentWrite] = []
        self.partitions.append((partition, writes))
        async for some in in_turns(partition.plan_flush(), Lane.UPKEEP):
            writes += some
            self.unwritten_bytes += sum(write.bytes for write in some)

    async def sync(self, partitions: Iterable[PartitionLog]) -> None:
        """Add the segments of partitions that must be synced."""
        async for partition in in_turns(partitions, Lane.UPKEEP):
            self._unsynced += partition.segments_to_sync()

    def write(self, writer: SegmentWriter, space: DiskSpace) -> None:
        """Write the partitions that fit on the disk, and sync if all do; in the flusher's thread.

        Raises:
            DiskFull, OSError, MetadataUnavailable: see `SegmentWriter.write`.
        """
        writes, left_out = self._fitting(space.segment_room())
        writer.write(self._counted(writes), () if left_out else self._unsynced)
        if left_out:
            raise DiskFull(f"{left_out} bytes of batches have to wait")
        space.check_metadata()  # snapshots follow, and other programs may have filled the disk meanwhile

    def _fitting(self, room: int) -> tuple[list[SegmentWrite], int]:
        # The writes that fit, and the bytes of those left out. A partition is written whole or not at all.
        fitting: list[SegmentWrite] = []
        left_out = 0
        for partition, writes in self.partitions:
            if partition.closed:
                continue  # its files may be removed already
            size = sum(write.bytes for write in writes)
            if size <= room:
                fitting += writes
                room -= size
            else:
                left_out += size
        return fitting, left_out

    async def flushed(self, let_go: LetGo) -> AsyncIterator[PartitionLog]:
        """Tell the partitions that their writes are done, and yield them, but those that were closed before.

        Args:
            let_go: frees the planned batches later: very many may have left the tails meanwhile.
        """
        async for partition, writes in in_turns(self.partitions, Lane.UPKEEP):
            if all(write.done for write in writes):
                partition.flushed()
                yield partition
            for write in writes:
                let_go(write.batches)

    async def synced(self) -> None:
        """Note that `write` has synced the segments."""
        async for segment in in_turns(self._unsynced, Lane.UPKEEP):
            segment.unsynced = False

    def refused(self) -> None:
        """Take back the writes that were not done: the disk was full."""
        for partition, writes in self.partitions:
            partition.flush_refused(writes)

    def _counted(self, writes: Iterable[SegmentWrite]) -> Iterator[SegmentWrite]:
        # A write is done when the next one is asked for.
        for write in writes:
            yield write
            self.unwritten_bytes -= write.bytes


log = logging.getLogger(__name__)

PARTITIONS_MAX = 1_024  # each may need a new directory and a new file: 0.3 to 0.5 ms
BYTES_MAX = 64 * 1024 * 1024  # of the partitions chosen for their size; at least one is chosen


async def due(
    unflushed: Collection[PartitionLog], *, durable: bool, transient: bool
) -> list[PartitionLog]:
    """Select the partitions that must be written.

    Args:
        durable: those that are: not as long as what they leave out is not committed.
        transient: those that are not, because memory is short.
    """
    every = in_turns(list(unflushed), Lane.UPKEEP)
    return [each async for each in every if (durable if each.durable else transient)]


async def flush_round(due: Collection[PartitionLog]) -> list[PartitionLog]:
    """Choose partitions: half of them the largest, to free their memory, and half of them any."""
    if len(due) <= PARTITIONS_MAX:
        return list(due)
    chosen: dict[PartitionLog, None] = {}
    left = BYTES_MAX
    for partition in await largest_first(due, lambda log: log.unflushed_bytes):
        chosen[partition] = None
        left -= partition.unflushed_bytes
        if left <= 0 or len(chosen) == PARTITIONS_MAX // 2:
            break
    for partition in due:
        if len(chosen) == PARTITIONS_MAX:
            break
        chosen[partition] = None
    return list(chosen)


@asynccontextmanager
async def flushing(lock: asyncio.Lock, failed: Callable[[Exception], None]) -> AsyncIterator[None]:
    """Run one flush at a time.

    Args:
        failed: called with an error; it stops the node, because planned batches may not be on the disk, and
            full journal files must not wait for ever.
    """
    async with lock:
        try:
            yield
        except (OSError, MetadataUnavailable) as error:
            failed(error)
        except Exception as error:
            log.error("an error of the broker, while it wrote segments", exc_info=error)
            failed(error)
