"""The broker as the management sees it: what it reads, and the few things it asks for."""

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from routelog.log_backend import Clock, DiskSpace, StoredLogs
from routelog.vhosts import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    GlobalParameters,
    PasswordVerifier,
    Queue,
    TakenMessage,
    UserDirectory,
    VhostDirectory,
    VirtualHost,
)


class ConnectionHandle(Protocol):
    """An open connection; `consumers` counts those of all its channels."""

    user: str
    vhost: VirtualHost
    consumers: int

    @property
    def channels(self) -> Sized:
        """Its channels, to be counted."""


class Connections(Protocol):
    """The open connections. Handles are given back here to ask more."""

    @property
    def count(self) -> int:
        """How many there are."""

    def connections(self) -> list[Any]:
        """Handles of all of them."""

    def name(self, connection: Any, /) -> str:
        """What a connection is called."""

    def describe(self, connection: Any, /) -> ConnectionSnapshot:
        """What there is to say of a connection."""

    def channels(self, connection: Any, /) -> Iterable[ChannelSnapshot]:
        """The channels of a connection."""

    def consumers(self, connection: Any, /) -> Iterable[ConsumerSnapshot]:
        """The consumers of a connection."""

    def close(self, connection: Any, reason: str, /) -> None:
        """Close a connection."""


class Messages(Protocol):
    """Single messages, for debugging. What it refuses is in `refusals`, or of the lower packages."""

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
        """Publish a message, wait for its confirm, and tell whether a queue has it.

        Args:
            user: whose permissions count; None: all is allowed.
        """

    async def take(self, queue: Queue, count: int, *, requeue: bool) -> Iterable[TakenMessage]:
        """Take messages, and put them back if that is wanted."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is true of the node as long as it runs.

    Attributes:
        started_at: seconds of the monotonic clock.
        connections_max: how many connections of AMQP there may be.
        listeners: by protocol, address and port.
    """

    name: str
    version: str
    process_id: int
    data_dir: str
    started_at: float
    file_descriptors_max: int
    connections_max: int
    listeners: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class BrokerSide:
    """Everything that the management is given.

    Attributes:
        loopback_users: those who may come from this machine only.
        expiries: when certificates expire, by protocol and file.
        alarms: why publishers wait now; empty when they do not.
        log_failure: why the log takes no more writes until a restart; empty while it does.
        space: what is free on the disk, and where publishers begin to wait.
        intake_bytes: of the budget for what is not accepted yet, how much is used, and of how much.
        trace: switches the firehose of a vhost on or off.
        logs: what is stored of them.
        reader_hold_bytes_max: the most that a log keeps for a reader beyond its retention.
        log_token_key: signs the tokens of those who read logs.
    """

    vhosts: VhostDirectory
    users: UserDirectory
    passwords: PasswordVerifier
    parameters: GlobalParameters
    connections: Connections
    messages: Messages
    node: NodeFacts
    clock: Clock
    loopback_users: tuple[str, ...]
    expiries: Callable[[], Mapping[str, Mapping[Path, datetime]]]
    alarms: Callable[[], list[str]]
    log_failure: Callable[[], str]
    space: DiskSpace
    intake_bytes: Callable[[], tuple[int, int]]
    trace: Callable[[VirtualHost, bool], None]
    logs: StoredLogs
    reader_hold_bytes_max: int
    log_token_key: bytes
