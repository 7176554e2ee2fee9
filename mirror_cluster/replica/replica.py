"""One replica of a shard: it follows, claims the leadership, leads, and ends."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.actions import (
    Action,
    Commit,
    Drained,
    Exit,
    Propose,
    ReadRecord,
    SavePromise,
)
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.election import claim_reason, claimed, rank
from routelog.mirror_cluster.replica.events import (
    Appended,
    Copied,
    CopyFailed,
    Damaged,
    Drain,
    Durable,
    Event,
    LeaseHeld,
    LeaseLost,
    NodeGone,
    NodesAlive,
    Promised,
    Proposed,
    Received,
    RecordSeen,
    RecoverWithLoss,
    Recycled,
    Tick,
    Transfer,
    Truncated,
)
from routelog.mirror_cluster.replica.follower import Follower, FollowerState
from routelog.mirror_cluster.replica.leader import Leader
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity, ShardLog


class Replica:
    """The state machine of a replica.

    Args:
        chain: the journal as recovery found it, and synced.
        promise: the newest epoch that was written down.
        applied: the journal is applied up to here: a view stored with its position says so.

    Every method returns what is to be done, in order. Time is a monotonic clock in seconds.
    """

    def __init__(
        self,
        identity: Identity,
        settings: ReplicaSettings,
        chain: Chain,
        promise: int,
        applied: int,
    ) -> None:
        self.promise = promise
        self.has_ended = False
        self.leader: Leader | None = None
        self.log = ShardLog(chain, applied)
        self._identity = identity
        self._settings = settings
        self._follower = Follower(identity, self.log, settings)
        self._record: ShardRecord | None = None
        self._alive: Mapping[str, int] | None = None
        self._is_damaged = False
        self._damaged: frozenset[str] = frozenset()  # other nodes
        self._incarnations: Mapping[str, int] = {}
        self._unfit = ""  # the leader whose copy was damaged
        self._gone: set[int] = set()  # processes that ended although they have a lease
        self._lease_lost = True  # it is not held yet: who claims must be alive to the others
        self._claim_revision: int | None = None  # of a claim that waits for its answer
        self._candidate_since: float | None = None
        self._asked_at = 0.0
        self._promising = 0  # the epoch that is being written down
        self._draining = False
        self._handlers: Mapping[type[Event], Callable[[Any, float], list[Action]]] = {
            Received: self._received,
            Tick: self._tick,
            Appended: self._appended,
            Durable: self._durable,
            Truncated: self._truncated,
            Promised: self._promised,
            Recycled: self._recycled,
            Copied: self._copied,
            CopyFailed: self._copy_failed,
            Damaged: self._damage_changed,
            RecordSeen: self._record_seen,
            Proposed: self._proposed,
            NodesAlive: self._nodes_alive,
            NodeGone: self._node_gone,
            LeaseLost: self._lease,
            LeaseHeld: self._lease,
            Transfer: self._transfer,
            Drain: self._drain,
            RecoverWithLoss: self._recover,
        }

    @property
    def serving(self) -> bool:
        """Whether it leads and takes publishes."""
        return self.leader is not None and self.leader.serving and not self.has_ended

    @property
    def is_streaming(self) -> bool:
        """Whether it follows, with a session open."""
        return self._follower.state is FollowerState.STREAMING

    @property
    def is_dispensable(self) -> bool:
        """Whether nothing is lost without what is here: another node leads with all of it."""
        record, node = self._record, self._identity.member.node
        if record is None or record.leader in ("", node) or not record.in_sync - {node}:
            return False
        # A claim under way may be accepted, and a copy that arrives is not to be met on its way.
        is_busy = self.leader is not None or self._claim_revision is not None or self.has_ended
        return not is_busy and self._follower.state is not FollowerState.COPYING

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take an event; after `Exit` nothing more comes of any."""
        if self.has_ended:
            return []
        return self._until_exit(self._handlers[type(event)](event, now))

    def _until_exit(self, actions: list[Action]) -> list[Action]:
        for index, action in enumerate(actions):
            if isinstance(action, Exit):
                self.has_ended = True
                return actions[: index + 1]
        return actions

    # Of the journal

    def _received(self, event: Received, now: float) -> list[Action]:
        if event.message.shard != self._identity.shard:
            return []
        if self.leader is not None:
            return self.leader.received(event.sender, event.message, now)
        return self._follower.received(event.sender, event.message, now)

    def _appended(self, event: Appended, now: float) -> list[Action]:
        return self.leader.appended(event.block, now) if self.leader is not None else []

    def _durable(self, event: Durable, now: float) -> list[Action]:
        if not self.log.synced(event.mark):
            return []
        return self.leader.synced(now) if self.leader is not None else self._follower.synced()

    def _truncated(self, event: Truncated, now: float) -> list[Action]:
        return self._follower.truncated()

    def _recycled(self, event: Recycled, now: float) -> list[Action]:
        self.log.chain.rebase(min(event.position, self.log.committed))
        return []

    def _copied(self, event: Copied, now: float) -> list[Action]:
        self.log.replace(event.checkpoint)
        self._is_damaged = self._follower.heals = False
        return [Commit(event.checkpoint.position), *self._follower.copied(now)]

    def _copy_failed(self, event: CopyFailed, now: float) -> list[Action]:
        if event.is_damaged and self._record is not None:
            self._unfit = self._record.leader
            self._heal()
        return self._follower.copy_failed(event.is_damaged, now)

    def _damage_changed(self, event: Damaged, now: float) -> list[Action]:
        self._is_damaged = event.is_damaged
        self._heal()
        return []

    def _heal(self) -> None:
        """A leader that is whole gives a copy of its data; one that is not hands over to a member that is."""
        if self.leader is not None:
            self.leader.is_damaged, self.leader.damaged = self._is_damaged, self._damaged
        elif self._record is not None:
            helps = self._record.leader not in (*self._damaged, self._unfit)
            self._follower.heals = self._is_damaged and helps

    # Of the coordinator

    def _record_seen(self, event: RecordSeen, now: float) -> list[Action]:
        record = event.record
        if self._is_old(record):
            return []
        before, self._record = self._record, record
        if self.leader is not None:
            return self.leader.adopt(record, now)
        self._heal()
        told = self._said_when_drained()
        if record.leader and not self._is_replica(record):
            # It has left, and may join again in this process: then it takes part.
            self._draining = self._follower.draining = False
            told += self._follower.stop()
        if before is not None and before.epoch == record.epoch:
            is_new = self._follower.state is FollowerState.IDLE  # to the replicas
            return told + (self._take_role(now) if is_new else [])
        self._candidate_since = None
        actions = told + self._follower.stop()
        if record.epoch == self.promise:
            return actions + self._take_role(now)
        return actions + self._make_promise(record.epoch)

    def _is_old(self, record: ShardRecord) -> bool:
        if record.epoch < self.promise:
            return True  # the coordinator had a newer epoch when that was promised, perhaps before a restart
        return self._record is not None and record.revision <= self._record.revision

    def _make_promise(self, epoch: int) -> list[Action]:
        if epoch <= self._promising:
            return []
        self._promising = epoch
        return [SavePromise(epoch)]

    def _promised(self, event: Promised, now: float) -> list[Action]:
        self.promise = max(self.promise, event.epoch)
        return self._take_role(now)

    def _take_role(self, now: float) -> list[Action]:
        """Lead or follow, as the record says; its epoch is promised, and that is durable."""
        record, node = self._record, self._identity.member.node
        if record is None or record.epoch != self.promise or self.leader is not None:
            return []
        if record.leader != node:
            return self._follower.follow(record, now) if self._is_replica(record) else []
        if not self._has_claimed(record):
            return self._claim_when_due(now)
        self.leader = Leader(self._identity, self.log, self._settings, record, now)
        self.leader.lease_lost = self._lease_lost
        self._heal()
        return self.leader.begin()

    def _has_claimed(self, record: ShardRecord) -> bool:
        # Not only this node: a process that was started again has nothing of what the one before it knew.
        return record.claim == self._identity.process

    def _is_replica(self, record: ShardRecord) -> bool:
        return bool(record.leader) and self._identity.member.node in record.replicas

    def _proposed(self, event: Proposed, now: float) -> list[Action]:
        accepted = event.accepted
        # Under the same rule as all news: the watch may have told of it before, and of later ones.
        actions = self._record_seen(RecordSeen(accepted), now) if accepted is not None else []
        if event.revision == self._claim_revision:
            self._claim_revision = None
            return actions if accepted is not None else [ReadRecord()]
        if self.leader is None:
            return actions
        return actions + self.leader.answered(event.revision, accepted is not None, now)

    def _nodes_alive(self, event: NodesAlive, now: float) -> list[Action]:
        self._alive = event.processes
        self._gone &= set(event.processes.values())
        # Of those that do not run, what was known last.
        self._damaged = (self._damaged - event.processes.keys()) | event.damaged
        self._incarnations = {**self._incarnations, **event.incarnations}
        self._heal()
        return self._claim_when_due(now)

    def _node_gone(self, event: NodeGone, now: float) -> list[Action]:
        if self.leader is not None:
            return self.leader.gone(event.node, now)
        if self._alive is not None and event.node in self._alive:
            self._gone.add(self._alive[event.node])
        return self._claim_when_due(now)

    def _lease(self, event: LeaseLost | LeaseHeld, now: float) -> list[Action]:
        self._lease_lost = isinstance(event, LeaseLost)
        if self.leader is None:
            return self._claim_when_due(now)
        self.leader.lease_lost = self._lease_lost
        return self.leader.tick(now)

    # Elections

    def _claim_when_due(self, now: float) -> list[Action]:
        record, alive = self._record, self._alive
        if self.leader is not None or self._claim_revision is not None or self._lease_lost:
            return []
        if record is None or alive is None:
            return []
        member = self._identity.member
        running = {node: process for node, process in alive.items() if process not in self._gone}
        running[member.node] = self._identity.process
        place = rank(record, member, running, self._unable(record))
        if place is None or not self._can_claim(record):
            self._candidate_since = None
            return []
        if self._candidate_since is None:
            self._candidate_since = now
        if now - self._candidate_since < place * self._settings.election_step_seconds:
            return []
        self._claim_revision = record.revision
        size_min = self._settings.min_in_sync
        newest = self._with_newest_epoch(record)
        wanted = claimed(newest, member, self._identity.process, running, size_min)
        return [Propose(wanted, claim_reason(record, wanted))]

    def _unable(self, record: ShardRecord) -> frozenset[str]:
        """Members that are damaged, or have another disk than the one that is in sync."""
        found = {
            node
            for node in record.in_sync & self._incarnations.keys()
            if self._incarnations[node] != record.incarnations[node]
        }
        node = self._identity.member.node
        return (self._damaged - {node}).union(found, {node} if self._is_damaged else ())

    def _with_newest_epoch(self, record: ShardRecord) -> ShardRecord:
        # Blocks that this node made while it ran on its own have epochs that the cluster knows nothing of.
        # Those of an epoch below theirs would be no part of the journal.
        return replace(record, epoch=max(record.epoch, self.log.chain.end.epoch))

    def _can_claim(self, record: ShardRecord) -> bool:
        if self._draining and record.in_sync != {self._identity.member.node}:
            return False
        if self._has_claimed(record):  # and its promise is on the way
            return False
        return self._follower.state is not FollowerState.COPYING

    # Time and commands

    def _tick(self, event: Tick, now: float) -> list[Action]:
        actions: list[Action] = []
        # A watch can be silent without an error, so the record is read now and then in any case.
        settings = self._settings
        pace = settings.retry_seconds if self._is_in_doubt() else settings.lag_seconds
        if now - self._asked_at >= pace:
            self._asked_at = now
            actions.append(ReadRecord())
        if self.leader is not None:
            return actions + self.leader.tick(now)
        return actions + self._follower.tick(now) + self._claim_when_due(now)

    def _is_in_doubt(self) -> bool:
        return self.leader is None and not self.is_streaming

    def _transfer(self, event: Transfer, now: float) -> list[Action]:
        return self.leader.transfer(event.to, now) if self.leader is not None else []

    def _drain(self, event: Drain, now: float) -> list[Action]:
        self._draining = True
        if self.leader is not None:
            return self.leader.transfer("", now)
        return self._follower.drain() + self._said_when_drained()

    def _said_when_drained(self) -> list[Action]:
        record, node = self._record, self._identity.member.node
        is_needed = record is None or record.leader == node or node in record.in_sync
        return [] if is_needed or not self._draining else [Drained()]

    def _recover(self, event: RecoverWithLoss, now: float) -> list[Action]:
        record = self._record
        if record is None or self.leader is not None or self._claim_revision is not None:
            return []
        if record.revision != event.revision:
            return []
        self._claim_revision = record.revision
        newest = self._with_newest_epoch(record)
        recovered = newest.recovered_by(self._identity.member, self._identity.process)
        return [Propose(recovered, "this node leads with what it has: the operator accepts a loss")]
