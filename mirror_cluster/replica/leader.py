"""The leader of one epoch: its journal makes the blocks, and it decides what is committed.

It begins with an empty block of its epoch behind everything it has; when that is committed, so is what the
leaders before it left, and it serves. It never cuts its own journal, and ends when it is deposed.
"""

from dataclasses import dataclass
from math import inf

from routelog.log_backend import Mark, ShardBlock
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    CopyFrom,
    Fenced,
    Hello,
    Leave,
    Message,
    TruncateTo,
)
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica.actions import (
    Action,
    BeginEpoch,
    Commit,
    Exit,
    Propose,
    ReadRecord,
    Send,
    Serve,
    Ship,
    StopServing,
)
from routelog.mirror_cluster.replica.in_sync_set import InSyncSet
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity, ShardLog

# Of `lag_seconds`, between two tries to hand over to a member that is whole: each one closes all clients.
HEAL_LAGS = 3
HAS_ENDED = "has ended"


@dataclass(slots=True)
class Peer:
    """What a leader knows of one follower in the session that it has open.

    Attributes:
        sent: blocks up to here were sent.
        told: what it was told to be committed.
        durable: the follower's journal is on its disk, and is the leader's, up to here; None before it
            has answered that it ends at the common point.
        stamp: the leader's time of the newest message that the follower has answered.
        leaving: why nobody may wait for it, in words; empty: it stays. HAS_ENDED lasts until it answers again.
        probe: a time, and the leader's end then: durable up to there, it had caught up at that time.
        shipped_at: when the newest message was sent.
        is_doubted: a member that lacks what is committed, if its `Hello` did not come late.
    """

    member: Member
    session: int
    sent: int
    durable: int | None = None
    stamp: float = 0.0
    leaving: str = ""
    probe: tuple[float, int] | None = None
    shipped_at: float = 0.0
    told: int = 0
    is_doubted: bool = False

    @classmethod
    def opened(cls, member: Member, session: int, common: Mark) -> "Peer":
        """A session whose journals agree up to a block."""
        return cls(member, session, common.position)

    def acknowledged(self, durable: int, stamp: float) -> float | None:
        """The follower is durable up to here, having seen the message of that time.

        Returns:
            The last time at which it is known to have caught up, if that is news.
        """
        if self.leaving == HAS_ENDED:
            self.leaving = ""
        self.is_doubted = False
        self.durable = max(durable, self.durable or 0)
        self.sent = max(self.sent, self.durable)
        self.stamp = max(self.stamp, stamp)
        if self.probe is None or self.probe[1] > self.durable or self.stamp < self.probe[0]:
            return None
        time, self.probe = self.probe[0], None
        return time


class Leader:
    """The replica that a record names, in the process that claimed it.

    Attributes:
        may_propose: the coordinator has this leader's record. Another one could have its revision by chance.
        is_damaged: a partition here is quarantined: a member that is whole is to lead.
        damaged: other nodes of which this is known; they do not lead.
    """

    def __init__(
        self,
        identity: Identity,
        log: ShardLog,
        settings: ReplicaSettings,
        record: ShardRecord,
        now: float,
    ) -> None:
        self.epoch = record.epoch
        self.serving = False
        self.lease_lost = False
        self.may_propose = True
        self.is_damaged = False
        self.damaged: frozenset[str] = frozenset()
        self._identity = identity
        self._log = log
        self._settings = settings
        self._in_sync = InSyncSet(record)
        self._peers: dict[str, Peer] = {}
        self._caught_up = dict.fromkeys(record.members, now)
        # When that was sent which each node has answered last, in whichever session.
        self._answered: dict[str, float] = {}
        self._open_revision: int | None = None  # of the proposal that waits for its answer
        self._target = ""  # of a transfer
        self._transfer_ends = 0.0
        self._heals_at = now
        self._outdated: frozenset[Member] = frozenset()  # their disks are not what they were
        self._begin = log.chain.end_position + 1

    @property
    def counted(self) -> frozenset[Member]:
        """Whose disks a block must be on to be committed."""
        return self._in_sync.counted

    def blocks_behind(self) -> dict[str, int]:
        """How many blocks are not known to be on each node's disk, of those that follow."""
        end = self._log.chain.end_position
        return {member.node: end - durable for member, durable in self._durable().items()}

    @property
    def has_begun(self) -> bool:
        """Whether a block of this epoch is committed: then it knows all that was committed before."""
        return self._log.committed >= self._begin

    def begin(self) -> list[Action]:
        """Have the block made that begins this epoch."""
        return [BeginEpoch(self.epoch)]

    def appended(self, block: ShardBlock, now: float) -> list[Action]:
        """Send the next block on."""
        if block.epoch != self.epoch or not block.follows(self._log.chain.end):
            return [Exit(f"block {block.position} of epoch {block.epoch} does not follow")]
        self._log.extend(block)
        actions: list[Action] = []
        for _, peer in sorted(self._peers.items()):
            actions += self._ship(peer, now)
        return actions

    def received(self, sender: str, message: Message, now: float) -> list[Action]:
        """Take a follower's message."""
        if message.epoch > self.epoch:
            return [Exit(f"{sender} follows epoch {message.epoch}")]
        if isinstance(message, Hello):
            return self._hello(sender, message, now)
        peer = self._peers.get(sender)
        if message.epoch < self.epoch or peer is None or message.session != peer.session:
            return []
        if isinstance(message, Acknowledge):
            return self._acknowledged(peer, message, now)
        if isinstance(message, Leave):
            peer.leaving = "is about to stop"
            return self._advance(now)
        return []

    def gone(self, node: str, now: float) -> list[Action]:
        """A node's process has ended: confirms do not wait until it counts as late."""
        peer = self._peers.get(node)
        if peer is None or peer.leaving:
            return []
        peer.leaving = HAS_ENDED
        return self._advance(now)

    def synced(self, now: float) -> list[Action]:
        """More of this journal is durable."""
        return self._advance(now)

    def tell_committed(self, now: float) -> list[Action]:
        """Tell followers at once what is committed, if they were not told; else the next message does."""
        actions: list[Action] = []
        for _, peer in sorted(self._peers.items()):
            if peer.told < self._log.committed:
                actions += self._heartbeat(peer, now)
        return actions

    def deposed_by(self, record: ShardRecord) -> list[Action]:
        """End, if the coordinator's record names another leader."""
        if (record.epoch, record.claim) == (self.epoch, self._identity.process):
            return []
        return [Exit(f"{record.leader or 'another one'} leads epoch {record.epoch}")]

    def adopt(self, record: ShardRecord, now: float) -> list[Action]:
        """The coordinator has a newer record, of this epoch; what was proposed before it has its answer."""
        self._in_sync.adopt(record)
        self._outdated &= record.members
        self._open_revision = None
        self._peers = {node: peer for node, peer in self._peers.items() if node in record.replicas}
        return self._advance(now)

    def answered(self, revision: int, is_accepted: bool) -> list[Action]:
        """The coordinator answered a proposal: its record is adopted soon; without one it still counts."""
        if revision != self._open_revision or is_accepted:
            return []
        self._open_revision = None
        return [ReadRecord()]

    def is_alone(self, now: float) -> bool:
        """Whether nodes enough have answered within a lease: no other one has served until then."""
        return now - self._settings.lease_seconds <= self.alone_since

    def transfer(self, to: str, now: float) -> list[Action]:
        """Hand the leadership over as soon as the other one has everything; give up when that takes long."""
        able = [
            node
            for node in self._in_sync.record.replicas
            if to in (node, "") and self._is_able(node)
        ]
        if not able:
            return []
        self._target = able[0]
        self._transfer_ends = now + self._settings.lag_seconds
        return self._stop_serving("another node is to lead") + self._advance(now)

    def tick(self, now: float) -> list[Action]:
        """Send heartbeats; look for members that are late, and for the end of what this leader may do."""
        actions: list[Action] = []
        if not self._may_serve(now):
            # It ends when it hears of another leader. If there has been none, it serves again.
            actions += self._stop_serving("this node has no lease, and too few nodes answer it")
        if self._target and now >= self._transfer_ends:
            self._target = ""
        if self.is_damaged and self.serving and now >= self._heals_at:
            self._heals_at = now + HEAL_LAGS * self._settings.lag_seconds
            actions += self.transfer("", now)
        for _, peer in sorted(self._peers.items()):
            if now - peer.shipped_at >= self._settings.heartbeat_seconds:
                actions += self._heartbeat(peer, now)
        return actions + self._advance(now)

    def _stop_serving(self, reason: str) -> list[Action]:
        was_serving, self.serving = self.serving, False
        return [StopServing(reason)] * was_serving

    def _may_serve(self, now: float) -> bool:
        return not self.lease_lost or self.is_alone(now)

    def _hello(self, sender: str, message: Hello, now: float) -> list[Action]:
        shard = self._identity.shard
        if message.epoch < self.epoch:
            return [Send(sender, Fenced(shard, self.epoch, message.session))]
        if sender not in self._in_sync.record.replicas:
            return []
        if any(end.epoch > self.epoch for end in message.epoch_ends):
            return [Exit(f"{sender} has blocks of a later epoch")]
        member = Member(sender, message.incarnation)
        common = self._log.chain.common_point(message.epoch_ends)
        if member in self._in_sync.record.members:
            if self._is_outdated(member, message):
                self._outdated |= {member}
            elif self._is_doubtful(sender, message, common):
                return self._doubt(member, message)
        if common is None or self._lacks_offsets(common):
            self._peers.pop(sender, None)
            self._caught_up.pop(member, None)  # confirms do not wait for it
            copy = Send(sender, CopyFrom(shard, self.epoch, message.session))
            return [copy, *self._advance(now)]
        self._peers[sender] = Peer.opened(member, message.session, common)
        return [Send(sender, TruncateTo(shard, self.epoch, message.session, common))]

    def _doubt(self, member: Member, message: Hello) -> list[Action]:
        """Ask a member for the last committed block, which it has on its disk if that is what it was.

        Who does not have it wants a copy, in its next session: then the `Hello` before has not come late. If
        that is lost, it wants one in a later session, and is asked again.
        """
        common = self._log.chain.mark(self._log.committed)
        assert common is not None
        self._peers[member.node] = peer = Peer.opened(member, message.session, common)
        peer.is_doubted = True
        answer = TruncateTo(self._identity.shard, self.epoch, message.session, common)
        return [Send(member.node, answer)]

    def _is_doubtful(self, sender: str, message: Hello, common: Mark | None) -> bool:
        """Whether it is not known if a member has what is committed."""
        if message.epoch_ends:
            return common is None or common.position < self._log.committed
        peer = self._peers.get(sender)
        return peer is not None and peer.is_doubted

    def _is_outdated(self, member: Member, message: Hello) -> bool:
        """Whether the disk of a member is an older one: it has answered that it lacks what is committed."""
        peer = self._peers.get(member.node)
        is_answer = peer is not None and peer.is_doubted and message.session == peer.session + 1
        return is_answer and not message.epoch_ends

    def _lacks_offsets(self, common: Mark) -> bool:
        """Whether a journal that goes on behind this block does not tell of all offsets that were given.

        A node on its own notes no offsets of records that are not journaled. Its segments and snapshots have
        them: a copy tells of them.
        """
        behind = self._log.chain.mark(common.position + 1)
        return behind is not None and behind.epoch <= self._log.alone

    def _acknowledged(self, peer: Peer, message: Acknowledge, now: float) -> list[Action]:
        opens = peer.durable is None
        caught_up = peer.acknowledged(message.durable, message.stamp)
        sender = peer.member.node
        self._answered[sender] = max(peer.stamp, self._answered.get(sender, 0.0))
        if caught_up is not None:
            self._caught_up[peer.member] = caught_up
        actions = self._advance(now) + self._ship(peer, now)
        return actions or (self._heartbeat(peer, now) if opens else [])

    def _ship(self, peer: Peer, now: float) -> list[Action]:
        if peer.durable is None:
            return []
        end = self._log.chain.reach(peer.durable, self._settings.window_bytes)
        if end <= peer.sent:
            return []
        return [self._append_to(peer, end, now)]

    def _heartbeat(self, peer: Peer, now: float) -> list[Action]:
        return [] if peer.durable is None else [self._append_to(peer, peer.sent, now)]

    def _append_to(self, peer: Peer, end: int, now: float) -> Ship:
        after, peer.sent, peer.shipped_at = peer.sent, end, now
        peer.told = self._log.committed
        if peer.probe is None:
            peer.probe = (now, self._log.chain.end_position)
        return Ship(
            peer.member.node, self.epoch, peer.session, after, end, self._log.committed, now
        )

    def _advance(self, now: float) -> list[Action]:
        """Commit what can be committed, and change what keeps more from it."""
        actions: list[Action] = []
        position = self._in_sync.committed_position(self._durable(), self._settings.min_in_sync)
        if position is not None and self._log.commit(position):
            actions.append(Commit(self._log.committed))
        is_ready = not self._target and self.has_begun
        if not self.serving and is_ready and self._may_serve(now):
            self.serving = True
            actions.append(Serve(self.epoch))
        if self._open_revision is None and self.may_propose:
            actions += self._propose(self._wanted(now))
        return actions

    def _durable(self) -> dict[Member, int]:
        durable = {
            peer.member: peer.durable for peer in self._peers.values() if peer.durable is not None
        }
        durable[self._identity.member] = self._log.durable
        return durable

    def _propose(self, wanted: Propose | None) -> list[Action]:
        if wanted is None:
            return []
        self._open_revision = wanted.record.revision
        self._in_sync.propose(wanted.record)
        return [wanted]

    def _wanted(self, now: float) -> Propose | None:
        record = self._in_sync.record
        if self._outdated:  # at once, whatever `min_in_sync` is: it must not lead with what it has
            left = frozenset(member.node for member in self._outdated)
            why = f"the disk of {', '.join(sorted(left))} is an older one: not in sync any more"
            return Propose(record.without(left), record, why)
        if self._target:
            return self._handed_over()
        for _, peer in sorted(self._peers.items()):
            if peer.member not in record.members and self._can_join(peer, now):
                joined = record.with_member(peer.member)
                return Propose(joined, record, f"{peer.member.node} has everything: it is in sync")
        shrunk = self._in_sync.shrunk(self._late(now), self._settings.min_in_sync)
        return None if shrunk is None else Propose(shrunk, record, self._why_left(shrunk))

    def _why_left(self, shrunk: ShardRecord) -> str:
        left = self._in_sync.record.members - shrunk.members
        late = f"has not caught up for {self._settings.lag_seconds:g} s"
        told = (f"{each.node} {self._leaves(each) or late}" for each in sorted(left))
        return f"{', '.join(told)}: not in sync any more"

    def _can_join(self, peer: Peer, now: float) -> bool:
        """Whether a follower has everything: what is committed, and the beginning of this epoch."""
        has_all = peer.durable is not None and peer.durable >= max(self._log.committed, self._begin)
        return has_all and not peer.leaving and self._is_timely(peer.member, now)

    def _late(self, now: float) -> list[str]:
        """Members that keep others waiting, the latest first."""
        members = self._in_sync.record.members - {self._identity.member}
        late = [each for each in members if self._leaves(each) or not self._is_timely(each, now)]
        late.sort(key=lambda member: (self._caught_up.get(member, 0.0), member))
        return [member.node for member in late]

    def _leaves(self, member: Member) -> str:
        peer = self._peers.get(member.node)
        return peer.leaving if peer is not None and peer.member == member else ""

    def _is_timely(self, member: Member, now: float) -> bool:
        caught_up = self._caught_up.get(member)
        return caught_up is not None and now - caught_up <= self._settings.lag_seconds

    def _is_able(self, node: str) -> bool:
        """Whether a node could lead: a member with an open session that is not about to stop."""
        peer = self._peers.get(node)
        if peer is None or peer.durable is None or peer.leaving or node in self.damaged:
            return False
        return peer.member in self._in_sync.record.members

    def _handed_over(self) -> Propose | None:
        if not self._is_able(self._target):
            return None
        peer, end = self._peers[self._target], self._log.chain.end_position
        if peer.durable != end or self._log.committed != end:
            return None
        record = self._in_sync.record
        handed_over = record.led_by(peer.member, claim=0)
        return Propose(handed_over, record, f"{self._target} is to lead")

    @property
    def alone_since(self) -> float:
        """The last time at which no other node can have served.

        Another leader serves when its in-sync set follows it: `min_in_sync` nodes at least, itself among them.
        None of these answers this leader any more, as nobody follows two epochs. And the first one to lead
        behind this leader is a member that this leader counts.
        """
        own, size_min = self._identity.member.node, self._settings.min_in_sync
        answered = {
            node: self._answered.get(node, 0.0)
            for node in self._in_sync.record.replicas
            if node != own
        }
        counted = {member.node for member in self._in_sync.counted}
        since = min((answered[node] for node in answered.keys() & counted), default=inf)
        if len(answered) < size_min:
            return inf
        return max(since, sorted(answered.values())[size_min - 1])
