"""Virtual hosts."""

from typing import NotRequired, TypedDict

from routelog.management.shapes.statistics import ChannelMessageStats, Details


class VhostMetadata(TypedDict):
    """What is said of a vhost."""

    description: str
    tags: list[str]
    default_queue_type: NotRequired[str]


class VhostRow(TypedDict):
    """A vhost; in lists, messages are those of the last sample, and are missing before the first."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    metadata: VhostMetadata
    tracing: bool
    cluster_state: dict[str, str]
    messages: NotRequired[int]
    messages_ready: NotRequired[int]
    messages_unacknowledged: NotRequired[int]
    messages_details: NotRequired[Details]
    messages_ready_details: NotRequired[Details]
    messages_unacknowledged_details: NotRequired[Details]
    message_stats: NotRequired[ChannelMessageStats]
