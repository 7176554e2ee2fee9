"""A broker's node in its cluster: its store follows another node's, until it is to lead."""

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from socket import gaierror
from typing import Any

import msgspec

from routelog.log_backend import (
    ArrivingCopy,
    Clock,
    Disk,
    FollowedDefinitions,
    JournalDamaged,
    LogStore,
    OwnLogs,
    PartitionRecords,
    ShardBlock,
    replace_file,
)
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.coordination.managed_etcd import EtcdMissing
from routelog.mirror_cluster.coordination.refused_record import serving
from routelog.mirror_cluster.links.given_link import TakeConnection
from routelog.mirror_cluster.links.node_door import DoorSockets
from routelog.mirror_cluster.links.node_links import LinkSecurity, TakeNode
from routelog.mirror_cluster.links.node_report import NodeReport, give_report
from routelog.mirror_cluster.node.cluster_node import (
    LEASE_MARGIN,
    SILENT,
    ClusterNode,
    NodeSettings,
)
from routelog.mirror_cluster.node.cluster_options import ClusterOptions, open_coordinator
from routelog.mirror_cluster.node.copy_receiver import CopyReceiver
from routelog.mirror_cluster.node.copy_sender import CopySender
from routelog.mirror_cluster.node.digest_sender import DigestSender
from routelog.mirror_cluster.node.first_record import FirstRecord
from routelog.mirror_cluster.node.followed_store import FollowedStore
from routelog.mirror_cluster.node.incarnation import read_incarnation, renew_incarnation
from routelog.mirror_cluster.node.journal_storage import JournalStorage, KeptPromise
from routelog.mirror_cluster.node.leader_hook import LeaderHook
from routelog.mirror_cluster.node.leadership_history import LeadershipHistory
from routelog.mirror_cluster.node.lease_keeper import DiskProbe
from routelog.mirror_cluster.node.operator_commands import OperatorCommands
from routelog.mirror_cluster.node.own_etcd import (
    JOIN_PAUSE_SECONDS,
    JOIN_TRIES_MAX,
    OwnEtcd,
)
from routelog.mirror_cluster.node.replica_state import ReplicaState
from routelog.mirror_cluster.protocol.promise import NOTHING
from routelog.mirror_cluster.protocol.shard_record import SHARD, Member, ShardRecord
from routelog.mirror_cluster.replica.events import Drain, TellCommitted
from routelog.mirror_cluster.replica.settings import ReplicaSettings

log = logging.getLogger(__name__)

SURE_LEASES = 2.0  # a process that has a lease for so long is alive
DRAIN_LEASES_MAX = 2.5  # for another node to lead; without one, this node stops all the same


class CannotJoin(Exception):
    """This node cannot take part in its cluster; the text says why, for the operator."""


@dataclass(frozen=True, slots=True)
class LeadingNode:
    """The node that leads, and the number of its process."""

    node: str
    process: int


class ClusterMember:
    """Joins a broker's node to its cluster.

    It owns the node's replica, and tells a node that does not lead who does.

    Attributes:
        on_serve: set by the owner; called with the epoch in which this node leads from now on.
        on_stop_serving: the same; called with the reason, in words, when it takes no clients for a while or for
            good.
        ended: resolves with the reason why the process has to end and start again.
        on_gone: the same; told of a node whose process has ended.
        on_left: the same; called when this node is to have no copy any more.
        certificates: that of this node; None: connections between nodes have no TLS.
        listens: for the others, host and port.

    Args:
        digest_program: see `DigestSender`.
        sockets: see `NodeLinks`.
    """

    def __init__(
        self,
        options: ClusterOptions,
        data: Path,
        disk: Disk,
        clock: Clock,
        digest_program: Sequence[str],
        sockets: DoorSockets,
    ) -> None:
        self.on_serve: Callable[[int], None] = lambda epoch: None
        self.on_stop_serving: Callable[[str], None] = lambda reason: None
        self.on_gone: Callable[[str], None] = lambda node: None
        self.on_left: Callable[[], None] = lambda: None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.certificates = options.tls
        self.listens = options.listen
        self._options = options
        self._data = data
        self._disk = disk
        self._clock = clock
        self._digest_program = digest_program
        self._sockets = sockets
        self._drained = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        self._leader: LeadingNode | None = None
        self._had_copy = True
        self._etcd: OwnEtcd | None = None
        self._history = LeadershipHistory()
        self._hook = LeaderHook(options.on_leader, options.node)

    async def start(
        self, logs: LogStore, records: PartitionRecords, definitions: FollowedDefinitions
    ) -> bool:
        """Follow, with a store that is open and has recovered nothing.

        Args:
            records: of the store's metadata.
            definitions: not loaded; kept up with what is committed.

        Returns:
            False: nothing was begun, the process starts again first, as `ended` says.

        Raises:
            CannotJoin: there is no etcd to start, the others cannot reach this node, or its journal is damaged
                and no other node that has everything is alive.
            MetadataCorrupt, UnknownEntry, OSError: the data cannot be used.
        """
        incarnation = read_incarnation(self._data, self._disk)
        if self._options.is_managed:
            self._etcd = OwnEtcd(self._options, self._data, self._disk)
            try:
                await self._etcd.start()
            except (EtcdMissing, CoordinatorRefused, CoordinatorUnavailable, gaierror) as error:
                raise CannotJoin(f"cluster_etcd: {error}") from None
        self._node = self._open(incarnation)
        connect = self._node.links.connect_copy
        receiver = CopyReceiver(
            connect,
            self._data,
            self._disk,
            self._clock,
            logs.space.reserve.size,
            lambda: (
                OwnLogs.of(self._data, self._disk, logs.partitions) if logs.is_damaged else None
            ),
        )
        store = FollowedStore(
            logs, self._data, self._disk, incarnation, receiver, self._keep_aside, self._failed
        )
        self._storage = store.storage
        self._copies = CopySender(logs.copies, self._is_in_sync, self._has_begun)
        # Also before this node serves: for that it may need who waits for a copy.
        self._node.links.take_copier = self._copies.take
        self._digests = DigestSender(
            logs.copies, logs.journal, self._digest_program, self._has_copy, self._replicas
        )
        self._node.links.take_verifier = self._digests.take
        self._node.links.take_asker = self._report
        try:
            await store.open(records, definitions)
        except JournalDamaged as error:
            await self._begin_anew(error)
            return False
        try:
            await self._node.start([store.storage])
        except OSError as error:
            raise CannotJoin(f"cluster_listen: {error}") from None
        logs.on_damage_changed = lambda: self._node.damage_changed(logs.is_damaged)
        logs.on_damage_changed()
        return True

    async def _begin_anew(self, damage: JournalDamaged) -> None:
        """Give up what is here, where another node has all of it: the next start takes a copy of that."""
        if not await self._others_have_all():
            raise CannotJoin(
                f"{damage}. No other node that has everything is alive and whole: "
                "with one, this node takes a copy"
            )
        log.error("%s: all is given up here, as other nodes have it", damage)
        self._give_up_data()
        await self._node.coordinator.aclose()
        self.end("what is here was damaged: a copy of another node's data is to take its place")

    def _repair(self) -> None:
        """The operator's command: something here is damaged, and the leader has all of it."""
        replica = self._node.replicas[SHARD].replica
        view = self._node.view
        leader = serving(view.records.get(SHARD), view.notes(SHARD))
        is_refused = bool(replica.refusal and leader)
        if not (is_refused or replica.is_dispensable) or replica.leader is not None:
            log.warning("what is here stays: this node leads or copies, or no other has everything")
            return
        replica.has_ended = True  # nothing more is acknowledged or claimed with what goes
        try:
            self._give_up_data()
            if is_refused:
                KeptPromise(self._data, self._disk).write(NOTHING)
        except OSError as error:
            return self._failed(error)
        self.end("the operator gives up what is here: a copy of the leader's data takes its place")

    def _give_up_data(self) -> None:
        """The next start begins as a node without data, and takes a copy."""
        empty = ArrivingCopy(self._data, self._disk)
        empty.complete_empty()
        # Before the data go: without them, this member must not be taken for in sync. Behind what may fail:
        # another incarnation tells who asked that the data were given up.
        renew_incarnation(self._data, self._disk)
        empty.keep()

    async def _others_have_all(self) -> bool:
        """Whether another node has all that is committed, and lives: its name in the record does not say so.

        One with a quarantined partition does not: what is here, in sync or not, may be all there is of that.
        """
        own, before = self._options.node, frozenset[int]()
        for tries_left in reversed(range(JOIN_TRIES_MAX)):
            alive = frozenset[int]()
            try:
                view = await self._node.coordinator.read()
            except (CoordinatorRefused, CoordinatorUnavailable) as error:
                if tries_left == 0:
                    raise CannotJoin(f"the journal is damaged, and {error}") from None
            else:
                record = view.records.get(SHARD)
                refusal = KeptPromise(self._data, self._disk).read().refusal(record)
                if refusal is not None:
                    raise CannotJoin(f"the journal is damaged, and {refusal}")
                if record is None or record.in_sync <= {own}:
                    return False
                alive = frozenset(
                    entry.process
                    for name, entry in view.nodes.items()
                    if name != own
                    and Member(name, entry.incarnation) in record.members
                    and not entry.is_damaged
                )
                if alive & before:
                    return True
            # A process that died with this one, or with etcd, has its lease for a while.
            sure_seconds = SURE_LEASES * self._options.lease_seconds
            await asyncio.sleep(sure_seconds if alive else JOIN_PAUSE_SECONDS)
            before = alive
        return False

    def _open(self, incarnation: int) -> ClusterNode:
        options = self._options
        settings = NodeSettings(
            options.name,
            options.node,
            incarnation,
            options.addresses[options.node],
            *options.listen,
            LinkSecurity(options.secret, options.tls),
            options.lease_seconds,
            ReplicaSettings.of_lease(options.lease_seconds, options.min_in_sync),
        )
        probe = DiskProbe(self._data, self._disk)
        node = ClusterNode(
            settings, self._clock, open_coordinator(options), probe.sync, self, self._sockets
        )
        node.on_view = self._on_view
        node.on_gone = lambda name: self.on_gone(name)
        self._first_record = FirstRecord(node, SHARD, list(options.addresses))
        self._commands = OperatorCommands(node, SHARD, self._first_record.begin, self._repair)
        return node

    async def drain(self) -> None:
        """Have another node lead, as this one is about to stop; returns when it does, or none can."""
        if len(self._node.view.nodes) > 1:
            self._node.handle(SHARD, Drain())
            seconds = DRAIN_LEASES_MAX * self._options.lease_seconds
            try:
                async with asyncio.timeout(seconds):
                    await self._drained.wait()
            except TimeoutError:
                log.warning("no other node has taken the lead in %g s", seconds)

    async def aclose(self) -> None:
        """End: the lease is given up."""
        await self._copies.aclose()
        await self._digests.aclose()
        await self._node.aclose()
        await self._hook.aclose()

    async def part(self, *, starts_again: bool) -> None:
        """Leave a managed etcd to the program that takes the place of this one, or end it."""
        if self._etcd is None:
            return
        if starts_again:  # a vote less would be one failure more
            await self._etcd.keep()
        else:
            await self._etcd.stop()

    # -- definitions, as a node routes by them

    def tell_committed(self) -> None:
        """Tell followers at once what is committed; they hear of it within a heartbeat in any case."""
        self._node.handle(SHARD, TellCommitted())

    @property
    def storage(self) -> JournalStorage:
        """The journal of this node, which says what is applied here."""
        return self._storage

    # -- for clients: who leads

    @property
    def leader(self) -> LeadingNode | None:
        """The other node that takes clients; None: nobody is known to lead, or this node does."""
        return self._leader

    @property
    def trouble(self) -> str:
        """Why nobody takes clients, in words; for when that is so."""
        if self._node.trouble:
            is_lost = self._etcd is not None and self._node.trouble == SILENT
            without = "; without a majority of its members nobody leads" if is_lost else ""
            return f"etcd {self._node.trouble}{without}"
        record, alive = self._record, self._node.view.nodes
        refusal = self._node.replicas[SHARD].replica.refusal
        if refusal is not None:
            return str(refusal)
        if record is None:
            return "the cluster has not begun"
        if self._leader is not None and record.leader in alive:
            return f"{record.leader} is to lead, and cannot be reached"
        running = sum(name in alive for name in record.replicas)
        return f"nobody leads just now, and {running} of {len(record.replicas)} nodes are alive"

    @property
    def refusal(self) -> str:
        """What a client is told that this node cannot serve, in words."""
        leader = self._leader
        if not self._has_copy():
            return (
                "this node takes no clients: it has no copy, `routelog cluster join` gives it one"
            )
        if leader is not None and leader.node in self._node.links.connected:
            return f"this node takes no clients: it lacks what {leader.node} has"
        return f"no node takes clients: {self.trouble}"

    def _report(self, who: str, transport: asyncio.Transport, unread: bytes) -> None:
        """Tell an operator what this node knows."""
        node = self._node
        record, replica = node.view.records.get(SHARD), node.replicas[SHARD].replica
        passes = self._leader is not None and self._leader.node in node.links.connected
        report = NodeReport(
            node.name,
            replica.serving,
            "" if replica.serving or passes else self.trouble,
            self._leader.node if self._leader is not None and passes else "",
            sorted(node.links.connected),
            replica.log.chain.end_position,
            b"" if record is None else record.encode(),
            0 if record is None else record.revision,
        )
        give_report(report, transport, unread)

    @property
    def name(self) -> str:
        """Of this node."""
        return self._options.node

    @property
    def leads_until(self) -> float:
        """When another node may lead, by the clock, unless this one, which leads, hears of others."""
        leader = self._node.replicas[SHARD].replica.leader
        alone = -inf if leader is None else leader.alone_since
        return max(self._node.lease_until, alone + self.sure_seconds)

    @property
    def sure_seconds(self) -> float:
        """How long nobody else serves, behind the last word of nodes enough."""
        return (1 - LEASE_MARGIN) * self._options.lease_seconds

    def other_nodes(self) -> Set[str]:
        """The other nodes, but those whose process is known to have ended."""
        record = self._record
        names = self._options.addresses if record is None else record.replicas
        return {*names} - {self._options.node} - self._node.replicas[SHARD].replica.gone

    def _alive(self) -> Set[str]:
        """Who is known to run: as long as the coordinator is silent, who is connected."""
        node = self._node
        return {self._options.node} | (
            node.links.connected if node.trouble else node.view.nodes.keys()
        )

    def replicas(self) -> list[ReplicaState]:
        """All nodes that are to have copies; how far each is behind is known while this one leads."""
        view, alive = self._node.view, self._alive()
        record = self._record
        in_sync = record.in_sync if record is not None else frozenset[str]()
        leader = self._node.replicas[SHARD].replica.leader
        behind = leader.blocks_behind() if leader is not None else {}
        return [
            ReplicaState(
                name,
                name in alive,
                name in in_sync,
                behind.get(name),
                name in view.nodes and view.nodes[name].is_damaged,
            )
            for name in (record.replicas if record is not None else self._options.addresses)
        ]

    def leadership(self) -> dict[str, Any]:
        """Who leads, in which epoch and since when (us since 1970); and what changed, newest first."""
        record = self._record
        return {
            "leader": record.leader if record is not None else None,
            "epoch": record.epoch if record is not None else None,
            "since": record.changed_at if record is not None else None,
            "unclean_epoch": (record.unclean or None) if record is not None else None,
            "history": [asdict(each) for each in reversed(self._history.changes)],
        }

    @property
    def _record(self) -> ShardRecord | None:
        """The newest that was taken: what etcd has since may be refused."""
        return self._node.replicas[SHARD].replica.record

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the leader has changed."""
        self._watchers.append(changed)

    async def connect(self, node: str, process: int, take: TakeConnection) -> None:
        """Connect with a leader for one client of HTTP.

        Raises:
            OSError: it cannot be reached, or is another process.
        """
        await self._node.links.connect_client(node, process, take)

    async def connect_session(self, leader: LeadingNode, take: TakeConnection) -> None:
        """Connect with a leader for a session; see `connect`.

        Raises:
            OSError: also while this node has no copy or has not caught up: changes of definitions would wait
                for it.
        """
        if not self._node.replicas[SHARD].replica.has_caught_up:
            raise ConnectionError("this node has not caught up")
        await self._node.links.connect_front(leader.node, leader.process, take)

    def take_sessions(self, take: TakeNode | None) -> None:
        """Take the sessions of fronts, with the name of the node first; None: close them."""
        self._node.links.take_front = take

    def take_clients(self, take: TakeConnection | None) -> None:
        """Take the clients of HTTP that other nodes pass on; None: close them."""
        self._node.links.take_client = take

    def _replicas(self) -> Sequence[str]:
        record = self._node.view.records.get(SHARD)
        return record.replicas if record is not None else ()

    def _has_copy(self) -> bool:
        record = self._record
        return record is None or self._options.node in record.replicas

    def _has_begun(self) -> bool:
        leader = self._node.replicas[SHARD].replica.leader
        return leader is not None and leader.has_begun

    def _is_in_sync(self, node: str) -> bool:
        record, entry = self._record, self._node.view.nodes.get(node)
        if record is None or entry is None:
            return False
        return Member(node, entry.incarnation) in record.members  # one that was wiped is another

    def _on_view(self, view: ClusterView) -> None:
        self._first_record.on_view(view)
        self._commands.on_view(view)
        record = self._record
        if self._etcd is not None:
            self._etcd.on_view(record, view.nodes.keys())
        self._history.on_view(record, view.nodes)
        leader = None
        if record is not None and record.claim and record.leader != self._options.node:
            leader = LeadingNode(record.leader, record.claim)
        if leader != self._leader:
            self._leader = leader
            if leader is not None:
                self._hook.leads(leader.node)
            for changed in self._watchers:
                changed()
        had_copy, self._had_copy = self._had_copy, self._has_copy()
        if had_copy and not self._had_copy:
            self.on_left()

    # -- see `ShardOwner`

    def serve(self, shard: int, epoch: int) -> None:
        """This node leads, and everything that was committed before is applied: take publishes."""
        log.info("this node leads, in epoch %d", epoch)
        self._hook.leads(self._options.node)
        self.on_serve(epoch)

    def stop_serving(self, shard: int, reason: str) -> None:
        """Take no more publishes; another node leads soon, or this one serves again."""
        log.warning("this node takes no clients: %s", reason)
        self.on_stop_serving(reason)

    def drained(self, shard: int) -> None:
        """Nothing of this shard depends on this node any more."""
        if not self._drained.is_set():
            log.info("nothing depends on this node: it can be stopped")
        self._drained.set()

    def end(self, reason: str) -> None:
        """End the process, at once; started again, it follows."""
        self._drained.set()
        if not self.ended.done():
            self.ended.set_result(reason)

    # -- the journal

    def _keep_aside(self, blocks: Sequence[ShardBlock]) -> None:
        if not blocks:
            return
        folder = self._data / "aside"
        self._disk.make_directory(folder)
        path = folder / f"blocks-{blocks[0].epoch}-{blocks[0].position}"
        content = b"".join(
            msgspec.json.encode((each.epoch, each.position, len(each.payload)))
            + b"\n"
            + each.payload
            for each in blocks
        )
        replace_file(self._disk, path, path.with_suffix(".new"), content)
        log.warning("%d blocks that another leader does not have are kept in %s", len(blocks), path)

    def _failed(self, error: BaseException) -> None:
        self.end(f"the disk failed: {error}")
