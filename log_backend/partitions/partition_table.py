"""Partitions by number, in a mapping that grows by parts: a dict moves all of its keys in one step."""

from collections.abc import Iterator, MutableMapping, ValuesView
from itertools import chain

from routelog.log_backend.partitions.partition_log import PartitionLog

# Numbers follow each other, so that each has as many; 100,000 together take 4 ms to move.
_PARTS = 64


class PartitionTable(MutableMapping[int, PartitionLog]):
    """Partitions by number. Whoever walks over it may meet those that come and go meanwhile, or not."""

    def __init__(self) -> None:
        self._parts: list[dict[int, PartitionLog]] = [{} for _ in range(_PARTS)]

    def __getitem__(self, number: int) -> PartitionLog:
        return self._parts[number % _PARTS][number]

    def __setitem__(self, number: int, partition: PartitionLog) -> None:
        self._parts[number % _PARTS][number] = partition

    def __delitem__(self, number: int) -> None:
        del self._parts[number % _PARTS][number]

    def __iter__(self) -> Iterator[int]:
        for part in self._parts:
            yield from list(part)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def values(self) -> ValuesView[PartitionLog]:
        """See `Mapping`."""
        return _Partitions(self)

    def by_parts(self) -> Iterator[list[PartitionLog]]:
        """The partitions, a part at a time."""
        return (list(part.values()) for part in self._parts)


class _Partitions(ValuesView[PartitionLog]):
    _mapping: PartitionTable

    def __iter__(self) -> Iterator[PartitionLog]:
        return chain.from_iterable(self._mapping.by_parts())
