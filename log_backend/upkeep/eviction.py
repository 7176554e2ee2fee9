"""Eviction: batches that are in segments leave memory, from the largest tails first, and are freed in turns."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from routelog.log_backend.loop.scheduler import Lane, Scheduler, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.record_batch import RecordBatch

PIECE_BYTES = 32_768  # freed at once: 200 small batches, not in the processor's cache, take 1 ms


async def largest_first(
    partitions: Iterable[PartitionLog], size: Callable[[PartitionLog], int]
) -> Iterator[PartitionLog]:
    """Return the partitions whose size is not 0, the largest first, in turns of the event loop.

    There may be 100,000, which would take too long to sort: sizes that differ by less than a factor of two
    may come in any order.
    """
    by_size: defaultdict[int, list[PartitionLog]] = defaultdict(list)
    async for partition in in_turns(partitions, Lane.UPKEEP):
        by_size[size(partition).bit_length()].append(partition)
    by_size.pop(0, None)
    return chain.from_iterable(by_size[bits] for bits in sorted(by_size, reverse=True))


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


FREED_AT_ONCE = 32  # each takes 0.2 to 14 us, depending on its size and on the processor's cache


class GradualFree:
    """Holds the last references to batches, and drops a few in each pass of the loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._gone: list[list[RecordBatch | None]] = []

    def add(self, gone: list[RecordBatch | None]) -> None:
        """Drop the batches of a list, in later passes of the loop."""
        if not gone:
            return
        if not self._gone:
            self._scheduler.call(Lane.UPKEEP, self._free_some)
        self._gone.append(gone)

    def _free_some(self) -> bool:
        left = FREED_AT_ONCE
        while self._gone and left > 0:
            last = self._gone[-1]
            size = len(last)
            del last[-left:]
            left -= size
            if not last:
                self._gone.pop()
        return bool(self._gone)
