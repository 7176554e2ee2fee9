"""Queues."""

from typing import Any, Literal, NotRequired, TypedDict

from routelog.management.shapes.consumer import ConsumerRow
from routelog.management.shapes.flow import ConsumerFlow, ExchangeFlow
from routelog.management.shapes.statistics import Details, QueueMessageStats


class QueueRow(TypedDict):
    """A queue; counts, bytes of bodies and statistics are missing where `disable_stats` asks for that."""

    name: str
    vhost: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: dict[str, Any]
    type: Literal["classic", "quorum", "stream"]
    node: str
    state: str
    policy: str | None
    operator_policy: str | None
    effective_policy_definition: dict[str, Any]
    head_message_timestamp: int | None
    exclusive_consumer_tag: str | None
    single_active_consumer_tag: str | None
    partitions: int
    durability: str
    consumers: NotRequired[int]
    messages: NotRequired[int]
    messages_ready: NotRequired[int]
    messages_unacknowledged: NotRequired[int]
    messages_delayed: NotRequired[int]
    message_bytes: NotRequired[int]
    message_bytes_ready: NotRequired[int]
    message_bytes_unacknowledged: NotRequired[int]
    message_bytes_ram: NotRequired[int]
    message_bytes_persistent: NotRequired[int]
    messages_ram: NotRequired[int]
    messages_persistent: NotRequired[int]
    messages_details: NotRequired[Details]
    messages_ready_details: NotRequired[Details]
    messages_unacknowledged_details: NotRequired[Details]
    message_stats: NotRequired[QueueMessageStats]
    consumer_capacity: NotRequired[float]
    consumer_utilisation: NotRequired[float]
    idle_since: NotRequired[str]
    leader: NotRequired[str]
    members: NotRequired[list[str]]
    online: NotRequired[list[str]]
    slave_nodes: NotRequired[list[str]]
    synchronised_slave_nodes: NotRequired[list[str]]
    min_in_sync: NotRequired[int]


class SettingRow(TypedDict):
    """An argument in force, and where it comes from."""

    name: str
    value: Any
    source: Literal["argument", "policy", "operator policy"]
    policy: str


class OneQueue(QueueRow):
    """A queue that was asked for alone."""

    consumer_details: list[ConsumerRow]
    settings: list[SettingRow]
    incoming: NotRequired[list[ExchangeFlow]]
    deliveries: NotRequired[list[ConsumerFlow]]
