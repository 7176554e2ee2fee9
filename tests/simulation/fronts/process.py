"""The process of a simulated node: the real broker with its front, on real logs; no sockets, no threads."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from argon2 import PasswordHasher
from simulation.broker import Broker as LoopBroker
from simulation.broker import Files
from simulation.fronts.wire import Wire

from routelog.amqp_front.server.front import AmqpFront
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process import broker as process_broker
from routelog.broker.process import node_sessions, node_store, process_share
from routelog.broker.process.broker import BrokerAddress
from routelog.broker.process.mirrored_broker import MirroredBroker
from routelog.log_backend import FollowedDefinitions, LogStore, PartitionRecords
from routelog.mirror_cluster import LeadingNode
from routelog.mirror_cluster.node.copy_receiver import CopyReceiver
from routelog.mirror_cluster.node.followed_store import FollowedStore
from routelog.mirror_cluster.node.journal_storage import JournalStorage
from routelog.mirror_cluster.replica import events as on
from routelog.vhosts.people import password
from routelog.vhosts.queues import queue_declaration
from routelog.vhosts.sessions import (
    front_session,
    hosted_consumer,
    hosted_session,
    remote_consumer,
)

if TYPE_CHECKING:
    from simulation.fronts.node import FrontsNode

CONFIRM_SECONDS = 3.0
# So small that histories meet them
OUTBOX_BYTES = WINDOW_BYTES = 24 * 1024
LIMITS = (
    (hosted_session, "OUTBOX_BYTES_MAX", OUTBOX_BYTES),
    (front_session, "OUTBOX_BYTES_MAX", OUTBOX_BYTES),
    (front_session, "WINDOW_BYTES", WINDOW_BYTES),
    (hosted_consumer, "WINDOW_BYTES", 8 * 1024),
    (remote_consumer, "CREDIT_BYTES", 4 * 1024),
)
CONNECT_SECONDS = 1.0


class Member:
    """The node in its cluster, as its broker sees it: see `ClusterMember`."""

    certificates = None
    trouble = "nobody leads"
    storage: JournalStorage

    def __init__(self, node: "FrontsNode", data: Path, files: Files) -> None:
        self.name = node.name
        self.take_front: Callable[[str, asyncio.Transport, bytes], None] | None = None
        self.leader: LeadingNode | None = None
        self._node = node
        self._data = data
        self._files = files
        self._watchers: list[Callable[[], None]] = []
        self.on_gone: Callable[[str], None] = lambda node: None

    async def start(
        self, logs: LogStore, records: PartitionRecords, definitions: FollowedDefinitions
    ) -> bool:
        """See `ClusterMember`."""
        receiver = cast(CopyReceiver, None)
        store = FollowedStore(
            logs, self._data, self._files, 0, receiver, lambda blocks: None, self._failed
        )
        await store.open(records, definitions)
        self.storage = store.storage
        return True

    def _failed(self, error: BaseException) -> None:
        raise error

    def watch(self, changed: Callable[[], None]) -> None:
        """See `ClusterMember`."""
        self._watchers.append(changed)

    def known_leader(self) -> LeadingNode | None:
        """As the replica knows it."""
        replica = self._node.replica
        record = None if replica is None else replica.record
        if record is None or not record.claim or record.leader == self.name:
            return None
        return LeadingNode(record.leader, record.claim)

    def look(self) -> None:
        """The leader may have changed."""
        leader = self.known_leader()
        if leader != self.leader:
            self.leader = leader
            for changed in self._watchers:
                changed()

    sure_seconds = 1.7

    @property
    def leads_until(self) -> float:
        """See `ClusterMember`."""
        replica = self._node.replica
        leader = None if replica is None else replica.leader
        alone = -inf if leader is None else leader.alone_since
        return max(self._node.lease.until, alone + self.sure_seconds)

    def other_nodes(self) -> Set[str]:
        """See `ClusterMember`."""
        replica = self._node.replica
        assert replica is not None
        return {*self._node.cluster.nodes} - {self.name} - replica.gone

    def take_clients(self, take: object) -> None:
        """See `ClusterMember`."""

    def take_sessions(self, take: Callable[[str, asyncio.Transport, bytes], None] | None) -> None:
        """See `ClusterMember`."""
        self.take_front = take

    def tell_committed(self) -> None:
        """See `ClusterMember`."""
        self._node.soon(self._node.handle, on.TellCommitted())

    def end(self, reason: str) -> None:
        """See `ClusterMember`."""
        raise AssertionError(reason)

    async def connect_session(
        self, leader: LeadingNode, take: Callable[[asyncio.Transport, bytes], None]
    ) -> None:
        """See `ClusterMember`."""
        wire = await self._node.reach(leader)
        take(wire.near, b"")


class Process(MirroredBroker):
    """The real broker; it listens nowhere, and its doors are the simulation's."""

    def __init__(self, config: BrokerConfig, clock: Any, member: Member) -> None:
        front = AmqpFront(config, member.name, clock)
        super().__init__(config, front, cast(Any, member))
        self._clock = clock
        self.listeners = cast(Any, _Listeners())

    async def _listen(self) -> BrokerAddress:
        return BrokerAddress("", 0, self._config.data_dir)

    def take(self, wire: Wire) -> None:
        """Take a client."""
        connection: Any = self._front.serve(cast(Any, _Accepted()), None, "")
        wire.far.set_protocol(connection)
        connection.connection_made(wire.far)

    @property
    def leads(self) -> bool:
        """Whether sessions of fronts are taken."""
        return self._leading is not None and not self._is_suspended

    def parts(self) -> Mapping[str, Any]:
        """What checks look at."""
        return {
            "front": self.sessions.front_node,
            "sessions": self.sessions.hosted,
            "gate": self.store.gate,
            "vhosts": self.store.vhosts,
            "connections": cast(Any, self._front)._connections,
        }


class _Accepted:
    def authenticated(self) -> None:
        pass

    def closed(self) -> None:
        pass


class _Http:
    serve = None


class _Listeners:
    http = _Http()


class _InOrder(set[Any]):
    # Of objects, whose hashes differ from one history to the same one again.
    def __init__(self) -> None:
        self._order: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        super().add(item)
        self._order[item] = None

    def discard(self, item: Any) -> None:
        super().discard(item)
        self._order.pop(item, None)

    def remove(self, item: Any) -> None:
        super().remove(item)
        del self._order[item]

    def clear(self) -> None:
        super().clear()
        self._order.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter([*self._order])


class _CheapHasher:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        self.verify = self._hasher.verify

    def hash(self, octets: bytes) -> str:
        return self._hasher.hash(octets, salt=bytes(16))


class _NoHandler(logging.NullHandler):
    def __init__(self, *arguments: object) -> None:
        super().__init__()


class NodeProcess(LoopBroker):
    """One process of a node."""

    process: Process

    def __init__(self, node: "FrontsNode", data: Path) -> None:
        self._node = node
        self._leads = False
        self.epoch = 0
        data.mkdir(exist_ok=True)
        super().__init__(data, lambda: node.cluster.scheduler.now)

    async def _open(self) -> None:
        config = BrokerConfig(
            data_dir=self.data,
            management=False,
            prometheus=False,
            heartbeat_seconds=0,
            cluster_nodes=("a=127.0.0.1:1",),
            cluster_confirm_seconds=CONFIRM_SECONDS,
            loopback_users=(),
        )
        self.member = Member(self._node, self.data, self._files)
        self.process = Process(config, self._clock, self.member)
        with patch.object(node_store, "open_logs", self._open_logs):
            await self.process.follow()
        self.logs = self.process.store.logs
        self.storage = self.member.storage
        self.storage.start(self._noticed)
        self.member.look()

    def _open_logs(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> LogStore:
        logs = self.open_logs()
        for name in ("with_state", "_with_unflushed", "_changed"):
            setattr(logs.checkpoints, name, _InOrder())
        return logs

    def lead(self, epoch: int) -> None:
        """See `_run_mirrored`: it leads, or goes on to."""
        if self._leads:
            self.loop.call_soon(self.process.go_on)
        else:
            self._leads, self.epoch = True, epoch
            self.begin(self.process.lead(epoch))

    def kill(self) -> None:
        """The process ends, and its files stay as they are."""
        logging.getLogger().removeHandler(self.process.recent_log)
        super().kill()


@contextmanager
def simulated_processes(randomness: Random) -> Iterator[None]:
    """What a process has of the outside is the seed's, or costs less than in earnest."""
    with ExitStack() as stack:
        change = patch.object
        stack.enter_context(change(password, "_HASHER", _CheapHasher()))
        for owner, name, made in (
            (process_broker, "SystemClock", lambda: None),
            (process_broker, "LogExchange", _NoHandler),
            (process_broker, "RecentLog", _NoHandler),
            (process_broker, "keep_private", lambda: 0),
            (node_store, "narrow", lambda path: None),
            (node_store, "warn_of_default_passwords", _nothing),
            (node_sessions, "random_below", lambda end: randomness.randrange(end)),
            (node_store, "random_key", lambda: randomness.randbytes(32)),
        ):
            stack.enter_context(change(owner, name, made))
        stack.enter_context(change(process_share, "memory_limit", lambda: 1 << 32))
        number = count(1)
        stack.enter_context(change(queue_declaration, "random_name", lambda: f"{next(number)}"))
        for owner, name, size in LIMITS:
            stack.enter_context(change(owner, name, size))
        yield


async def _nothing(*arguments: object) -> None:
    pass


__all__ = ["Member", "NodeProcess", "Process", "simulated_processes"]
