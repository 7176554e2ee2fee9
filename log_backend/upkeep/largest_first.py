"""Partitions by size, without sorting them: there may be 100,000."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog


async def largest_first(
    partitions: Iterable[PartitionLog], size: Callable[[PartitionLog], int]
) -> Iterator[PartitionLog]:
    """Those that have any size, looked at in turns of the event loop.

    Of two, the larger one comes first, unless it is less than twice as large.
    """
    by_size: defaultdict[int, list[PartitionLog]] = defaultdict(list)
    async for partition in in_turns(partitions, Lane.UPKEEP):
        by_size[size(partition).bit_length()].append(partition)
    by_size.pop(0, None)
    return chain.from_iterable(by_size[bits] for bits in sorted(by_size, reverse=True))
