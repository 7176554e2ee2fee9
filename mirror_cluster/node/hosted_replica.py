"""One replica in a node: it is given what happens, and what it decides is carried out."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

from routelog.log_backend import Clock
from routelog.mirror_cluster.coordination.coordinator import (
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.node.copy_receiver import (
    COPY_PAUSE_SECONDS_MAX,
    CopyDamaged,
    CopyError,
)
from routelog.mirror_cluster.node.journal_storage import CopyWaits, JournalStorage, Notice
from routelog.mirror_cluster.node.shipping import RecentBlocks, Shipping
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.protocol.shard_record import Member
from routelog.mirror_cluster.replica.actions import (
    AbortCopy,
    Action,
    BeginEpoch,
    Commit,
    CopyCheckpoint,
    Drained,
    Exit,
    Propose,
    ReadRecord,
    SavePromise,
    Send,
    Serve,
    Ship,
    StopServing,
    Store,
    Truncate,
)
from routelog.mirror_cluster.replica.events import Appended, Copied, CopyFailed, Event, Proposed
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity

log = logging.getLogger(__name__)

RECENT_BYTES_MAX = 32 * 1024 * 1024  # a quarter of a second of 1 Gbit/s: a follower's hiccup
# Before a coordinator that did not answer, or a leader that gave no copy, is asked again; twice as long before
# each further copy.
PROBLEM_PAUSE_SECONDS = 0.3


class ShardOwner(Protocol):
    """Who acts on what replicas decide. Each is called on the event loop."""

    def serve(self, shard: int, epoch: int) -> None:
        """This node leads, and everything that was committed before is applied: take publishes."""
        ...

    def stop_serving(self, shard: int, reason: str) -> None:
        """Take no more publishes; another node leads soon, or this one serves again.

        Args:
            reason: in words, for clients.
        """
        ...

    def drained(self, shard: int) -> None:
        """Nothing of this shard depends on this node any more."""
        ...

    def end(self, reason: str) -> None:
        """End the process, at once; started again, it follows."""
        ...


class Surroundings(Protocol):
    """What a replica uses of its node."""

    clock: Clock
    coordinator: EtcdCoordinator
    owner: ShardOwner

    def send(self, to: str, message: Message) -> None:
        """Send a message to a node; it may be lost."""

    def read_soon(self) -> None:
        """Read the coordinator without waiting for the next time."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the node."""


class HostedReplica:
    """Gives a replica events, and carries out its actions.

    Args:
        process: number of this process.
    """

    def __init__(
        self,
        node: str,
        process: int,
        settings: ReplicaSettings,
        storage: JournalStorage,
        surroundings: Surroundings,
    ) -> None:
        self._around = surroundings
        self._storage = storage
        self._recent = RecentBlocks(RECENT_BYTES_MAX)
        found = storage.start(self._noticed)
        self.shard = found.shard
        self.member = Member(node, found.incarnation)
        identity = Identity(self.shard, self.member, process)
        self.replica = Replica(
            identity, settings, found.chain, found.promise, found.applied, found.alone
        )
        self._shipping = Shipping(
            self.shard, self._recent, storage, surroundings.send, surroundings.spawn
        )
        self._copying: asyncio.Task[None] | None = None
        self._copy_pause_seconds = PROBLEM_PAUSE_SECONDS
        self._events: deque[Event] = deque()
        self._is_busy = False
        self._doers: Mapping[type[Action], Callable[[Any], None]] = {
            Send: lambda action: surroundings.send(action.to, action.message),
            Ship: self._shipping.ship,
            Store: self._store,
            BeginEpoch: lambda action: storage.begin_epoch(action.epoch),
            Truncate: self._truncate,
            SavePromise: lambda action: storage.save_promise(action.promise),
            CopyCheckpoint: self._copy,
            AbortCopy: self._abort_copy,
            Commit: lambda action: storage.commit(action.position),
            Propose: self._propose,
            ReadRecord: lambda action: surroundings.read_soon(),
            Serve: lambda action: surroundings.owner.serve(self.shard, action.epoch),
            StopServing: lambda action: surroundings.owner.stop_serving(self.shard, action.reason),
            Drained: lambda action: surroundings.owner.drained(self.shard),
            Exit: lambda action: surroundings.owner.end(action.reason),
        }

    def handle(self, event: Event) -> None:
        """Give the replica an event; one that comes while another is carried out waits for its end."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                now = self._around.clock.monotonic()
                for action in self.replica.handle(self._events.popleft(), now):
                    self._doers[type(action)](action)
        except Exception as error:  # a fault of ours: this replica knows no more what it has done
            log.exception("an error of the broker in a replica of shard %d", self.shard)
            self._events.clear()
            self.replica.has_ended = True
            self._around.owner.end(f"an error in a replica of shard {self.shard}: {error!r}")
        finally:
            self._is_busy = False

    def _noticed(self, notice: Notice) -> None:
        if isinstance(notice, Appended):
            self._recent.add(notice.block)
        self.handle(notice)

    def _store(self, action: Store) -> None:
        for block in action.blocks:
            self._recent.add(block)
        self._storage.store(action.blocks)

    def _truncate(self, action: Truncate) -> None:
        self._recent.truncate(action.position)
        self._storage.truncate(action.position, action.keep)

    def _propose(self, action: Propose) -> None:
        self._around.spawn(self._ask_coordinator(action))

    async def _ask_coordinator(self, action: Propose) -> None:
        accepted, record, reason = None, action.record, action.reason
        changed = replace(record, changed_at=self._around.clock.now())
        try:
            accepted = await self._around.coordinator.propose(changed, action.seen)
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            log.warning("shard %d: %s; nobody took that: %s", self.shard, reason, error)
            await asyncio.sleep(PROBLEM_PAUSE_SECONDS)
        if accepted is not None:
            log.info("shard %d: %s", self.shard, reason)
        self.handle(Proposed(record.revision, accepted))

    def _copy(self, action: CopyCheckpoint) -> None:
        self._copying = self._around.spawn(self._copy_from(action))

    async def _copy_from(self, action: CopyCheckpoint) -> None:
        leader = action.leader
        log.info("shard %d: a copy of %s's checkpoint begins", self.shard, leader)
        try:
            checkpoint = await self._storage.copy(leader, heals=action.heals)
        except CopyError as error:
            log.warning("shard %d: no copy of %s's checkpoint: %s", self.shard, leader, error)
            pause = self._copy_pause_seconds
            self._copy_pause_seconds = min(2 * pause, COPY_PAUSE_SECONDS_MAX)
            await asyncio.sleep(pause)
            self.handle(CopyFailed(isinstance(error, CopyDamaged)))
            return
        except CopyWaits as ending:
            self.replica.has_ended = True  # nothing more is stored or promised
            self._around.owner.end(str(ending))
            return
        self._recent.clear()
        self.handle(Copied(checkpoint))

    def _abort_copy(self, action: AbortCopy) -> None:
        self._copy_pause_seconds = PROBLEM_PAUSE_SECONDS  # somebody else leads, perhaps
        if self._copying is not None:
            self._copying.cancel()
