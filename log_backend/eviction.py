"""Making room in memory: what segments hold leaves it, of the largest tails first."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from log_backend.clock import Clock
from log_backend.partition_log import PartitionLog
from log_backend.turns import in_turns

# Of batches that are freed at once: 200 of a small message each, which nobody has touched for long, take 1 ms.
PIECE_BYTES = 32_768


async def evict(partitions: Iterable[PartitionLog], excess: int, clock: Clock) -> None:
    """Let go of so many bytes of batches, or of what there is, in turns of the event loop.

    Of two tails, the larger one goes first, unless it is less than twice as large: there may be 100,000, and
    nothing is sorted.
    """
    by_size: defaultdict[int, list[PartitionLog]] = defaultdict(list)
    async for partition in in_turns(partitions, clock):
        by_size[partition.tail_bytes().bit_length()].append(partition)
    by_size.pop(0, None)  # nothing is in memory
    largest_first = [each for size in sorted(by_size, reverse=True) for each in by_size[size]]
    async for _ in in_turns(_evicted(largest_first, excess), clock):
        pass


def _evicted(partitions: Iterable[PartitionLog], excess: int) -> Iterator[None]:
    for partition in partitions:
        while excess > 0 and (freed := partition.evict(min(excess, PIECE_BYTES))):
            excess -= freed
            yield
        if excess <= 0:
            return
        yield
