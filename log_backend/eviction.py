"""Making room in memory: what segments hold leaves it, of the largest tails first."""

from collections.abc import Iterable, Iterator

from log_backend.clock import Clock
from log_backend.largest_first import largest_first
from log_backend.partition_log import PartitionLog
from log_backend.turns import in_turns

# Of batches that are freed at once: 200 of a small message each, which nobody has touched for long, take 1 ms.
PIECE_BYTES = 32_768


async def evict(partitions: Iterable[PartitionLog], excess: int, clock: Clock) -> None:
    """Let go of so many bytes of batches, or of what there is, in turns of the loop; large tails first."""
    by_size = await largest_first(partitions, PartitionLog.tail_bytes, clock)
    async for _ in in_turns(_evicted(by_size, excess), clock):
        pass


def _evicted(partitions: Iterable[PartitionLog], excess: int) -> Iterator[None]:
    for partition in partitions:
        while excess > 0 and (freed := partition.evict(min(excess, PIECE_BYTES))):
            excess -= freed
            yield
        if excess <= 0:
            return
        yield
