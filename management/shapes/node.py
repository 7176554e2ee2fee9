"""Nodes, and the overview."""

from msgspec import UNSET, Struct, UnsetType

from routelog.management.shapes.statistics import (
    ChannelMessageStats,
    Churn,
    Details,
    Lengths,
)


class ClusterName(Struct):
    """What clients are told that the cluster is called."""

    name: str


class Enabled(Struct):
    """A mechanism of authentication."""

    name: str
    enabled: bool


class ExchangeType(Enabled):
    """A type of exchanges."""

    description: str


class Application(Struct):
    """A program."""

    name: str
    version: str


class Standby(Struct):
    """A standby, and how far it is behind."""

    name: str
    is_connected: bool
    bytes: int
    seconds: float


class NodeRow(Struct, kw_only=True):
    """A node of the cluster; of one that follows, only how far it is is known."""

    name: str
    type: str
    running: bool
    being_drained: bool
    partitions: list[str]
    in_sync: bool
    damaged: bool
    blocks_behind: int | None
    os_pid: str | UnsetType = UNSET
    uptime: int | UnsetType = UNSET
    processors: int | UnsetType | None = UNSET
    mem_used: int | UnsetType = UNSET
    mem_limit: int | UnsetType = UNSET
    mem_calculation_strategy: str | UnsetType = UNSET
    fd_used: int | UnsetType = UNSET
    fd_total: int | UnsetType = UNSET
    proc_used: int | UnsetType = UNSET
    proc_total: int | UnsetType = UNSET
    sockets_used: int | UnsetType = UNSET
    sockets_total: int | UnsetType = UNSET
    intake_bytes: int | UnsetType = UNSET
    intake_bytes_limit: int | UnsetType = UNSET
    disk_free: int | UnsetType = UNSET
    disk_total: int | UnsetType = UNSET
    disk_free_limit: int | UnsetType = UNSET
    mem_alarm: bool | UnsetType = UNSET
    disk_free_alarm: bool | UnsetType = UNSET
    files_alarm: bool | UnsetType = UNSET
    journal_alarm: bool | UnsetType = UNSET
    log_alarm: bool | UnsetType = UNSET
    data_dir: str | UnsetType = UNSET
    db_dir: str | UnsetType = UNSET
    standbys: list[Standby] | UnsetType = UNSET
    rates_mode: str | UnsetType = UNSET
    exchange_types: list[ExchangeType] | UnsetType = UNSET
    auth_mechanisms: list[Enabled] | UnsetType = UNSET
    applications: list[Application] | UnsetType = UNSET
    enabled_plugins: list[str] | UnsetType = UNSET
    message_stats: ChannelMessageStats | UnsetType = UNSET
    connection_created: int | UnsetType = UNSET
    connection_closed: int | UnsetType = UNSET
    channel_created: int | UnsetType = UNSET
    channel_closed: int | UnsetType = UNSET
    queue_declared: int | UnsetType = UNSET
    queue_created: int | UnsetType = UNSET
    queue_deleted: int | UnsetType = UNSET
    connection_created_details: Details | UnsetType = UNSET
    connection_closed_details: Details | UnsetType = UNSET
    channel_created_details: Details | UnsetType = UNSET
    channel_closed_details: Details | UnsetType = UNSET
    queue_declared_details: Details | UnsetType = UNSET
    queue_created_details: Details | UnsetType = UNSET
    queue_deleted_details: Details | UnsetType = UNSET


class Listener(Struct):
    """Where clients connect."""

    node: str
    protocol: str
    ip_address: str
    port: int


class Context(Struct):
    """Where the HTTP API is."""

    node: str
    description: str
    path: str
    ip: str
    port: str


class ObjectTotals(Struct):
    """How many of each there are."""

    queues: int
    exchanges: int
    connections: int
    channels: int
    consumers: int


class Overview(Struct, kw_only=True):
    """What the node is, and how much of everything the caller sees."""

    management_version: str
    product_name: str
    product_version: str
    rabbitmq_version: str
    cluster_name: str
    node: str
    rates_mode: str
    sample_retention_policies: dict[str, list[int]]
    disable_stats: bool
    exchange_types: list[ExchangeType]
    queue_totals: Lengths
    churn_rates: Churn
    message_stats: ChannelMessageStats
    object_totals: ObjectTotals
    listeners: list[Listener] | UnsetType = UNSET
    contexts: list[Context] | UnsetType = UNSET
