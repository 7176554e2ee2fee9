"""Queues."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from routelog.management.shapes.consumer import ConsumerRow
from routelog.management.shapes.flow import ConsumerFlow, ExchangeFlow
from routelog.management.shapes.statistics import Details, QueueMessageStats

QueueType = Literal["classic", "quorum", "stream"]
Source = Literal["argument", "policy", "operator policy"]
Action = Literal[
    "publish",
    "delete",
    "set",
    "pause",
    "resume",
    "purge",
    "get",
    "move",
    "copy",
    "redrive",
    "replay",
    "restore",
]


class QueueRow(Struct, kw_only=True):
    """A queue; counts, bytes of bodies and statistics are missing where `disable_stats` asks for that."""

    name: str
    vhost: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: dict[str, Any]
    type: QueueType
    node: str
    state: Literal["running", "paused"]
    policy: str | None
    operator_policy: str | None
    effective_policy_definition: Mapping[str, Any]
    head_message_timestamp: int | None
    exclusive_consumer_tag: str | None
    single_active_consumer_tag: str | None
    partitions: int
    durability: str
    consumers: int | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    messages_ready: int | UnsetType = UNSET
    messages_unacknowledged: int | UnsetType = UNSET
    messages_delayed: int | UnsetType = UNSET
    messages_dlx: int | UnsetType = UNSET
    message_bytes: int | UnsetType = UNSET
    message_bytes_ready: int | UnsetType = UNSET
    message_bytes_unacknowledged: int | UnsetType = UNSET
    message_bytes_ram: int | UnsetType = UNSET
    message_bytes_persistent: int | UnsetType = UNSET
    messages_ram: int | UnsetType = UNSET
    messages_persistent: int | UnsetType = UNSET
    messages_details: Details | UnsetType = UNSET
    messages_ready_details: Details | UnsetType = UNSET
    messages_unacknowledged_details: Details | UnsetType = UNSET
    message_stats: QueueMessageStats | UnsetType = UNSET
    consumer_capacity: float | UnsetType = UNSET
    consumer_utilisation: float | UnsetType = UNSET
    idle_since: str | UnsetType = UNSET
    leader: str | UnsetType = UNSET
    members: list[str] | UnsetType = UNSET
    online: list[str] | UnsetType = UNSET
    slave_nodes: list[str] | UnsetType = UNSET
    synchronised_slave_nodes: list[str] | UnsetType = UNSET
    min_in_sync: int | UnsetType = UNSET


class SettingRow(Struct):
    """An argument in force, and where it comes from."""

    name: str
    value: Any
    source: Source
    policy: str


class OneQueue(QueueRow, kw_only=True):
    """A queue that was asked for alone; `actions` are those that a queue of its kind allows."""

    actions: list[Action]
    consumer_details: list[ConsumerRow]
    settings: list[SettingRow]
    incoming: list[ExchangeFlow] | UnsetType = UNSET
    deliveries: list[ConsumerFlow] | UnsetType = UNSET
