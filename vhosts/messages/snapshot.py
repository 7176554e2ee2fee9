"""Connections, channels, consumers and messages as operators see them: copies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from routelog.vhosts.counters.counters import MessageCounters, TrafficCounters


@dataclass(frozen=True, slots=True)
class ConnectionSnapshot:
    """An open connection; `heartbeat` in seconds, `connected_at` in milliseconds since 1970.

    Attributes:
        blocked_by: why it waits before it may publish: "disk", "files", "memory", "journal", or a publish rate.
        tls: by RabbitMQ's names; None for what is not known, or is not there.
    """

    name: str
    user: str
    vhost: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    state: str
    blocked_by: tuple[str, ...]
    channels: int
    channel_max: int
    frame_max: int
    heartbeat: int
    mechanism: str
    connected_at: int
    client_properties: Mapping[str, object]
    is_tls: bool
    traffic: TrafficCounters
    unsent_bytes: int
    tls: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelSnapshot:
    """An open channel.

    Attributes:
        oldest_held: of its oldest delivery that a consumer did not settle, the queue, and seconds at least; up
            to a minute longer. Empty and 0 when it has none, or may keep it for ever.
    """

    number: int
    confirm: bool
    transactional: bool
    consumers: int
    unacknowledged: int
    prefetch: int
    channel_prefetch: int
    is_flowing: bool
    counters: MessageCounters
    unconfirmed: int
    uncommitted_messages: int
    uncommitted_acks: int
    oldest_held: tuple[str, float] = ("", 0.0)


@dataclass(frozen=True, slots=True)
class ConsumerSnapshot:
    """A consumer of a queue; `group` is empty when it is in none.

    Attributes:
        activity: "up", "single_active", or "waiting" to be that.
    """

    channel: int
    queue: str
    tag: str
    group: str
    ack_required: bool
    exclusive: bool
    prefetch: int
    priority: int
    activity: str
    unacknowledged: int
    timed_out: int


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message as it was taken from a queue.

    Attributes:
        body: a view of the broker's buffer.
        left: messages that are ready in the queue after this one.
    """

    exchange: str
    routing_key: str
    redelivered: bool
    properties: Mapping[str, object]
    body: memoryview
    left: int


@dataclass(frozen=True, slots=True)
class MessageHolder:
    """Who has an unacknowledged message.

    Attributes:
        tag: of the consumer; empty for basic.get.
        connection: its name.
        seconds: for so long at least; up to a minute longer.
    """

    tag: str
    connection: str
    channel: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BrowsedMessage:
    """A message as it lies in a queue.

    Attributes:
        partition: its index.
        state: "ready", "unacked" or "settled".
        received: microseconds since 1970, of its batch.
        delivery_count: how often it was delivered again.
        holder: who has it; None: nobody, or it is on its way (a retry that waits, a dead letter).
        body: a view of the broker's buffer.
    """

    partition: int
    offset: int
    state: str
    received: int
    exchange: str
    routing_key: str
    delivery_count: int
    holder: MessageHolder | None
    properties: Mapping[str, object]
    body: memoryview
