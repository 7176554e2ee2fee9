"""A queue: records in, deliveries out, round robin to its consumers."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from log_backend import Durability, Records
from vhosts.consumer import Consumer
from vhosts.delivery import Delivery
from vhosts.errors import ConsumptionRefused, NotReadable, QueueLocked
from vhosts.partitioned_reader import PartitionedReader
from vhosts.partitioner import partitioner
from vhosts.queue_arguments import counts_deliveries, is_stream
from vhosts.queue_partition import QueuePartition
from vhosts.stream_reader import StreamReader, stream_position

DELIVERY_BYTES_MAX = 262_144  # of one delivery: a batch of large messages goes out in pieces
TURN_BYTES_MAX = 1_048_576  # of one dispatch: then others have their turn
DELIVERY_BYTES_MIN = 4_096  # what one counts for however small: handing it out takes as long
DELIVERY_COUNT_MAX = 4_096


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """What a declaration fixes for the queue's life. `arguments` must not be changed."""

    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


class Queue:
    """One queue of a vhost.

    Attributes:
        properties: as declared.
        owner: the connection that an exclusive queue belongs to.
        partitions: at least one; order holds within each.
        declaring: done when its declaration is durable; None from then on.

    Args:
        call_soon: runs a function after this turn of the event loop.
    """

    __slots__ = (
        "_call_soon",
        "_consumers",
        "_loading",
        "_next_consumer",
        "_next_partition",
        "_partitioner",
        "_readers",
        "_scheduled",
        "declaring",
        "deleted",
        "had_consumer",
        "owner",
        "partitions",
        "properties",
        "vhost",
    )

    def __init__(
        self,
        vhost: str,
        properties: QueueProperties,
        owner: object | None,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.vhost = vhost
        self.properties = properties
        self.owner = owner
        self.partitions: list[QueuePartition] = []
        self.had_consumer = False
        self.deleted = False
        self.declaring: Awaitable[int] | None = None
        self._call_soon = call_soon
        self._consumers: list[Consumer] = []
        self._readers: list[StreamReader | PartitionedReader] = []
        self._partitioner = partitioner(properties.arguments)
        self._next_consumer = 0
        self._next_partition = 0
        self._loading: list[Callable[[], None]] = []
        self._scheduled = False

    @property
    def name(self) -> str:
        """Name within the vhost."""
        return self.properties.name

    @property
    def is_stream(self) -> bool:
        """Consumers read its log and take nothing away."""
        return is_stream(self.properties.arguments)

    @property
    def durability(self) -> Durability:
        """What a confirm of a persistent message promises."""
        return self.partitions[0].log.durability

    @property
    def counts_deliveries(self) -> bool:
        """What it delivers again says how often: `x-delivery-count`."""
        return counts_deliveries(self.properties.arguments)

    @property
    def ready(self) -> int:
        """Messages that wait for a consumer; of a stream, those that it keeps."""
        if self.is_stream:
            return sum(p.log.next_offset - p.log.first_offset for p in self.partitions)
        return sum(partition.ready for partition in self.partitions)

    @property
    def unacked(self) -> int:
        """Messages handed out and not settled."""
        return sum(partition.in_flight for partition in self.partitions)

    @property
    def consumer_count(self) -> int:
        """Consumers, whether they have credit or not."""
        return len(self._consumers) + len(self._readers)

    def check_access(self, connection: object) -> None:
        """Refuse an exclusive queue to all but its owner.

        Raises:
            QueueLocked: it belongs to another connection.
        """
        if self.properties.exclusive and self.owner is not connection:
            raise QueueLocked(self.name, self.vhost)

    def publish(self, records: Records, *, waited: bool) -> int:
        """Append records; they reach consumers after this turn.

        Returns:
            The journal position that they wait for, or 0: see `PartitionLog.append`.
        """
        if self._partitioner is None:
            position = self.partitions[0].log.append(records, waited=waited)
        else:
            position = self._partitioner.publish(self.partitions, records, waited=waited)
        if self._consumers or self._readers:
            self.wake()
        return position

    # -- consuming

    def add_consumer(self, consumer: Consumer) -> None:
        """Begin to deliver to a consumer.

        Raises:
            ConsumptionRefused: it is exclusive, or another one is.
        """
        if self._consumers and (consumer.exclusive or self._consumers[0].exclusive):
            raise ConsumptionRefused(self.name, self.vhost)
        insort(self._consumers, consumer, key=_rank)
        self.had_consumer = True
        self.wake()

    def add_reader(self, consumer: Consumer, wanted: object, now: int) -> None:
        """Begin to deliver from a place in the log, disturbing nobody.

        Args:
            wanted: the place; see `stream_position`.
            now: microseconds since 1970.

        Raises:
            NotReadable: the queue keeps no log.
            InvalidStreamOffset: there is no such place.
        """
        readers = []
        for partition in self.partitions:
            if partition.log.retention is None:
                raise NotReadable(self.name, self.vhost)
            position = stream_position(partition.log, wanted, now)
            readers.append(StreamReader(partition.log, consumer, position, self.wake))
        self._readers.append(readers[0] if len(readers) == 1 else PartitionedReader(readers))
        self.had_consumer = True
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Deliver no more to a consumer."""
        self.remove_consumers((consumer,))

    def remove_consumers(self, gone: Collection[Consumer]) -> None:
        """Deliver no more to some consumers; those it does not have are no error."""
        self._consumers = [consumer for consumer in self._consumers if consumer not in gone]
        self._readers = [reader for reader in self._readers if reader.consumer not in gone]

    def wake(self) -> None:
        """Something is ready, or a consumer has credit again: dispatch after this turn."""
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._dispatch)

    def get(self) -> Delivery | None:
        """Hand out one message; None when nothing is ready in memory."""
        return self._take(1)

    def when_loaded(self, done: Callable[[], None]) -> bool:
        """Call `done` when the next message is in memory, or never will be: ask again then.

        Returns:
            False when nothing has to be loaded; `done` is not called then.
        """
        for partition in self.partitions:
            offset = partition.returned[0][0] if partition.returned else partition.next_offset
            if partition.ready and partition.log.needs_load(offset):
                if not self._loading:
                    partition.log.load(offset, self._loaded)
                self._loading.append(done)
                return True
        return False

    def _loaded(self) -> None:
        waiting, self._loading = self._loading, []
        for done in waiting:
            done()

    def _dispatch(self) -> None:
        self._scheduled = False
        for reader in list(self._readers):
            self._feed(reader)
        if self._consumers:
            self._serve()

    def _feed(self, reader: StreamReader | PartitionedReader) -> None:
        sent = 0
        while not self.deleted and (credit := reader.consumer.credit()) > 0:
            if sent > TURN_BYTES_MAX:
                self.wake()
                return
            delivery = reader.take(min(credit, DELIVERY_COUNT_MAX), DELIVERY_BYTES_MAX)
            if delivery is None:
                return
            sent += _cost(delivery)
            reader.consumer.deliver(delivery)

    def _serve(self) -> None:
        sent = share = shares_left = 0
        while not self.deleted and (ready := self.ready) > 0:
            if sent > TURN_BYTES_MAX:
                self.wake()
                return
            consumer, credit = self._next_with_credit()
            if consumer is None:
                return
            if shares_left == 0:
                # Even shares for one round, so that one fast consumer does not take it all.
                shares_left = self._with_credit(consumer.priority) if ready > 1 else 1
                share = max(1, ready // shares_left)
            shares_left -= 1
            delivery = self._take(min(credit, share, DELIVERY_COUNT_MAX))
            if delivery is None:
                return
            sent += _cost(delivery)
            consumer.deliver(delivery)
            if consumer.no_ack:
                delivery.partition.settle(delivery.offset, delivery.offset + delivery.count)

    def _next_with_credit(self) -> tuple[Consumer | None, int]:
        # Those of the highest priority that have credit take turns.
        consumers = self._consumers
        first, size = 0, len(consumers)
        while first < size:
            end = self._end_of_priority(first)
            start = self._next_consumer if first <= self._next_consumer < end else first
            for at in chain(range(start, end), range(first, start)):
                credit = consumers[at].credit()
                if credit > 0:
                    self._next_consumer = at + 1
                    return consumers[at], credit
            first = end
        return None, 0

    def _with_credit(self, priority: int) -> int:
        first = bisect_left(self._consumers, -priority, key=_rank)
        group = islice(self._consumers, first, self._end_of_priority(first))
        return sum(consumer.credit() > 0 for consumer in group)

    def _end_of_priority(self, first: int) -> int:
        consumers = self._consumers
        if consumers[-1].priority == consumers[first].priority:
            return len(consumers)  # nearly always: nobody asked for another one
        return bisect_right(consumers, _rank(consumers[first]), first, key=_rank)

    def _take(self, count: int) -> Delivery | None:
        partitions = self.partitions
        if len(partitions) == 1:
            return partitions[0].take(count, DELIVERY_BYTES_MAX)
        # Each partition in its turn, so that a busy one does not keep the others waiting.
        for _ in partitions:
            at = self._next_partition
            self._next_partition = (at + 1) % len(partitions)
            delivery = partitions[at].take(count, DELIVERY_BYTES_MAX)
            if delivery is not None:
                return delivery
        return None

    # -- emptying

    def purge(self) -> int:
        """Settle everything that is ready; returns how many messages that were."""
        return sum(partition.purge() for partition in self.partitions)

    def delete(self) -> None:
        """Tell the consumers that the queue is gone, and who waits for a message to be loaded."""
        self.deleted = True
        self._loaded()
        consumers = self._consumers + [reader.consumer for reader in self._readers]
        self._consumers, self._readers = [], []
        for consumer in dict.fromkeys(consumers):
            consumer.queue_deleted()


def _cost(delivery: Delivery) -> int:
    records = delivery.records
    return max(DELIVERY_BYTES_MIN, delivery.count * (records.batch_bytes // records.count))


def _rank(consumer: Consumer) -> int:
    return -consumer.priority
