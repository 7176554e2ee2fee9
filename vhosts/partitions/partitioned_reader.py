"""A consumer that reads the logs of several partitions by offset, round robin."""

from collections import deque
from collections.abc import Sequence
from itertools import chain

from routelog.vhosts.messages.delivery import Delivery
from routelog.vhosts.partitions.stream_reader import StreamReader


class PartitionedReader:
    """The readers of a queue's partitions, for one consumer.

    Attributes:
        consumer: takes the deliveries of all partitions.
        keeps_up: see `StreamReader`.
    """

    __slots__ = ("_next_reader", "_order", "_readers", "_takes_left", "consumer", "keeps_up")

    def __init__(self, readers: Sequence[StreamReader]) -> None:
        self._readers = readers
        self._next_reader = 0
        # Partitions that had records at the last look, round robin
        self._order: deque[int] = deque()
        # Before the next look: there are as many, so that it costs little for each.
        self._takes_left = 0
        self.consumer = readers[0].consumer
        self.keeps_up = False

    @property
    def places(self) -> list[int]:
        """Offset of the next record of each partition."""
        return [each.next_offset for each in self._readers]

    @property
    def ready(self) -> int:
        """Records of all partitions that it has not handed out."""
        return sum(each.ready for each in self._readers)

    @property
    def stopped(self) -> bool:
        """All partitions are at a damage, or one cannot be read just now; see `StreamReader`."""
        readers = self._readers
        return all(each.stopped for each in readers) or any(each.unreadable for each in readers)

    def take(self, count_max: int, bytes_max: int) -> Delivery | None:
        """Hand out the next records of the next partition that has some; see `StreamReader.take`."""
        if self._takes_left > 0:
            delivery = self._take_next(count_max, bytes_max)
            if delivery is not None:
                return delivery
        self._look()
        return self._take_next(count_max, bytes_max)

    def wait(self) -> None:
        """See `StreamReader`."""
        for each in self._readers:
            each.wait()

    def _look(self) -> None:
        readers, first = self._readers, self._next_reader
        places = chain(range(first, len(readers)), range(first))
        self._order = deque(at for at in places if readers[at].ready)
        self._takes_left = len(readers)

    def _take_next(self, count_max: int, bytes_max: int) -> Delivery | None:
        order = self._order
        while order:
            at = order[0]
            delivery = self._readers[at].take(count_max, bytes_max)
            if delivery is None:
                order.popleft()
                continue
            order.rotate(-1)
            self._next_reader = (at + 1) % len(self._readers)
            self._takes_left -= 1
            delivery.partition_index = at
            return delivery
        return None
