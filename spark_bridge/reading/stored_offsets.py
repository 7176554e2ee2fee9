"""The offsets of a stream, and their form in Spark's checkpoint."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

Offsets = dict[LogPartition, int]  # of each partition, the next one to read
Numbers = Mapping[LogPartition, int]  # of each partition on its broker, as far as they are known

# queue -> partition, as text -> the next offset to read; and queue -> NUMBERS -> partition -> its number.
# Checkpoints of earlier versions have no numbers.
StoredOffsets = dict[str, dict[str, Any]]
NUMBERS = "numbers"
NO_NUMBERS: Numbers = MappingProxyType({})


class NumberedOffsets(Offsets):
    """Offsets that know which partitions they are of: a queue that is declared again has others."""

    def __init__(
        self,
        offsets: Mapping[LogPartition, int] | Iterable[tuple[LogPartition, int]] = (),
        numbers: Numbers = NO_NUMBERS,
    ) -> None:
        super().__init__(offsets)
        self.numbers = dict(numbers)

    def know(self, held: OffsetRange) -> None:
        """Note the number of a log's partition, if it is known."""
        if held.number is not None:
            self.numbers[held.partition] = held.number


def numbers_of(offsets: Offsets) -> Numbers:
    """The numbers of partitions, as far as they are known."""
    return offsets.numbers if isinstance(offsets, NumberedOffsets) else NO_NUMBERS


def have_one_number(partition: LogPartition, one: Offsets, other: Offsets) -> bool:
    """Whether both are of the same partition, and not of one that was declared again, as far as is known."""
    numbers = numbers_of(one).get(partition), numbers_of(other).get(partition)
    return None in numbers or numbers[0] == numbers[1]


def parse_offsets(vhost: str, stored: Mapping[str, Mapping[str, Any]]) -> NumberedOffsets:
    """Read what `stored_offsets` has made.

    Raises:
        ValueError, TypeError, AttributeError: it is something else.
    """
    offsets = NumberedOffsets()
    for queue, partitions in stored.items():
        known = partitions.get(NUMBERS, {})
        for index, offset in partitions.items():
            if index != NUMBERS:
                partition = LogPartition(vhost, queue, int(index))
                offsets[partition] = int(offset)
                if index in known:
                    offsets.numbers[partition] = int(known[index])
    return offsets


def stored_offsets(offsets: Offsets) -> StoredOffsets:
    """Sorted by queue and partition, because Spark compares the text."""
    stored: StoredOffsets = {}
    for partition, offset in sorted(offsets.items()):
        stored.setdefault(partition.queue, {})[str(partition.partition)] = offset
    for partition, number in sorted(numbers_of(offsets).items()):
        stored[partition.queue].setdefault(NUMBERS, {})[str(partition.partition)] = number
    return stored
