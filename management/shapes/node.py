"""Nodes, and the overview."""

from typing import NotRequired, TypedDict

from routelog.management.shapes.statistics import (
    ChannelMessageStats,
    Churn,
    Details,
    Lengths,
)


class ClusterName(TypedDict):
    """What clients are told that the cluster is called."""

    name: str


class Enabled(TypedDict):
    """A mechanism of authentication."""

    name: str
    enabled: bool


class ExchangeType(Enabled):
    """A type of exchanges."""

    description: str


class Application(TypedDict):
    """A program."""

    name: str
    version: str


class Standby(TypedDict):
    """A standby, and how far it is behind."""

    name: str
    is_connected: bool
    bytes: int
    seconds: float


class NodeRow(TypedDict):
    """A node of the cluster; of one that follows, only how far it is is known."""

    name: str
    type: str
    running: bool
    being_drained: bool
    partitions: list[str]
    in_sync: bool
    damaged: bool
    blocks_behind: int | None
    os_pid: NotRequired[str]
    uptime: NotRequired[int]
    processors: NotRequired[int | None]
    mem_used: NotRequired[int]
    mem_limit: NotRequired[int]
    mem_calculation_strategy: NotRequired[str]
    fd_used: NotRequired[int]
    fd_total: NotRequired[int]
    proc_used: NotRequired[int]
    proc_total: NotRequired[int]
    sockets_used: NotRequired[int]
    sockets_total: NotRequired[int]
    intake_bytes: NotRequired[int]
    intake_bytes_limit: NotRequired[int]
    disk_free: NotRequired[int]
    disk_free_limit: NotRequired[int]
    mem_alarm: NotRequired[bool]
    disk_free_alarm: NotRequired[bool]
    files_alarm: NotRequired[bool]
    journal_alarm: NotRequired[bool]
    log_alarm: NotRequired[bool]
    data_dir: NotRequired[str]
    db_dir: NotRequired[str]
    standbys: NotRequired[list[Standby]]
    rates_mode: NotRequired[str]
    exchange_types: NotRequired[list[ExchangeType]]
    auth_mechanisms: NotRequired[list[Enabled]]
    applications: NotRequired[list[Application]]
    enabled_plugins: NotRequired[list[str]]
    message_stats: NotRequired[ChannelMessageStats]
    connection_created: NotRequired[int]
    connection_closed: NotRequired[int]
    channel_created: NotRequired[int]
    channel_closed: NotRequired[int]
    queue_declared: NotRequired[int]
    queue_created: NotRequired[int]
    queue_deleted: NotRequired[int]
    connection_created_details: NotRequired[Details]
    connection_closed_details: NotRequired[Details]
    channel_created_details: NotRequired[Details]
    channel_closed_details: NotRequired[Details]
    queue_declared_details: NotRequired[Details]
    queue_created_details: NotRequired[Details]
    queue_deleted_details: NotRequired[Details]


class Listener(TypedDict):
    """Where clients connect."""

    node: str
    protocol: str
    ip_address: str
    port: int


class Context(TypedDict):
    """Where the HTTP API is."""

    node: str
    description: str
    path: str
    ip: str
    port: str


class ObjectTotals(TypedDict):
    """How many of each there are."""

    queues: int
    exchanges: int
    connections: int
    channels: int
    consumers: int


class Overview(TypedDict):
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
    listeners: NotRequired[list[Listener]]
    contexts: NotRequired[list[Context]]


class Finding(TypedDict):
    """Something that is wrong, or that somebody should look at."""

    severity: str
    kind: str
    text: str
    node: NotRequired[str]
    vhost: NotRequired[str]
    queue: NotRequired[str]
    messages: NotRequired[int]


class Findings(TypedDict):
    """What was found, the worst first, in so many queues."""

    findings: list[Finding]
    queues: int
