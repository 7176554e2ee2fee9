"""The broker as the HTTP API sees it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self

from routelog.broker import ProcessState, PublishRates
from routelog.log_backend import Backups, Clock, DiskSpace, Histogram, Reason, StoredLogs
from routelog.management.calls.request_origin import HostNames
from routelog.mirror_cluster import ClusterState
from routelog.vhosts import (
    BatchOutcome,
    BrowsedMessage,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    GlobalParameters,
    LoopbackRule,
    MessageSearch,
    MoveOrder,
    MoveReport,
    NodeAnswer,
    PasswordVerifier,
    Queue,
    ReturnReason,
    TakenMessage,
    UserDirectory,
    VhostDirectory,
    VirtualHost,
)


class Connections(Protocol):
    """The open connections, by handles."""

    @property
    def count(self) -> int:
        """The number of connections."""

    def connections(self) -> list[Any]:
        """Handles of all connections."""

    def name(self, connection: Any, /) -> str:
        """The name of a connection."""

    def describe(self, connection: Any, /) -> ConnectionSnapshot:
        """A snapshot of a connection."""

    def channels(self, connection: Any, /) -> Iterable[ChannelSnapshot]:
        """The channels of a connection."""

    def consumers(self, connection: Any, /) -> Iterable[ConsumerSnapshot]:
        """The consumers of a connection."""

    def close(self, connection: Any, reason: str, /) -> None:
        """Close a connection."""


class Batch(Protocol):
    """Messages for one exchange, under construction; errors as of `Messages`."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """Forget the messages."""

    def receive(self, size: int) -> None:
        """Charge bytes of the request to the user."""

    def add(self, routing_key: str, properties: Mapping[str, object], body: bytes) -> None:
        """Check one more message, and keep it."""

    async def publish(self) -> BatchOutcome:
        """Publish the messages and wait for their confirms."""


class Messages(Protocol):
    """Publishing and taking of single messages; errors are in `refusals`, or of lower packages."""

    refusals: tuple[type[Exception], ...]

    async def publish(
        self,
        vhost: VirtualHost,
        user: str | None,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, object],
        body: bytes,
    ) -> bool:
        """Publish a message, wait for its confirm, and return whether it was routed to a queue.

        Args:
            user: whose permissions are checked; None: none are.
        """

    def batch(self, vhost: VirtualHost, user: str | None, exchange: str) -> Batch:
        """Begin messages that are published together, all or, if one is refused by its check, none."""

    async def take(
        self, queue: Queue, count: int, outcome: Reason | ReturnReason
    ) -> Iterable[TakenMessage]:
        """Take messages, and settle or return all of them."""

    async def browse(
        self, queue: Queue, search: MessageSearch, count: int
    ) -> Sequence[BrowsedMessage]:
        """The next messages that a search finds, up to so many; nothing becomes of them."""

    async def move(
        self, vhost: VirtualHost, queue: Queue, search: MessageSearch, order: MoveOrder
    ) -> MoveReport:
        """Move, copy or delete what a search of a queue finds."""


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
class NodeFacts:
    """Facts of the node that do not change while it runs.

    Attributes:
        process_id: which process signals are sent to.
        started_at: seconds of the monotonic clock.
        connections_max: the limit of AMQP connections.
        listeners: by protocol, address and port.
        banner: what every page says on its top, such as which environment this is; empty: nothing.
    """

    name: str
    version: str
    process_id: int
    data_dir: str
    started_at: float
    file_descriptors_max: int
    connections_max: int
    listeners: Mapping[str, tuple[str, int]]
    banner: str = ""


@dataclass(frozen=True, slots=True)
class FindingLimits:
    """What is too little to be a finding.

    Attributes:
        messages: of a queue that grows, or that nobody consumes, and that a group is behind.
        age_seconds: of a message that waits for its consumer, or for its acknowledgement.
    """

    messages: int = 100
    age_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class BrokerSide:
    """Everything that the broker gives to the HTTP API.

    Attributes:
        cluster_name: what clients are told.
        loopback_rule: who may log in from this machine only.
        host_names: under which it may be reached.
        expiries: of certificates, by protocol and file.
        alarms: why publishers wait; empty when they do not.
        ask_nodes: asks other nodes about their clients; see `other_nodes`.
        in_time: what is done, or fails when too few nodes of a cluster store it in time.
        log_failure: why the log takes no more writes until a restart; empty: it takes them.
        remote_failure: why segments are not copied to remote storage, or readers wait for it; empty: neither.
        space: free space on the disk, and the limit below which publishers wait.
        intake_bytes: of the intake budget, the used bytes and the limit.
        trace: switches the firehose of a vhost on or off.
        logs: what is stored of them.
        backups: of the node.
        log_lines: the last lines of its log, oldest first; each has a `number`, which grows.
        reader_hold_bytes_max: the limit of bytes that a log keeps for a reader beyond its retention.
        log_token_key: signs the tokens for logs.
        findings: what is too little to be one.
        watched: what its clients have made, for metrics.
        processes: of the node; empty: this one is all.
    """

    vhosts: VhostDirectory
    users: UserDirectory
    passwords: PasswordVerifier
    parameters: GlobalParameters
    connections: Connections
    ask_nodes: Callable[[bytes], Awaitable[Mapping[str, NodeAnswer | None]]]
    messages: Messages
    node: NodeFacts
    cluster_name: Callable[[], str]
    cluster: ClusterState
    clock: Clock
    loopback_rule: LoopbackRule
    host_names: HostNames
    expiries: Callable[[], Mapping[str, Mapping[Path, datetime]]]
    alarms: Callable[[], list[str]]
    in_time: Callable[[Awaitable[Any]], Awaitable[Any]]
    log_failure: Callable[[], str]
    remote_failure: Callable[[], str]
    space: DiskSpace
    intake_bytes: Callable[[], tuple[int, int]]
    trace: Callable[[VirtualHost, bool], None]
    logs: StoredLogs
    backups: Backups
    log_lines: Callable[[], list[dict[str, Any]]]
    reader_hold_bytes_max: int
    log_token_key: bytes
    findings: FindingLimits
    watched: WatchedBroker
    processes: Callable[[], Sequence[ProcessState]] = list
