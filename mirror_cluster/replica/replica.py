"""One replica of a shard: it follows, claims the leadership, leads, and ends."""

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import Any

from routelog.mirror_cluster.protocol.promise import Promise, Refusal
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
    TellCommitted,
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

    Attributes:
        promise: the newest one that was written down.

    Args:
        chain: the journal as recovery found it, and synced.
        applied: the journal is applied up to here: a view stored with its position says so.
        alone: see `ShardLog`.

    Every method returns what is to be done, in order. Time is a monotonic clock in seconds.
    """

    def __init__(
        self,
        identity: Identity,
        settings: ReplicaSettings,
        chain: Chain,
        promise: Promise,
        applied: int,
        alone: int = 0,
    ) -> None:
        self.promise = promise
        self.has_ended = False
        self.leader: Leader | None = None
        self.log = ShardLog(chain, applied, alone)
        self._identity = identity
        self._settings = settings
        self._follower = Follower(identity, self.log, settings)
        self._record: ShardRecord | None = None
        self._refusal: Refusal | None = None
        self._others_promised: Collection[Promise] = ()
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
        self._promising = promise  # that is being written down
        self._draining = False
        self._handlers: Mapping[type[Event], Callable[[Any, float], list[Action]]] = {
            Received: self._received,
            Tick: self._tick,
            Appended: self._appended,
            Durable: self._durable,
            TellCommitted: self._tell_committed,
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

    def is_alone(self, now: float) -> bool:
        """Whether it serves, and no other node has: one that was cut off has its lease again first."""
        return self.leader is not None and self.serving and self.leader.is_alone(now)

    @property
    def is_streaming(self) -> bool:
        """Whether it follows, with a session open."""
        return self._follower.state is FollowerState.STREAMING

    @property
    def has_caught_up(self) -> bool:
        """Whether it follows, and has applied all that its leader has called committed."""
        return self._follower.has_caught_up

    @property
    def record(self) -> ShardRecord | None:
        """The newest one that was taken: what the coordinator has since may be refused."""
        return self._record

    @property
    def is_in_sync(self) -> bool:
        """Whether the newest record that was taken, perhaps before this start, has this disk in sync."""
        return self.known.incarnation == self._identity.member.incarnation

    @property
    def refusal(self) -> Refusal | None:
        """Why this takes no part in what the coordinator has; None: it does."""
        if self._refusal is None and self._follower.has_refused:
            return Refusal.LACKING
        return self._refusal

    @property
    def known(self) -> Promise:
        """The promise of the newest record that was taken; it may not be on the disk yet."""
        return self.promise if self._record is None else self._promise_of(self._record)

    def _promise_of(self, record: ShardRecord) -> Promise:
        return Promise.of(record, self._identity.member.node)

    @property
    def is_dispensable(self) -> bool:
        """Whether nothing is lost without what is here: another node leads, and this one is not in sync."""
        record, node = self._record, self._identity.member.node
        if record is None or record.leader in ("", node) or node in record.in_sync:
            return False  # of a set, each member would find the others
        if self.refusal is not None:
            return False  # the others may go on by another record
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

    def _tell_committed(self, event: TellCommitted, now: float) -> list[Action]:
        return self.leader.tell_committed(now) if self.leader is not None else []

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
        """A leader that is whole gives a copy of its data; one that is not hands over to a member that is.

        Where no member is whole, a copy of the leader's data becomes whole by what can be read here.
        """
        if self.leader is not None:
            self.leader.is_damaged, self.leader.damaged = self._is_damaged, self._damaged
        elif self._record is not None:
            leader, members = self._record.leader, self._record.in_sync
            helps = leader not in self._damaged or members <= self._unable(self._record)
            self._follower.heals = self._is_damaged and helps and leader != self._unfit

    # Of the coordinator

    def _record_seen(self, event: RecordSeen, now: float) -> list[Action]:
        record = event.record
        if self._is_refused(record, event.is_fresh) or record is None or record == self._record:
            return []
        before, self._record = self._record, record
        if self.leader is not None:
            # What deposes it does so at once; it counts by what it will remember.
            return self.leader.deposed_by(record) or self._make_promise(record, now)
        self._heal()
        told = self._drained_actions()
        if record.leader and not self._is_replica(record):
            # It has left, and may join again in this process: then it takes part.
            self._draining = self._follower.draining = False
            told += self._follower.stop()
        if before is not None and before.epoch == record.epoch:
            return told + self._make_promise(record, now)
        self._candidate_since = None
        return told + self._follower.stop() + self._make_promise(record, now)

    def _is_refused(self, record: ShardRecord | None, is_fresh: bool) -> bool:
        """Whether a record must not be taken, as this node has known a newer one, or another cluster."""
        refusal = self.known.refusal(record)
        if refusal is None or is_fresh:
            self._refusal = refusal
            if self.leader is not None:
                self.leader.may_propose = refusal is None
        return refusal is not None

    def _make_promise(self, record: ShardRecord, now: float) -> list[Action]:
        promise = self._promise_of(record)
        if promise == self.promise:
            return self._take_role(now)
        if promise == self._promising:
            return []
        self._promising = promise
        return [SavePromise(promise)]

    def _promised(self, event: Promised, now: float) -> list[Action]:
        if not event.promise.is_newer_than(self.promise):
            return []  # one notice may overtake another
        self.promise = event.promise
        return self._take_role(now)

    def _take_role(self, now: float) -> list[Action]:
        """Lead, count or follow, as the record says; it is promised, and that is durable."""
        record, node = self._record, self._identity.member.node
        if record is None or Promise.of(record) != self.promise:
            return []
        if self.leader is not None:
            return self.leader.adopt(record, now)
        if record.leader != node:
            is_new = self._follower.state is FollowerState.IDLE
            return self._follower.follow(record, now) if is_new and self._is_replica(record) else []
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
        # Under the same rule as all news: it may have been read before, and later ones.
        seen = RecordSeen(accepted, is_fresh=False)
        actions = self._record_seen(seen, now) if accepted is not None else []
        if event.revision == self._claim_revision:
            self._claim_revision = None
            return actions if accepted is not None else [ReadRecord()]
        if self.leader is None:
            return actions
        return actions + self.leader.answered(event.revision, accepted is not None)

    def _nodes_alive(self, event: NodesAlive, now: float) -> list[Action]:
        self._alive = event.processes
        self._others_promised = event.promises
        self._gone &= set(event.processes.values())
        # Of those that do not run, what was known last.
        self._damaged = (self._damaged - event.processes.keys()) | event.damaged
        self._incarnations = {**self._incarnations, **event.incarnations}
        self._heal()
        return self._claim_when_due(now)

    @property
    def gone(self) -> Set[str]:
        """Nodes that have a lease, and whose process has ended all the same."""
        alive = self._alive or {}
        return {node for node, process in alive.items() if process in self._gone}

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
        if place is None or not self._can_claim(record, running):
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
        return [Propose(wanted, record, claim_reason(record, wanted))]

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

    def _can_claim(self, record: ShardRecord, running: Mapping[str, int]) -> bool:
        if self._draining and record.in_sync != {self._identity.member.node}:
            return False
        if self._refusal is not None or self._is_outdated(record):
            return False
        if len(running.keys() & set(record.replicas)) < self._settings.min_in_sync:
            return False  # it could not serve; and who has more, and is to be heard, may be among the others
        if self._has_claimed(record):  # and its promise is on the way
            return False
        return self._follower.state is not FollowerState.COPYING

    def _is_outdated(self, record: ShardRecord) -> bool:
        """Whether another node has promised what is not in this record: who has not may lack what it has."""
        newest = Promise.of(record)
        others = (each for each in self._others_promised if each.cluster == record.cluster)
        return any(each.is_newer_than(newest) for each in others)

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
        return self._follower.drain() + self._drained_actions()

    def _drained_actions(self) -> list[Action]:
        record, node = self._record, self._identity.member.node
        is_needed = record is None or record.leader == node or node in record.in_sync
        return [] if is_needed or not self._draining else [Drained()]

    def _recover(self, event: RecoverWithLoss, now: float) -> list[Action]:
        record = self._record
        if record is None or self.leader is not None or self._claim_revision is not None:
            return []
        if record.revision != event.revision or self._refusal is not None:
            return []
        self._claim_revision = record.revision
        newest = self._with_newest_epoch(record)
        recovered = newest.recovered_by(self._identity.member, self._identity.process)
        reason = "this node leads with what it has: the operator accepts a loss"
        return [Propose(recovered, record, reason)]
