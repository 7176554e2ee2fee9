"""Counts with their rates, and with samples where they are asked for."""

from msgspec import UNSET, Struct, UnsetType


class Sample(Struct):
    """A value at a time, in milliseconds since 1970."""

    sample: int
    timestamp: int


class Details(Struct, kw_only=True):
    """How fast a value grows, by the second; the rest with samples alone."""

    rate: float
    samples: list[Sample] | UnsetType = UNSET
    avg_rate: float | UnsetType = UNSET
    avg: float | UnsetType = UNSET


class Deliveries(Struct, kw_only=True):
    """What clients got and acknowledged; `deliver_get` sums the first four."""

    deliver: int | UnsetType = UNSET
    deliver_no_ack: int | UnsetType = UNSET
    get: int | UnsetType = UNSET
    get_no_ack: int | UnsetType = UNSET
    get_empty: int | UnsetType = UNSET
    redeliver: int | UnsetType = UNSET
    ack: int | UnsetType = UNSET
    deliver_get: int | UnsetType = UNSET
    deliver_details: Details | UnsetType = UNSET
    deliver_no_ack_details: Details | UnsetType = UNSET
    get_details: Details | UnsetType = UNSET
    get_no_ack_details: Details | UnsetType = UNSET
    get_empty_details: Details | UnsetType = UNSET
    redeliver_details: Details | UnsetType = UNSET
    ack_details: Details | UnsetType = UNSET
    deliver_get_details: Details | UnsetType = UNSET


class ChannelMessageStats(Deliveries, kw_only=True):
    """Of a channel, a vhost or the node; what nothing happened to is left out."""

    publish: int | UnsetType = UNSET
    confirm: int | UnsetType = UNSET
    return_unroutable: int | UnsetType = UNSET
    drop_unroutable: int | UnsetType = UNSET
    publish_details: Details | UnsetType = UNSET
    confirm_details: Details | UnsetType = UNSET
    return_unroutable_details: Details | UnsetType = UNSET
    drop_unroutable_details: Details | UnsetType = UNSET


class QueueMessageStats(Deliveries, kw_only=True):
    """Of a queue: `publish` is all that came to it, `drop` what left it without being acknowledged."""

    publish: int | UnsetType = UNSET
    drop: int | UnsetType = UNSET
    publish_details: Details | UnsetType = UNSET
    drop_details: Details | UnsetType = UNSET


class ExchangeMessageStats(Struct, kw_only=True):
    """Of an exchange: what clients published to it, and what it gave to queues."""

    publish_in: int | UnsetType = UNSET
    publish_out: int | UnsetType = UNSET
    publish_in_details: Details | UnsetType = UNSET
    publish_out_details: Details | UnsetType = UNSET


class Lengths(Struct):
    """Messages of all queues together."""

    messages: int
    messages_ready: int
    messages_unacknowledged: int
    messages_details: Details
    messages_ready_details: Details
    messages_unacknowledged_details: Details


class Churn(Struct):
    """How often connections, channels and queues came and went."""

    connection_created: int
    connection_closed: int
    channel_created: int
    channel_closed: int
    queue_declared: int
    queue_created: int
    queue_deleted: int
    connection_created_details: Details
    connection_closed_details: Details
    channel_created_details: Details
    channel_closed_details: Details
    queue_declared_details: Details
    queue_created_details: Details
    queue_deleted_details: Details
