"""A consumer of a front, as its queue sees it: deliveries become messages of the session."""

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from routelog.log_backend import Octets, slice_records
from routelog.vhosts.counters.counters import MessageCounters
from routelog.vhosts.errors import QueueStopped
from routelog.vhosts.messages.consumer import CREDIT_UNLIMITED
from routelog.vhosts.messages.delivery import Delivery, DeliverySource, ReturnReason
from routelog.vhosts.queues.dispatcher import (
    DELIVERY_BYTES_MAX,
    DELIVERY_COUNT_MAX,
)
from routelog.vhosts.queues.queue_handle import ConsumerSource, QueueHandle
from routelog.vhosts.sessions.offset_ranges import OffsetRanges
from routelog.vhosts.sessions.session_message import (
    COUNTED,
    HEAD_BYTES,
    REDELIVERED,
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
)
from routelog.vhosts.sessions.unsettled import Unsettled
from routelog.vhosts.vhost.vhost import VirtualHost

# Of deliveries that a front has not yet said to have handed to its client, when another one is sent: what
# 10 Gbit/s take in a millisecond, which is several round trips.
WINDOW_BYTES = 1024 * 1024


class DeliveringSession(Protocol):
    """What a consumer needs of its session.

    Attributes:
        counters: of what it takes; the front counts for its channels.
    """

    counters: MessageCounters

    def takes_from(self, consumer: "HostedConsumer") -> bool:
        """Whether it is open, and the peer reads what is sent; else the consumer is woken when it does."""

    def write(self, pieces: Sequence[Octets]) -> None:
        """Send pieces of a message."""

    def fail(self, reason: str) -> None:
        """End the session because of a fault of ours."""

    def consumer_ended(self, consumer: "HostedConsumer", error: QueueStopped | None) -> None:
        """Its queue delivers no more to it."""


class HostedChannel:
    """A channel of a front with a prefetch count, which its consumers share.

    Attributes:
        number: the front's.
        prefetch: deliveries that they may have unsettled together; 0 is no limit.
        unacked: deliveries that they have unsettled.
        consumers: those included that have gone, and have something unsettled.
    """

    __slots__ = ("consumers", "number", "prefetch", "unacked")

    def __init__(self, number: int) -> None:
        self.number = number
        self.prefetch = self.unacked = 0
        self.consumers: dict[HostedConsumer, None] = {}

    def credit(self) -> int:
        """How many deliveries the channel as a whole takes now."""
        return self.prefetch - self.unacked if self.prefetch else CREDIT_UNLIMITED

    def let_go(self, count: int) -> None:
        """A consumer has so many deliveries less."""
        had_credit = self.credit() > 0
        self.unacked -= count
        if not had_credit and self.credit() > 0:
            self.wake()

    def wake(self) -> None:
        """There may be credit again: let the queues of all consumers look, another one first each time."""
        consumers = self.consumers
        if consumers:
            first = next(iter(consumers))
            consumers[first] = consumers.pop(first)
        for consumer in consumers:
            if not consumer.is_gone:
                consumer.source.has_credit(consumer)
                consumer.source.on_ready()


class HostedConsumer:
    """A consumer of a front.

    Attributes:
        number: in its session.
        vhost, queue: where it consumes.
        source: what it is served by: its queue, or a group of it.
        prefetch: deliveries it may have unsettled; 0 is no limit.
        channel: shares its prefetch count; None: it has none.
        unacked: deliveries it has unsettled, those included that are to be delivered again.
        lapsed: deliveries that were taken back, as its client did not settle them in time, and holds still.
        unsettled: deliveries that the front may settle or return.
        has_begun: the queue has it, or had it.
        is_gone: it is delivered nothing more; what it has unsettled may still be settled.

    Invariant: `unacked` is the count of `unsettled`, of all `_again`, of what transactions settle that are
    under way, and `lapsed`.
    """

    __slots__ = (
        "_again",
        "_handed",
        "_sent",
        "_session",
        "_window",
        "_window_bytes",
        "channel",
        "exclusive",
        "has_begun",
        "is_gone",
        "lapsed",
        "no_ack",
        "number",
        "prefetch",
        "priority",
        "queue",
        "source",
        "tag",
        "unacked",
        "unsettled",
        "vhost",
    )

    def __init__(
        self,
        session: DeliveringSession,
        number: int,
        vhost: VirtualHost,
        queue: QueueHandle,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
    ) -> None:
        self._session = session
        self.number = number
        self.vhost = vhost
        self.queue = queue
        self.source: ConsumerSource = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.prefetch = prefetch
        self.channel: HostedChannel | None = None
        self.unacked = self.lapsed = 0
        self.unsettled = Unsettled()
        self.has_begun = self.is_gone = False
        self._again: deque[_Redelivery] = deque()
        self._sent = self._handed = 0  # messages: to the front, and by it to its client
        # Of deliveries that the front has: where each ends, counted as `_sent`; its bytes
        self._window: deque[tuple[int, int]] = deque()
        self._window_bytes = 0

    # -- what its queue asks (Consumer)

    def credit(self) -> int:
        """See `Consumer`."""
        if self.is_gone or self._window_bytes >= WINDOW_BYTES or not self._session.takes_from(self):
            return 0
        credit = CREDIT_UNLIMITED if self.channel is None else self.channel.credit()
        if self.no_ack:
            return CREDIT_UNLIMITED if credit > 0 else 0
        return min(credit, self.prefetch - self.unacked) if self.prefetch else credit

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        session, count = self._session, delivery.count
        first, partition = delivery.offset, delivery.partition_index or 0
        if not self.no_ack:
            self.unacked += count
            if self.channel is not None:
                self.channel.unacked += count
            self.unsettled.add(partition, delivery.partition, first, first + count)
        try:
            pieces = self._pieces(delivery, partition)
        except Exception as error:  # a fault of ours: it must not stop the queue for others
            session.fail(f"a delivery failed: {error}")
            return
        session.write(pieces)
        self._sent += count
        size = sum(map(len, pieces)) - HEAD_BYTES
        self._window.append((self._sent, size))
        self._window_bytes += size
        delivery.partition.counters.delivered(
            session.counters, count, self.no_ack, delivery.redelivered
        )

    def _pieces(self, delivery: Delivery, partition: int) -> list[Octets]:
        count, first, flags, counts = delivery.count, delivery.offset, 0, b""
        if delivery.redelivered:
            flags = REDELIVERED
            if self.queue.counts_deliveries:
                flags |= COUNTED
                count_of = delivery.partition.delivery_count
                counts = array("I", map(count_of, range(first, first + count))).tobytes()
        return batch_pieces(
            SessionMessage(Kind.DELIVER, flags, partition, self.number, 0, first, count, counts),
            slice_records(delivery.records, delivery.index, count),
        )

    def queue_deleted(self) -> None:
        """See `Consumer`."""
        self._session.consumer_ended(self, None)

    def queue_stopped(self, error: QueueStopped) -> None:
        """See `Consumer`."""
        self._session.consumer_ended(self, error)

    # -- what its front says

    @property
    def is_partitioned(self) -> bool:
        """Whether what it has room for may lie in another partition than what it settles."""
        return self.queue.partition_count > 1

    def let_go(self, count: int) -> None:
        """The front has settled or returned messages, or they are not unsettled any more."""
        self.unacked -= count
        self.source.has_credit(self)
        if self.channel is not None:
            self.channel.let_go(count)

    def lapse(self, count: int) -> None:
        """Its client holds so many deliveries that were taken back."""
        freed, self.lapsed = self.lapsed - count, count
        self.let_go(freed)
        if freed > 0 and not self.is_gone:
            self.source.on_ready()

    def share(self, channel: HostedChannel) -> None:
        """Its channel has a prefetch count."""
        if self.channel is None:
            self.channel = channel
            channel.consumers[self] = None
            channel.unacked += self.unacked

    def handed_on(self, messages: int) -> None:
        """The front has handed deliveries to its client.

        Args:
            messages: of all, since the consumer began.

        Raises:
            BadSessionMessage: they are more than were delivered, or less than it said before.
        """
        if not self._handed <= messages <= self._sent:
            raise BadSessionMessage(f"{messages} of {self._sent} messages were handed on")
        self._handed = messages
        window, was_full = self._window, self._window_bytes >= WINDOW_BYTES
        while window and window[0][0] <= messages:
            self._window_bytes -= window.popleft()[1]
        if was_full and self._window_bytes < WINDOW_BYTES:
            self.wake()

    def wake(self) -> None:
        """There may be credit again."""
        self._deliver_again()
        if not self.is_gone:
            self.source.has_credit(self)
            self.source.on_ready()

    def redeliver(self, partition: int, first: int, end: int) -> None:
        """Deliver unsettled messages once more, to this consumer; if it is gone they go back to the queue.

        Raises:
            BadSessionMessage: some of them are not unsettled.
        """
        source = self.unsettled.take(partition, first, end)
        self._again.append(_Redelivery(source, partition, first, end))
        if self.is_gone:
            self.give_up_again()
        elif len(self._again) == 1:
            self._deliver_again()

    def _deliver_again(self) -> None:
        # As the window has room; it is called again when there may be more.
        while self._again and self._window_bytes < WINDOW_BYTES:
            if not self._session.takes_from(self):
                return
            part = self._again[0]
            end = min(part.end, part.first + DELIVERY_COUNT_MAX)
            again = part.source.redeliver(part.first, end, DELIVERY_BYTES_MAX, self._deliver_again)
            if again is None:
                return
            count, deliveries = again
            part.first += count
            if part.first == part.end:
                self._again.popleft()
            self.let_go(count)
            for delivery in deliveries:
                delivery.partition_index = part.partition
                self.deliver(delivery)

    def give_up_again(self) -> None:
        """Return to the queue what was to be delivered again."""
        while self._again:
            part = self._again.popleft()
            part.source.give_back(part.first, part.end, ReturnReason.RETURNED)
            part.source.on_ready()
            self.let_go(part.end - part.first)

    def take_all(self) -> list[tuple[DeliverySource, OffsetRanges]]:
        """Remove all that it has unsettled; returns the sources with what is to come back to them."""
        for part in self._again:
            self.unsettled.add(part.partition, part.source, part.first, part.end)
        self._again.clear()
        return self.unsettled.take_all()


class _Redelivery:
    # Messages that are to be delivered to their consumer once more.
    __slots__ = ("end", "first", "partition", "source")

    def __init__(self, source: DeliverySource, partition: int, first: int, end: int) -> None:
        self.source = source
        self.partition = partition
        self.first = first  # of what is left
        self.end = end
