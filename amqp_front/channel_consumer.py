"""A consumer of a channel, as its queue sees it."""

from typing import Protocol

from amqp_front.deliver_frames import encode_deliveries
from amqp_front.unacked import UnackedRun
from vhosts import CREDIT_UNLIMITED, ConsumerGroup, Delivery, Queue


class ConsumingChannel(Protocol):
    """What a consumer needs of its channel's consumption."""

    number: int
    body_frame_max: int
    next_tag: int

    def credit(self) -> int:
        """How many deliveries the channel as a whole takes now."""

    def write(self, frames: bytes | bytearray) -> None:
        """Send frames to the client."""

    def add_unacked(self, run: UnackedRun) -> None:
        """Remember deliveries until they are settled."""

    def fail(self, error: Exception) -> None:
        """Close the connection because of a fault of ours."""

    def consumer_ended(self, consumer: "ChannelConsumer") -> None:
        """The queue is gone."""


class ChannelConsumer:
    """One basic.consume.

    Attributes:
        source: what it is served by: its queue, or a group of it.
        tag: consumer tag.
        prefetch: deliveries it may have unsettled; 0 is no limit.
        unacked: deliveries it has unsettled.
    """

    __slots__ = (
        "_channel",
        "_wire_tag",
        "exclusive",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "source",
        "tag",
        "unacked",
    )

    def __init__(
        self,
        channel: ConsumingChannel,
        queue: Queue,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
    ) -> None:
        self._channel = channel
        self._wire_tag = tag.encode()
        self.queue = queue
        self.source: Queue | ConsumerGroup = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.prefetch = prefetch
        self.unacked = 0

    def credit(self) -> int:
        """See `Consumer`."""
        credit = self._channel.credit()
        if self.no_ack:
            return CREDIT_UNLIMITED if credit > 0 else 0
        if self.prefetch:
            credit = min(credit, self.prefetch - self.unacked)
        return credit

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        channel = self._channel
        first_tag, count = channel.next_tag, delivery.count
        channel.next_tag = end_tag = first_tag + count
        if not self.no_ack:
            self.unacked += count
            run = UnackedRun(first_tag, end_tag, delivery.partition, delivery.offset, self)
            channel.add_unacked(run)
        try:
            frames = encode_deliveries(
                delivery.records,
                delivery.index,
                count,
                channel.number,
                self._wire_tag,
                first_tag,
                delivery.redelivered,
                channel.body_frame_max,
            )
        except Exception as error:  # a fault of ours: it must not stop the queue for others
            channel.fail(error)
        else:
            channel.write(frames)

    def queue_deleted(self) -> None:
        """See `Consumer`."""
        self._channel.consumer_ended(self)
