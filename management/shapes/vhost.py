"""Virtual hosts."""

from msgspec import UNSET, Struct, UnsetType

from routelog.management.shapes.statistics import ChannelMessageStats, Details


class VhostMetadata(Struct, kw_only=True):
    """What is said of a vhost."""

    description: str
    tags: list[str]
    default_queue_type: str | UnsetType = UNSET


class VhostRow(Struct, kw_only=True):
    """A vhost; in lists, messages are those of the last sample, and are missing before the first."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    metadata: VhostMetadata
    tracing: bool
    cluster_state: dict[str, str]
    messages: int | UnsetType = UNSET
    messages_ready: int | UnsetType = UNSET
    messages_unacknowledged: int | UnsetType = UNSET
    messages_details: Details | UnsetType = UNSET
    messages_ready_details: Details | UnsetType = UNSET
    messages_unacknowledged_details: Details | UnsetType = UNSET
    message_stats: ChannelMessageStats | UnsetType = UNSET
