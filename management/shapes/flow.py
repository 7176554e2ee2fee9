"""Flows: what one object has from another, or gives to it."""

from typing import TypedDict

from routelog.management.shapes.consumer import ChannelDetails, QueueName
from routelog.management.shapes.statistics import Deliveries, Details


class ExchangeName(TypedDict):
    """An exchange, and where it is."""

    name: str
    vhost: str


class Publishes(TypedDict):
    """Messages that were published, and their rate."""

    publish: int
    publish_details: Details


class ExchangeFlow(TypedDict):
    """What a channel published to an exchange, or a queue got of what was published there."""

    exchange: ExchangeName
    stats: Publishes


class ArrivalFlow(TypedDict):
    """What a queue got of an exchange."""

    queue: QueueName
    stats: Publishes


class PublisherFlow(TypedDict):
    """What a channel published to an exchange."""

    channel_details: ChannelDetails
    stats: Publishes


class ConsumerFlow(TypedDict):
    """What a channel took from a queue."""

    channel_details: ChannelDetails
    stats: Deliveries


class QueueFlow(TypedDict):
    """What a channel took from a queue."""

    queue: QueueName
    stats: Deliveries
