"""What metrics are read from: a node in any state, and what clients have made on one that takes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from routelog.broker import ProcessState, PublishRates
from routelog.log_backend import Clock, DiskSpace, Histogram, Journal, LogCompactor
from routelog.management.calls.broker_side import Connections
from routelog.mirror_cluster import ClusterState
from routelog.vhosts import VhostDirectory


@dataclass(frozen=True, slots=True)
class WatchedBroker:
    """A broker that takes clients; the leader alone has queues.

    Attributes:
        confirm_latencies: see `Progress`.
        delivery_waits, message_sizes: see `DeliverySamples`.
        publish_rates: those that are limited.
    """

    vhosts: VhostDirectory
    connections: Connections
    confirm_latencies: Histogram
    delivery_waits: Histogram
    message_sizes: Histogram
    publish_rates: PublishRates


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A node, whether it takes clients or not.

    Attributes:
        started_at: seconds of the monotonic clock.
        sockets, sockets_max: of clients of AMQP.
        alarms: why publishers wait.
        held_seconds: how long the event loop was held at most, in the last minute.
        expiries: of certificates, by protocol and file.
        broker: None: it takes no clients.
        processes: of the node; empty: this one is all.
    """

    name: str
    version: str
    cluster_name: Callable[[], str]
    clock: Clock
    started_at: float
    file_descriptors_max: int
    sockets: Callable[[], int]
    sockets_max: int
    space: DiskSpace
    journal: Journal
    compactor: LogCompactor
    alarms: Callable[[], Sequence[str]]
    held_seconds: Callable[[], float]
    cluster: ClusterState
    expiries: Callable[[], Mapping[str, Mapping[Path, datetime]]]
    broker: Callable[[], WatchedBroker | None]
    processes: Callable[[], Sequence[ProcessState]] = list
