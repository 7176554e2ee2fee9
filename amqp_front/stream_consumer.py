"""A consumer that reads a log: each delivery says at which offset it lies."""

from amqp_front.channel_consumer import ChannelConsumer
from vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset. Acks give credit; rejects do no more than acks."""

    __slots__ = ()

    def _frames(self, delivery: Delivery, first_tag: int) -> bytes:
        offsets = range(delivery.offset, delivery.offset + delivery.count)
        return self._headed_frames(delivery, first_tag, OFFSET_HEADER, offsets)
