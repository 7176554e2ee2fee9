"""Orders partitions roughly by size; there may be 100,000, which would take too long to sort."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog


async def largest_first(
    partitions: Iterable[PartitionLog], size: Callable[[PartitionLog], int]
) -> Iterator[PartitionLog]:
    """Return the partitions whose size is not 0, the largest first, in turns of the event loop.

    Sizes that differ by less than a factor of two may come in any order.
    """
    by_size: defaultdict[int, list[PartitionLog]] = defaultdict(list)
    async for partition in in_turns(partitions, Lane.UPKEEP):
        by_size[size(partition).bit_length()].append(partition)
    by_size.pop(0, None)
    return chain.from_iterable(by_size[bits] for bits in sorted(by_size, reverse=True))
