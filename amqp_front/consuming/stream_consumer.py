"""A consumer that reads a log: each delivery says at which offset it lies."""

from collections.abc import Sequence

from routelog.amqp_front.consuming.channel_consumer import (
    COUNT_HEADER,
    ChannelConsumer,
    delivery_counts,
)
from routelog.amqp_front.wire.added_headers import AddedHeaders
from routelog.vhosts import Delivery

OFFSET_HEADER = b"x-stream-offset"
PARTITION_HEADER = b"x-partition"


class StreamConsumer(ChannelConsumer):
    """One basic.consume from an offset, or of a group.

    What an ack does is up to where the delivery came from: a reader's gives credit and nothing else.
    """

    __slots__ = ()

    def _added_headers(self, delivery: Delivery) -> AddedHeaders:
        count, first = delivery.count, delivery.offset
        columns: dict[bytes, Sequence[int]] = {}
        if delivery.redelivered and self.queue.counts_deliveries:
            columns[COUNT_HEADER] = delivery_counts(delivery)
        if delivery.partition_index is not None:
            columns[PARTITION_HEADER] = [delivery.partition_index] * count
        columns[OFFSET_HEADER] = range(first, first + count)
        return AddedHeaders(count, columns)
