"""One consumer's way through the logs of several partitions, each in its turn."""

from collections.abc import Sequence

from vhosts.delivery import Delivery
from vhosts.stream_reader import StreamReader


class PartitionedReader:
    """The readers of a queue's partitions, for one consumer.

    Attributes:
        consumer: who takes the deliveries of all.
    """

    __slots__ = ("_next", "_readers", "consumer")

    def __init__(self, readers: Sequence[StreamReader]) -> None:
        self._readers = readers
        self._next = 0
        self.consumer = readers[0].consumer

    @property
    def stopped(self) -> bool:
        """All partitions are at a damage, or one cannot be read just now; see `StreamReader`."""
        readers = self._readers
        return all(each.stopped for each in readers) or any(each.unreadable for each in readers)

    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """Hand out the next records of the next partition that has some; see `StreamReader.take`."""
        for _ in self._readers:
            at = self._next
            self._next = (at + 1) % len(self._readers)
            delivery = self._readers[at].take(count_max, bytes_max)
            if delivery is not None:
                delivery.partition_index = at
                return delivery
        return None
