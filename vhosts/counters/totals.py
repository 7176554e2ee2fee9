"""The counters of a node and of its vhosts: made here, so that each has its totals above it."""

from routelog.vhosts.counters.counters import (
    ChangedCounters,
    ExchangeCounters,
    MessageCounters,
    TrafficCounters,
)


class ChurnCounters:
    """How often connections, channels and queues came and went.

    Attributes:
        queue_declared: also queues that were there already.
    """

    NAMES = (
        "connection_created",
        "connection_closed",
        "channel_created",
        "channel_closed",
        "queue_declared",
        "queue_created",
        "queue_deleted",
    )

    __slots__ = NAMES

    def __init__(self) -> None:
        self.connection_created = self.connection_closed = 0
        self.channel_created = self.channel_closed = 0
        self.queue_declared = self.queue_created = self.queue_deleted = 0

    def values(self) -> tuple[int, ...]:
        """All counts, in the order of `NAMES`."""
        return tuple(getattr(self, name) for name in self.NAMES)


class NodeCounters:
    """The totals of a node.

    Attributes:
        changed: which counters have changed.
        channels: of all channels: what clients published, got and acknowledged.
        queues: of all queues, by type: what came to them and left them.
        traffic: of all connections.
        churn: what came and went.
    """

    def __init__(self) -> None:
        self.changed = ChangedCounters()
        self.channels = MessageCounters(self.changed)
        self.queues: dict[str, MessageCounters] = {
            kind: MessageCounters(self.changed) for kind in ("classic", "quorum", "stream")
        }
        self.traffic = TrafficCounters(self.changed)
        self.churn = ChurnCounters()

    def connection(self) -> TrafficCounters:
        """Make the counters of a connection."""
        return TrafficCounters(self.changed, self.traffic)

    def queue(self, kind: str) -> MessageCounters:
        """Make the counters of a queue of a type."""
        return MessageCounters(self.changed, self.queues[kind])


class VhostCounters:
    """The counters of a vhost.

    Attributes:
        node: those of the node.
        channels: totals of the channels in it.
        exchanges: by name, of those that messages were published to.
    """

    def __init__(self, node: NodeCounters) -> None:
        self.node = node
        self.channels = MessageCounters(node.changed, node.channels)
        self.exchanges: dict[str, ExchangeCounters] = {}

    def channel(self) -> MessageCounters:
        """Make the counters of a channel."""
        return MessageCounters(self.node.changed, self.channels)

    def exchange(self, name: str) -> ExchangeCounters:
        """The counters of an exchange, made with its first message."""
        counters = self.exchanges.get(name)
        if counters is None:
            counters = self.exchanges[name] = ExchangeCounters(self.node.changed)
        return counters
