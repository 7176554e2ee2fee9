"""One node of a cluster: its replicas, its connections with the others, its lease, and its clock.

It gives the replicas what happens and carries out what they decide. Nothing here decides who leads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from routelog.log_backend import Clock
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
    NodeEntry,
    ReplicaNote,
)
from routelog.mirror_cluster.coordination.etcd_coordinator import EtcdCoordinator
from routelog.mirror_cluster.coordination.refused_record import refused, refusing, serving
from routelog.mirror_cluster.links.node_door import DoorSockets
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks
from routelog.mirror_cluster.node.hosted_replica import HostedReplica, ShardOwner
from routelog.mirror_cluster.node.incarnation import new_number
from routelog.mirror_cluster.node.journal_storage import JournalStorage
from routelog.mirror_cluster.node.lease_keeper import LeaseKeeper
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.events import (
    Damaged,
    Event,
    LeaseHeld,
    LeaseLost,
    NodeGone,
    NodesAlive,
    Received,
    RecordSeen,
    Tick,
)
from routelog.mirror_cluster.replica.lease import Lease
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.settings import ReplicaSettings

log = logging.getLogger(__name__)

SILENT = "does not answer"  # see `trouble`
TICK_SECONDS = 0.1
# Between two reads of the coordinator: a change of leader is noticed so late at most.
READ_SECONDS = 0.3
LEASE_MARGIN = 0.15  # of a lease: it is given up so much earlier than the coordinator does


@dataclass(frozen=True)
class NodeSettings:
    """What a node is told.

    Attributes:
        cluster: its name: nodes of two clusters refuse each other.
        incarnation: of its data directory.
        address: where the other nodes reach this one, `host:port`.
        host, port: where it listens.
        lease_seconds: of the coordinator's lease; the same on all nodes.
    """

    cluster: str
    node: str
    incarnation: int
    address: str
    host: str
    port: int
    security: LinkSecurity
    lease_seconds: float = 2.0
    replica: ReplicaSettings = field(default_factory=ReplicaSettings)


def replica_note(replica: Replica, now: float) -> ReplicaNote:
    """What a node tells of its replica that takes no part."""
    end = replica.log.chain.end
    return ReplicaNote(
        replica.known,
        replica.refusal or "",
        replica.serving,
        replica.is_alone(now),
        replica.is_in_sync,
        (end.epoch, end.position),
    )


class ClusterNode:
    """Runs the replicas of one node.

    Attributes:
        view: what the coordinator held when it was read last.
        trouble: what the coordinator did at the last read, which failed; empty: that did not.
        on_view: set by the owner; called with each one.
        on_gone: the same; told of a node whose process has ended.
        links: with the other nodes.

    Args:
        coordinator: closed with the node.
        probe: see `LeaseKeeper`.
        sockets: see `NodeLinks`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        coordinator: EtcdCoordinator,
        probe: Callable[[], Awaitable[None]],
        owner: ShardOwner,
        sockets: DoorSockets,
    ) -> None:
        self.name = settings.node
        self.clock = clock
        self.coordinator = coordinator
        self.owner = owner
        self.process = new_number()
        self.view = ClusterView(0)
        self.replicas: dict[int, HostedReplica] = {}
        self.on_view: Callable[[ClusterView], None] = lambda view: None
        self.on_gone: Callable[[str], None] = lambda node: None
        self._settings = settings
        self._probe = probe
        self._entry = entry = NodeEntry(
            settings.node,
            self.process,
            settings.address,
            settings.incarnation,
            since=clock.now(),
        )
        self.links = NodeLinks(
            settings.cluster,
            entry,
            settings.security,
            self._received,
            self._gone,
            sockets,
            lease_seconds=settings.lease_seconds,
        )
        self._known: dict[str, NodeEntry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_wanted = asyncio.Event()
        self.trouble = ""
        self._refused = ""  # what was told of it

    async def start(self, storages: Sequence[JournalStorage]) -> None:
        """Run the replicas of these shards."""
        for storage in storages:
            settings = self._settings
            hosted = HostedReplica(settings.node, self.process, settings.replica, storage, self)
            self.replicas[hosted.shard] = hosted
        self._lease = LeaseKeeper(
            Lease(self._settings.lease_seconds, LEASE_MARGIN * self._settings.lease_seconds),
            self.clock,
            self.coordinator,
            self._entry_now,
            self._probe,
            self._lease_changed,
            self.spawn,
        )
        await self.links.listen(self._settings.host, self._settings.port)
        self.spawn(self._keep_ticking())
        self.spawn(self._keep_reading())

    def _entry_now(self) -> NodeEntry:
        return replace(self._entry, notes={shard: self._note(shard) for shard in self.replicas})

    def _note(self, shard: int) -> ReplicaNote:
        replica = self.replicas[shard].replica
        note = replica_note(replica, self.clock.monotonic())
        if replica.refusal is None and (replica.serving or replica.is_streaming):
            return replace(note, end=(0, 0))  # it changes with each block
        return note

    async def aclose(self) -> None:
        """End everything; the lease is given up, so that nobody waits for it to run out."""
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.links.aclose()
        try:
            await self.coordinator.leave()
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            log.info("the lease runs out by itself: %s", error)
        await self.coordinator.aclose()

    async def begin_shard(self, shard: int, replicas: Sequence[str], revision: int = 0) -> bool:
        """Make the record of a shard: this node, whose data are the shard's, leads, and others copy them.

        Args:
            replicas: unless there is a record of this cluster, which names them.
            revision: of the record in whose place it is to be, which nodes refuse; 0: there is none.

        Returns:
            Whether it was made; False: another one is there, or one that is followed.
        """
        hosted, before = self.replicas[shard], self.view.records.get(shard)
        if revision != (before.revision if before is not None else 0):
            return False
        known = hosted.replica.known
        notes = {
            **self.view.notes(shard),
            self.name: replica_note(hosted.replica, self.clock.monotonic()),
        }
        if before is not None and (serving(before, notes) or not refusing(notes)):
            return False
        if before is not None and before.cluster == known.cluster:
            replicas = (*before.replicas, *{hosted.member.node}.difference(before.replicas))
        # Of all: a node that knows a newer one would not follow.
        epochs = [max(note.promise.epoch, note.end[0]) for note in notes.values()]
        record = ShardRecord.beginning(
            shard,
            known.cluster or new_number(),
            hosted.member,
            tuple(replicas),
            max([before.epoch if before is not None else 0, *epochs]),
        )
        changed = replace(record, changed_at=self.clock.now())
        made = await self.coordinator.propose(changed, before)
        self.read_soon()
        return made is not None

    def damage_changed(self, is_damaged: bool) -> None:
        """Whether this node cannot read all that it has; the other nodes hear of it, too."""
        if is_damaged != self._entry.is_damaged:
            self._entry = replace(self._entry, is_damaged=is_damaged)
            self._tell_all(Damaged(is_damaged))

    def handle(self, shard: int, event: Event) -> None:
        """Give the replica of a shard an event, such as a command."""
        self.replicas[shard].handle(event)

    # -- see `Surroundings`

    def send(self, to: str, message: Message) -> None:
        """Send a message to a node; it may be lost."""
        self.links.send(to, message)

    def read_soon(self) -> None:
        """Read the coordinator without waiting for the next time."""
        self._read_wanted.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the node."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("an error of the broker in the cluster's node", exc_info=error)
            self.owner.end(f"an error in the cluster's node: {error!r}")

    @property
    def lease_until(self) -> float:
        """When the lease is given up, unless it is renewed before."""
        return self._lease.until

    # -- what happens

    def _tell_all(self, event: Event) -> None:
        for hosted in self.replicas.values():
            hosted.handle(event)

    async def _keep_ticking(self) -> None:
        while True:
            self._lease.tick()
            self._tell_all(Tick())
            await asyncio.sleep(TICK_SECONDS)

    def _lease_changed(self, is_held: bool) -> None:
        self._tell_all(LeaseHeld() if is_held else LeaseLost())

    def _received(self, sender: str, message: Message) -> None:
        hosted = self.replicas.get(message.shard)
        if hosted is not None:
            hosted.handle(Received(sender, message))

    def _gone(self, node: str) -> None:
        self._tell_all(NodeGone(node))
        self.on_gone(node)
        self.read_soon()

    async def _keep_reading(self) -> None:
        while True:
            self._read_wanted.clear()
            known = {shard: hosted.replica.known for shard, hosted in self.replicas.items()}
            try:
                self._viewed(await self.coordinator.read(), known)
            except CoordinatorUnavailable as error:
                self._tell(logging.WARNING, SILENT, error)
            except CoordinatorRefused as error:
                self._tell(logging.ERROR, "gives an answer of no use", error)
            try:
                # Python 3.11's `wait_for` may lose the cancellation that ends this task.
                async with asyncio.timeout(READ_SECONDS):
                    await self._read_wanted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(READ_SECONDS / 10)  # whoever wants it often gets it no more often

    def _viewed(self, view: ClusterView, known: Mapping[int, Promise]) -> None:
        if self.trouble:
            self.trouble = ""
            log.info("the coordinator answers again")
        before, self.view = self.view, view
        # Who has lost its lease may still answer, and a leader without a coordinator counts on that.
        taken = [hosted.replica.record for hosted in self.replicas.values()]
        records = [record for record in (*view.records.values(), *taken) if record is not None]
        names = {*view.nodes}.union(*(record.replicas for record in records))
        entries = {**self._known, **view.nodes}
        self._known = {name: entry for name, entry in entries.items() if name in names}
        self.links.set_nodes(self._known)
        for shard, record in view.records.items():
            if record != before.records.get(shard):
                log.info("%s", record.told())
        processes = {name: entry.process for name, entry in view.nodes.items()}
        damaged = frozenset(name for name, entry in view.nodes.items() if entry.is_damaged)
        disks = {name: entry.incarnation for name, entry in view.nodes.items()}
        for shard, hosted in self.replicas.items():
            is_fresh = hosted.replica.known == known[shard]
            hosted.handle(RecordSeen(view.records.get(shard), is_fresh))
            promises = [note.promise for note in view.notes(shard).values()]
            hosted.handle(NodesAlive(processes, damaged, disks, promises))
            self._tell_refusal(shard, view)
        self._lease.listed(view.nodes.get(self.name))
        self.on_view(view)

    def _tell_refusal(self, shard: int, view: ClusterView) -> None:
        if self.replicas[shard].replica.refusal is None:
            self._refused = ""
        elif (told := refused(shard, view)) and told != self._refused:
            self._refused = told
            log.error("shard %d: %s", shard, told)

    def _tell(self, level: int, trouble: str, error: Exception) -> None:
        if trouble != self.trouble:  # once: it is read several times a second
            self.trouble = trouble
            log.log(level, "the coordinator %s: %s", trouble, error)
