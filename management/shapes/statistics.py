"""Counts with their rates, and with samples where they are asked for."""

from typing import NotRequired, TypedDict


class Sample(TypedDict):
    """A value at a time, in milliseconds since 1970."""

    sample: int
    timestamp: int


class Details(TypedDict):
    """How fast a value grows, by the second; the rest with samples alone."""

    rate: float
    samples: NotRequired[list[Sample]]
    avg_rate: NotRequired[float]
    avg: NotRequired[float]


class Deliveries(TypedDict, total=False):
    """What clients got and acknowledged; `deliver_get` sums the first four."""

    deliver: int
    deliver_no_ack: int
    get: int
    get_no_ack: int
    get_empty: int
    redeliver: int
    ack: int
    deliver_get: int
    deliver_details: Details
    deliver_no_ack_details: Details
    get_details: Details
    get_no_ack_details: Details
    get_empty_details: Details
    redeliver_details: Details
    ack_details: Details
    deliver_get_details: Details


class ChannelMessageStats(Deliveries, total=False):
    """Of a channel, a vhost or the node; what nothing happened to is left out."""

    publish: int
    confirm: int
    return_unroutable: int
    drop_unroutable: int
    publish_details: Details
    confirm_details: Details
    return_unroutable_details: Details
    drop_unroutable_details: Details


class QueueMessageStats(Deliveries, total=False):
    """Of a queue: `publish` is all that came to it, `drop` what left it without being acknowledged."""

    publish: int
    drop: int
    publish_details: Details
    drop_details: Details


class ExchangeMessageStats(TypedDict, total=False):
    """Of an exchange: what clients published to it, and what it gave to queues."""

    publish_in: int
    publish_out: int
    publish_in_details: Details
    publish_out_details: Details


class Lengths(TypedDict):
    """Messages of all queues together."""

    messages: int
    messages_ready: int
    messages_unacknowledged: int
    messages_details: Details
    messages_ready_details: Details
    messages_unacknowledged_details: Details


class Churn(TypedDict):
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


class Traffic(TypedDict):
    """Bytes of a connection, and its reads and writes."""

    recv_oct: int
    recv_cnt: int
    send_oct: int
    send_cnt: int
    recv_oct_details: Details
    recv_cnt_details: Details
    send_oct_details: Details
    send_cnt_details: Details
