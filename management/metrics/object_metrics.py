"""Metrics of what a node has very many of: queues, consumer groups, connections and channels."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from routelog.management.calls.broker_side import WatchedBroker
from routelog.management.metrics.counter_metrics import (
    OF_CHANNELS,
    OF_CONNECTIONS,
    OF_EXCHANGES,
    OF_QUEUES,
    within,
)
from routelog.management.metrics.metric import Groups, Metric
from routelog.vhosts import (
    ChannelSnapshot,
    ConsumerGroup,
    ExchangeCounters,
    Queue,
    VirtualHost,
)

_Of = TypeVar("_Of")
Vhosts = Mapping[str, VirtualHost]


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[_Of]):
    """One kind of these.

    Attributes:
        groups: what is told of each, and in sum of all.
        groups_of_each: what is only told of each.
        find: those of some vhosts, by name; others may come and go while they are walked through.
        labels: which one it is.
    """

    groups: Groups[_Of]
    groups_of_each: Groups[_Of]
    find: Callable[[WatchedBroker, Vhosts], Iterator[_Of]]
    labels: Callable[[_Of], Mapping[str, str]]

    def summed(self) -> list[Metric[_Of]]:
        """The metrics of which there is a sum, each once."""
        return _once(self.groups.values())

    def chosen(self, groups: Collection[str] | None) -> list[Metric[_Of]]:
        """The metrics of some groups, each once; None: of all."""
        found = chain(self.groups.items(), self.groups_of_each.items())
        return _once(each for name, each in found if groups is None or name in groups)


def _once(groups: Iterable[tuple[Metric[_Of], ...]]) -> list[Metric[_Of]]:
    return list({metric.name: metric for group in groups for metric in group}.values())


# -- queues

_CONSUMERS: Metric[Queue] = Metric(
    "rabbitmq_queue_consumers", "Consumers", lambda queue: queue.consumer_count
)


def _queues(broker: WatchedBroker, vhosts: Vhosts) -> Iterator[Queue]:
    for vhost in vhosts.values():
        yield from vhost.queues.values()


def _oldest(queue: Queue) -> float | None:
    times = (partition.oldest_time for partition in queue.partitions)
    oldest = min((each for each in times if each is not None), default=None)
    return None if oldest is None else oldest / 1_000_000


QUEUES: ObjectKind[Queue] = ObjectKind(
    groups={
        "queue_coarse_metrics": (
            Metric(
                "rabbitmq_queue_messages_ready",
                "Messages that wait for a consumer",
                lambda queue: queue.ready,
            ),
            Metric(
                "rabbitmq_queue_messages_unacked",
                "Messages that consumers have and did not acknowledge",
                lambda queue: queue.unacked,
            ),
            Metric(
                "rabbitmq_queue_messages",
                "Messages that are ready, unacknowledged, or wait for a retry",
                lambda queue: queue.ready + queue.unacked + queue.delayed,
            ),
        ),
        "queue_consumer_count": (_CONSUMERS,),
        "queue_metrics": (_CONSUMERS,),
        "routelog_queue_metrics": (
            Metric(
                "routelog_queue_messages_delayed",
                "Returned messages that wait before they are ready again",
                lambda queue: queue.delayed,
            ),
            Metric(
                "routelog_queue_segment_bytes",
                "Bytes of the files of logs",
                lambda queue: sum(
                    segment.file_bytes
                    for partition in queue.partitions
                    for segment in partition.log.segments
                ),
            ),
        ),
    },
    groups_of_each={
        **within(OF_QUEUES, lambda queue: queue.counters),
        "routelog_queue_metrics": (
            Metric(
                "routelog_queue_oldest_message_timestamp_seconds",
                "When the oldest message came that is not settled, or shortly before",
                _oldest,
            ),
        ),
    },
    find=_queues,
    labels=lambda queue: {"vhost": queue.vhost, "queue": queue.name},
)

# -- consumer groups, and readers of logs, which are groups without consumers


def _groups(broker: WatchedBroker, vhosts: Vhosts) -> Iterator[ConsumerGroup]:
    for vhost in vhosts.values():
        yield from list(vhost.hosted.groups.queues)


GROUPS: ObjectKind[ConsumerGroup] = ObjectKind(
    groups={
        "routelog_group_metrics": (
            Metric(
                "routelog_group_messages_behind",
                "Messages of the log that a consumer group or reader has not settled",
                lambda group: group.ready + group.unacked,
            ),
            Metric(
                "routelog_group_bytes_behind",
                "Bytes of segments that the log keeps for a consumer group or reader",
                lambda group: sum(place.bytes_behind for place in group.places),
            ),
            Metric(
                "routelog_group_consumers",
                "Consumers of a group",
                lambda group: len(group.consumers),
            ),
        ),
    },
    groups_of_each={},
    find=_groups,
    labels=lambda group: {
        "vhost": group.vhost,
        "queue": group.name,
        "group": group.record.name,
    },
)

# -- exchanges that messages were published to


@dataclass(frozen=True, slots=True)
class WatchedExchange:
    """The counters of an exchange, and where it is."""

    vhost: str
    name: str
    counters: ExchangeCounters


def _exchanges(broker: WatchedBroker, vhosts: Vhosts) -> Iterator[WatchedExchange]:
    for vhost in vhosts.values():
        for name, counters in list(vhost.counters.exchanges.items()):
            yield WatchedExchange(vhost.name, name, counters)


EXCHANGES: ObjectKind[WatchedExchange] = ObjectKind(
    groups={},
    groups_of_each=within(OF_EXCHANGES, lambda exchange: exchange.counters),
    find=_exchanges,
    labels=lambda exchange: {"vhost": exchange.vhost, "exchange": exchange.name},
)

# -- connections, by their handles


@dataclass(frozen=True, slots=True)
class WatchedConnection:
    """A connection, and its name."""

    handle: Any
    name: str


def _connections(broker: WatchedBroker, vhosts: Vhosts) -> Iterator[WatchedConnection]:
    for handle in broker.connections.connections():
        if handle.vhost.name in vhosts:
            yield WatchedConnection(handle, broker.connections.name(handle))


CONNECTIONS: ObjectKind[WatchedConnection] = ObjectKind(
    groups={
        "connection_metrics": (
            Metric(
                "rabbitmq_connection_channels",
                "Channels of connections",
                lambda connection: len(connection.handle.channels),
            ),
        ),
    },
    groups_of_each=within(OF_CONNECTIONS, lambda connection: connection.handle.traffic),
    find=_connections,
    labels=lambda connection: {"connection": connection.name},
)

# -- channels


@dataclass(frozen=True, slots=True)
class WatchedChannel:
    """A channel, and its name."""

    snapshot: ChannelSnapshot
    name: str


def _channels(broker: WatchedBroker, vhosts: Vhosts) -> Iterator[WatchedChannel]:
    for connection in _connections(broker, vhosts):
        for channel in broker.connections.channels(connection.handle):
            yield WatchedChannel(channel, f"{connection.name} ({channel.number})")


CHANNELS: ObjectKind[WatchedChannel] = ObjectKind(
    groups={
        "channel_metrics": (
            Metric(
                "rabbitmq_channel_consumers",
                "Consumers of channels",
                lambda channel: channel.snapshot.consumers,
            ),
            Metric(
                "rabbitmq_channel_messages_unacked",
                "Messages that channels have and did not acknowledge",
                lambda channel: channel.snapshot.unacknowledged,
            ),
            Metric(
                "rabbitmq_channel_messages_unconfirmed",
                "Messages that wait for their confirm",
                lambda channel: channel.snapshot.unconfirmed,
            ),
            Metric(
                "rabbitmq_consumer_prefetch",
                "Limit of unacknowledged messages of each consumer",
                lambda channel: channel.snapshot.prefetch,
            ),
            Metric(
                "rabbitmq_channel_prefetch",
                "Limit of unacknowledged messages of all consumers of a channel",
                lambda channel: channel.snapshot.channel_prefetch,
            ),
        ),
    },
    groups_of_each=within(OF_CHANNELS, lambda channel: channel.snapshot.counters),
    find=_channels,
    labels=lambda channel: {"channel": channel.name},
)

OF_QUEUES_AND_GROUPS: tuple[ObjectKind[Any], ...] = (QUEUES, GROUPS)
OF_CLIENTS: tuple[ObjectKind[Any], ...] = (EXCHANGES, CONNECTIONS, CHANNELS)
