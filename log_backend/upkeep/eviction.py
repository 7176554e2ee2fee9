"""Eviction: batches that are in segments leave memory, from the largest tails first."""

from collections.abc import Iterable, Iterator

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep.largest_first import largest_first

PIECE_BYTES = 32_768  # freed at once: 200 small batches, not in the processor's cache, take 1 ms


async def evict(partitions: Iterable[PartitionLog], excess: int) -> None:
    """Evict `excess` bytes of batches, or as many as possible, in turns of the loop; large tails first."""
    by_size = await largest_first(partitions, PartitionLog.tail_bytes)
    async for _ in in_turns(_evicted(by_size, excess), Lane.UPKEEP):
        pass


def _evicted(partitions: Iterable[PartitionLog], excess: int) -> Iterator[None]:
    for partition in partitions:
        while excess > 0 and (freed := partition.evict(min(excess, PIECE_BYTES))):
            excess -= freed
            yield
        if excess <= 0:
            return
        yield
