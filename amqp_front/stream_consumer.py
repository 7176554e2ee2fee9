"""A consumer that reads a log: each delivery says at which offset it lies."""

from pamqp import commands

from amqp_front.channel_consumer import ChannelConsumer
from amqp_front.content_frames import content_frames
from amqp_front.properties import Properties
from amqp_front.unacked import UnackedRun
from vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset, or of a group.

    What an ack does is up to where the delivery came from: a reader's gives credit and nothing else.
    """

    __slots__ = ()

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
            frames = [self._frames(delivery, at, first_tag + at) for at in range(count)]
        except Exception as error:  # a fault of ours: it must not stop the queue for others
            channel.fail(error)
        else:
            channel.write(b"".join(frames))

    def _frames(self, delivery: Delivery, at: int, tag: int) -> bytes:
        records, index = delivery.records, delivery.index + at
        properties = Properties(records.properties(index))
        return content_frames(
            self._channel.number,
            self._channel.body_frame_max,
            properties.with_header(OFFSET_HEADER, delivery.offset + at),
            records.body(index),
            commands.Basic.Deliver,
            consumer_tag=self.tag,
            delivery_tag=tag,
            redelivered=delivery.redelivered,
            exchange=records.exchange,
            routing_key=records.routing_key(index),
        )
