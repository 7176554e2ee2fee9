"""A consumer that reads a log: each delivery says at which offset it lies."""

from pamqp import commands

from amqp_front.channel_consumer import ChannelConsumer
from amqp_front.content_frames import content_frames
from amqp_front.properties import Properties
from amqp_front.unacked import UnackedRun
from vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"
PARTITION_HEADER = b"x-partition"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset. Acks give credit; rejects do no more than acks."""

    __slots__ = ()

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        channel = self._channel
        first_tag, count = channel.next_tag, delivery.count
        channel.next_tag = end_tag = first_tag + count
        self.unacked += count
        run = UnackedRun(first_tag, end_tag, delivery.partition, delivery.offset, self)
        channel.add_unacked(run)
        frames = [self._frames(delivery, at, first_tag + at) for at in range(count)]
        channel.write(b"".join(frames))

    def _frames(self, delivery: Delivery, at: int, tag: int) -> bytes:
        records, index = delivery.records, delivery.index + at
        properties = Properties(records.properties(index)).with_header(
            OFFSET_HEADER, delivery.offset + at
        )
        if delivery.partition_index is not None:
            properties = Properties(properties).with_header(
                PARTITION_HEADER, delivery.partition_index
            )
        return content_frames(
            self._channel.number,
            self._channel.body_frame_max,
            properties,
            records.body(index),
            commands.Basic.Deliver,
            consumer_tag=self.tag,
            delivery_tag=tag,
            redelivered=False,
            exchange=records.exchange,
            routing_key=records.routing_key(index),
        )
