"""Partitions by number, in 64 dicts: one large dict would block the event loop when it grows."""

from collections.abc import Iterator, MutableMapping, ValuesView
from itertools import chain

from routelog.log_backend.partitions.partition_log import PartitionLog

_PARTS = 64  # a single dict of 100,000 keys takes 4 ms to grow


class PartitionTable(MutableMapping[int, PartitionLog]):
    """Partitions by number. Iteration may include partitions that are added or removed meanwhile, or not."""

    def __init__(self) -> None:
        self.parts: list[dict[int, PartitionLog]] = [{} for _ in range(_PARTS)]

    def __getitem__(self, number: int) -> PartitionLog:
        return self.parts[number % _PARTS][number]

    def __setitem__(self, number: int, partition: PartitionLog) -> None:
        self.parts[number % _PARTS][number] = partition

    def __delitem__(self, number: int) -> None:
        del self.parts[number % _PARTS][number]

    def __iter__(self) -> Iterator[int]:
        for part in self.parts:
            yield from list(part)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def values(self) -> ValuesView[PartitionLog]:
        """The partitions, in no order."""
        return _Partitions(self)


class _Partitions(ValuesView[PartitionLog]):
    _mapping: PartitionTable

    def __iter__(self) -> Iterator[PartitionLog]:
        return chain.from_iterable(list(part.values()) for part in self._mapping.parts)
