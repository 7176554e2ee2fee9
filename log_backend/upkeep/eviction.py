"""Making room in memory: what segments hold leaves it, of the largest tails first."""

from collections.abc import Iterable, Iterator

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.upkeep.largest_first import largest_first

# Of batches that are freed at once: 200 of a small message each, which nobody has touched for long, take 1 ms.
PIECE_BYTES = 32_768


async def evict(partitions: Iterable[PartitionLog], excess: int) -> None:
    """Let go of so many bytes of batches, or of what there is, in turns of the loop; large tails first."""
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
