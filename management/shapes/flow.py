"""Flows: what one object has from another, or gives to it."""

from msgspec import Struct

from routelog.management.shapes.consumer import ChannelDetails, QueueName
from routelog.management.shapes.statistics import Deliveries, Details


class ExchangeName(Struct):
    """An exchange, and where it is."""

    name: str
    vhost: str


class Publishes(Struct):
    """Messages that were published, and their rate."""

    publish: int
    publish_details: Details


class ExchangeFlow(Struct):
    """What a channel published to an exchange, or a queue got of what was published there."""

    exchange: ExchangeName
    stats: Publishes


class ArrivalFlow(Struct):
    """What a queue got of an exchange."""

    queue: QueueName
    stats: Publishes


class PublisherFlow(Struct):
    """What a channel published to an exchange."""

    channel_details: ChannelDetails
    stats: Publishes


class ConsumerFlow(Struct):
    """What a channel took from a queue."""

    channel_details: ChannelDetails
    stats: Deliveries


class QueueFlow(Struct):
    """What a channel took from a queue."""

    queue: QueueName
    stats: Deliveries
