"""Consumers."""

from typing import Any, Literal, TypedDict


class QueueName(TypedDict):
    """A queue, and where it is."""

    name: str
    vhost: str


class ChannelDetails(TypedDict):
    """The channel of a consumer."""

    name: str
    number: int
    user: str
    connection_name: str
    node: str
    peer_host: str
    peer_port: int


class ConsumerRow(TypedDict):
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
