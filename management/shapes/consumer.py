"""Consumers."""

from typing import Any, Literal

from msgspec import Struct


class QueueName(Struct):
    """A queue, and where it is."""

    name: str
    vhost: str


class ChannelDetails(Struct):
    """The channel of a consumer."""

    name: str
    number: int
    user: str
    connection_name: str
    node: str
    peer_host: str
    peer_port: int


class ConsumerRow(Struct):
    """A consumer."""

    consumer_tag: str
    queue: QueueName
    ack_required: bool
    exclusive: bool
    prefetch_count: int
    active: bool
    activity_status: Literal["up", "single_active", "waiting"]
    arguments: dict[str, Any]
    messages_unacknowledged: int
    messages_timed_out: int
    user_who_performed_action: str
    channel_details: ChannelDetails
