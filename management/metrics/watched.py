"""What metrics are read from: a node in any state."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from routelog.broker import ProcessState
from routelog.log_backend import Clock, DiskSpace, Journal, LogCompactor
from routelog.management.calls.broker_side import WatchedBroker
from routelog.mirror_cluster import ClusterState
from routelog.vhosts import NodeAnswer


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
        ask_nodes: asks the other processes of the node; see `all_clients_text`.
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
    ask_nodes: Callable[[bytes], Awaitable[Mapping[str, NodeAnswer | None]]]
    processes: Callable[[], Sequence[ProcessState]] = list
