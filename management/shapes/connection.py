"""Connections and channels."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from routelog.management.shapes.consumer import ConsumerRow
from routelog.management.shapes.flow import ExchangeFlow, QueueFlow
from routelog.management.shapes.statistics import ChannelMessageStats, Details


class ConnectionRow(Struct):
    """A connection; `timeout` is its heartbeat in seconds, `connected_at` in milliseconds since 1970."""

    name: str
    user: str
    vhost: str
    user_provided_name: Any
    peer_host: str
    peer_port: int
    host: str
    port: int
    state: str
    blocked_by: list[str]
    channels: int
    channel_max: int
    frame_max: int
    timeout: int
    auth_mechanism: str
    connected_at: int
    client_properties: Mapping[str, Any]
    protocol: str
    type: str
    ssl: bool
    ssl_protocol: str | None
    ssl_cipher: str | None
    peer_cert_subject: str | None
    peer_cert_issuer: str | None
    peer_cert_validity: str | None
    node: str
    recv_oct: int
    recv_oct_details: Details
    recv_cnt: int
    recv_cnt_details: Details
    send_oct: int
    send_oct_details: Details
    send_cnt: int
    send_cnt_details: Details
    send_pend: int
    user_who_performed_action: str


class ConnectionDetails(Struct):
    """The connection of a channel."""

    name: str
    peer_host: str
    peer_port: int


class ChannelRow(Struct, kw_only=True):
    """A channel."""

    name: str
    number: int
    user: str
    vhost: str
    node: str
    state: Literal["running", "flow"]
    confirm: bool
    transactional: bool
    consumer_count: int
    messages_unacknowledged: int
    messages_unconfirmed: int
    messages_uncommitted: int
    acks_uncommitted: int
    prefetch_count: int
    global_prefetch_count: int
    connection_details: ConnectionDetails
    user_who_performed_action: str
    message_stats: ChannelMessageStats | UnsetType = UNSET
    idle_since: str | UnsetType = UNSET


class OneChannel(ChannelRow, kw_only=True):
    """A channel that was asked for alone."""

    consumer_details: list[ConsumerRow]
    publishes: list[ExchangeFlow]
    deliveries: list[QueueFlow]
