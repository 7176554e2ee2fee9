"""A consumer that reads a log: each delivery says at which offset it lies."""

from collections.abc import Iterable, Iterator

from routelog.amqp_front.consuming.channel_consumer import (
    COUNT_HEADER,
    ChannelConsumer,
    delivery_counts,
)
from routelog.amqp_front.wire.properties import Properties, visible_properties
from routelog.vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"
PARTITION_HEADER = b"x-partition"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset, or of a group.

    What an ack does is up to where the delivery came from: a reader's gives credit and nothing else.
    """

    __slots__ = ()

    def _property_lists(self, delivery: Delivery) -> Iterable[bytes]:
        is_counted = delivery.redelivered and self.queue.counts_deliveries
        return _headed_property_lists(delivery, is_counted)


def _headed_property_lists(delivery: Delivery, is_counted: bool) -> Iterator[bytes]:
    counts = delivery_counts(delivery) if is_counted else None
    for at in range(delivery.count):
        headers: dict[bytes, int] = {}
        if counts is not None:
            headers[COUNT_HEADER] = counts[at]
        if delivery.partition_index is not None:
            headers[PARTITION_HEADER] = delivery.partition_index
        headers[OFFSET_HEADER] = delivery.offset + at
        raw = visible_properties(delivery.records, delivery.index + at)
        yield Properties(raw).with_integers(headers)
