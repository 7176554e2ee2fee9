"""A consumer that reads a log: each delivery says at which offset it lies."""

from collections.abc import Iterator

from amqp_front.channel_consumer import ChannelConsumer
from amqp_front.properties import Properties
from vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"
PARTITION_HEADER = b"x-partition"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset. Acks give credit; rejects do no more than acks."""

    __slots__ = ()

    def _frames(self, delivery: Delivery, first_tag: int) -> bytes:
        return self._headed_frames(delivery, first_tag, _property_lists(delivery))


def _property_lists(delivery: Delivery) -> Iterator[bytes]:
    for at in range(delivery.count):
        raw = delivery.records.properties(delivery.index + at)
        raw = Properties(raw).with_header(OFFSET_HEADER, delivery.offset + at)
        if delivery.partition_index is not None:
            raw = Properties(raw).with_header(PARTITION_HEADER, delivery.partition_index)
        yield raw
