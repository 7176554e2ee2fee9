"""The rules, each switched off on purpose: a simulation that does not notice is worth nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from simulation import cluster
from simulation.broker_mutations import BROKER_MUTATIONS
from simulation.coordinator import Coordinator

from routelog.log_backend import Mark
from routelog.mirror_cluster.coordination.refused_record import Notes
from routelog.mirror_cluster.protocol.messages import Hello
from routelog.mirror_cluster.protocol.promise import Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica import election, replica
from routelog.mirror_cluster.replica.actions import Action, Exit, Send, Truncate
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import Promised
from routelog.mirror_cluster.replica.follower import Follower, FollowerState
from routelog.mirror_cluster.replica.in_sync_set import InSyncSet
from routelog.mirror_cluster.replica.leader import Leader
from routelog.mirror_cluster.replica.lease import Lease
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.shard_log import ShardLog

Patch = tuple[Any, str, Any]


def _acknowledges_all(self: Follower) -> list[Action]:
    *leave, send = _ACKNOWLEDGE(self)
    acknowledged = replace(send.message, durable=self._log.chain.end_position)
    return [*leave, Send(send.to, acknowledged)]


def _counts_its_own_unsynced(self: Leader) -> dict[Member, int]:
    return _DURABLE(self) | {self._identity.member: self._log.chain.end_position}


def _commits_unsynced(self: ShardLog, position: int) -> bool:
    before, self.committed = self.committed, max(self.committed, position)
    return self.committed > before


def _cuts_to_its_committed(self: Follower, record: ShardRecord, now: float) -> list[Action]:
    log, actions = self._log, list[Action]()
    if log.committed < log.chain.end_position:
        actions.append(Truncate(log.committed, keep=False))
        log.truncate(log.committed)
        self._erasing += 1
    return actions + _FOLLOW(self, record, now)


def _goes_on(self: Replica, actions: list[Action]) -> list[Action]:
    return [action for action in actions if not isinstance(action, Exit)]


def _has_other_members(self: Replica) -> bool:
    record, node = self._record, self._identity.member.node
    if record is None or record.leader in ("", node) or self._claim_revision is not None:
        return False
    return self.leader is None and record.in_sync != {node}


def _takes_any_epoch(self: Follower, sender: str, message: Any, now: float) -> list[Action]:
    if self._record is not None:
        message = replace(message, session=self._session, epoch=self._record.epoch)
    return _FOLLOWER_RECEIVED(self, sender, message, now)


def _promises_in_memory(self: Replica, record: ShardRecord, now: float) -> list[Action]:
    return self._promised(Promised(Promise.of(record)), now)


def _takes_any_disk(self: Leader, sender: str, message: Hello, now: float) -> list[Action]:
    known = self._in_sync.record.incarnations.get(sender, message.incarnation)
    return _HELLO(self, sender, replace(message, incarnation=known), now)


def _serves_at_once(self: Leader) -> list[Action]:
    actions = _BEGIN(self)
    self._begin = 0
    return actions


def _keeps_the_epoch(self: ShardRecord, member: Member, claim: int) -> ShardRecord:
    return replace(self, leader=member.node, claim=claim)


def _forgets_the_proposal(self: Leader, revision: int, is_accepted: bool) -> list[Action]:
    if not is_accepted:
        self._in_sync._proposed.clear()
    return _ANSWERED(self, revision, is_accepted)


def _leads_again(self: Replica, record: ShardRecord) -> bool:
    return record.leader == self._identity.member.node


def _believes_old_news(self: Promise, record: ShardRecord | None) -> None:
    return None


def _undoes(self: Follower, message: Any, now: float) -> list[Action]:
    committed, self._log.committed = self._log.committed, 0
    actions = _TRUNCATE_TO(self, message, now)
    self._log.committed = min(committed, self._log.chain.end_position)
    return actions


_RANK = election.rank
_ACKNOWLEDGE = Follower._acknowledge
_DURABLE = Leader._durable
_FOLLOW = Follower.follow
_FOLLOWER_RECEIVED = Follower.received
_HELLO = Leader._hello
_BEGIN = Leader.begin
_ANSWERED = Leader.answered
_TRUNCATE_TO = Follower._truncate_to
_SHRUNK = InSyncSet.shrunk
_OPEN = Follower._open


def _opens_at_once(self: Follower) -> list[Action]:
    erasing, self._erasing = self._erasing, 0
    actions = _OPEN(self)
    self._erasing = erasing
    return actions


def _commits_with_few(in_sync: InSyncSet, durable: Any, size_min: int) -> int | None:
    return min(durable.get(member, 0) for member in in_sync.counted)


def _by_position(ours: Chain, epoch_ends: Sequence[Mark]) -> Mark | None:
    is_here = epoch_ends and ours.base.position <= epoch_ends[-1].position <= ours.end_position
    return epoch_ends[-1] if is_here else None


def _compares_epochs_only(self: Promise, record: ShardRecord | None) -> Refusal | None:
    return Refusal.OLDER if record is not None and record.epoch < self.epoch else None


def _heals_by_whole_leaders(self: Replica) -> None:
    _HEAL(self)
    record = self._record
    if self.leader is None and record is not None and record.leader in self._damaged:
        self._follower.heals = False


def _least(record: ShardRecord | None, notes: Notes) -> str:
    return min(notes, key=lambda name: notes[name].end[1])


MUTATIONS: dict[str, list[Patch]] = {
    "a follower acknowledges what it has not synced": [
        (Follower, "_acknowledge", _acknowledges_all)
    ],
    "a leader counts what it has not synced": [
        (Leader, "_durable", _counts_its_own_unsynced),
        (ShardLog, "commit", _commits_unsynced),
    ],
    "committed is what a majority has": [
        (
            InSyncSet,
            "committed_position",
            lambda in_sync, durable, size_min: sorted(
                durable.get(member, 0) for member in in_sync.counted
            )[(len(in_sync.counted) - 1) // 2],
        )
    ],
    "the chain is compared nowhere": [
        (Chain, "common_point", _by_position),
        (
            Follower,
            "_fits",
            lambda self, block: block.position == self._log.chain.end_position + 1,
        ),
        (
            Follower,
            "_has",
            lambda self, block: block.position <= self._log.chain.end_position,
        ),
    ],
    "a member that leaves counts no more before the coordinator agrees": [
        (
            InSyncSet,
            "counted",
            property(lambda self: self._proposed[-1] if self._proposed else self.record.members),
        )
    ],
    "a member that joins counts only when the coordinator has answered": [
        (InSyncSet, "counted", property(lambda self: self.record.members))
    ],
    "a proposal without an answer is forgotten": [(Leader, "answered", _forgets_the_proposal)],
    "a truncation is answered before it is durable": [(Follower, "_open", _opens_at_once)],
    "journals are compared by position only": [
        (
            Chain,
            "common_point",
            _by_position,
        )
    ],
    "a follower cuts to what it knows committed": [(Follower, "follow", _cuts_to_its_committed)],
    "what is applied is cut": [(Follower, "_truncate_to", _undoes)],
    "a leader whose lease is lost goes on": [(Leader, "is_alone", lambda self, now: True)],
    "a deposed leader goes on": [(Replica, "_until_exit", _goes_on)],
    "leaders of other epochs are followed": [(Follower, "received", _takes_any_epoch)],
    "a promise is not written down": [(Replica, "_make_promise", _promises_in_memory)],
    "old news of the coordinator are believed": [(Promise, "refusal", _believes_old_news)],
    "a record of a coordinator that was set back is taken": [
        (Promise, "refusal", _compares_epochs_only)
    ],
    "who has promised less than another node claims": [
        (Replica, "_is_outdated", lambda self, record: False)
    ],
    "an operator begins again with the node that has least": [(cluster, "most", _least)],
    "a member of the set gives up what it has": [
        (Replica, "is_dispensable", property(_has_other_members))
    ],
    "a wiped disk may lead": [
        (election, "can_lead", lambda record, member: member.node in record.in_sync)
    ],
    "a wiped disk counts as the one before": [(Leader, "_hello", _takes_any_disk)],
    "anybody may lead": [(election, "can_lead", lambda record, member: True)],
    "a process that was started again leads on": [(Replica, "_has_claimed", _leads_again)],
    "an epoch is used twice": [(ShardRecord, "led_by", _keeps_the_epoch)],
    "the coordinator does not compare": [(Coordinator, "may_set", lambda self, seen: True)],
    "the in-sync set becomes too small": [
        (InSyncSet, "shrunk", lambda self, late, size_min: _SHRUNK(self, late, 1))
    ],
    "it is committed with too few members": [(InSyncSet, "committed_position", _commits_with_few)],
    "a follower joins without what is committed": [
        (
            Leader,
            "_can_join",
            lambda self, peer, now: peer.durable is not None and not peer.leaving,
        )
    ],
    "a follower applies what is not committed": [
        (
            Follower,
            "_commit",
            lambda self: (setattr(self, "_leader_committed", self._log.durable), _COMMIT(self))[1],
        )
    ],
    "a member takes a copy of what its leader knows to be committed": [
        (Follower, "_has_begun", lambda self: self.state is FollowerState.STREAMING)
    ],
    "who cannot read what it has leads": [
        (
            replica,
            "rank",
            lambda record, member, alive, damaged: _RANK(record, member, alive),
        )
    ],
    "a damaged member takes no copy of a leader that is damaged, too": [
        (Replica, "_heal", _heals_by_whole_leaders)
    ],
    "a damaged copy is taken in vain, again and again": [
        (
            Follower,
            "_copy_from",
            lambda self, message, now: [
                replace(each, heals=True) for each in _COPY_FROM(self, message, now)
            ],
        )
    ],
    "a leader serves before its epoch is committed": [(Leader, "begin", _serves_at_once)],
    "a lease is renewed without a word from the disk": [
        (Lease, "_has_worked", lambda self, now, within: True)
    ],
}
_COMMIT: Callable[[Follower], Any] = Follower._commit
_COPY_FROM: Callable[..., Any] = Follower._copy_from
_HEAL: Callable[[Replica], None] = Replica._heal


@contextmanager
def switched_off(rule: str) -> Iterator[None]:
    """Without one rule."""
    with ExitStack() as stack:
        for owner, name, replacement in (MUTATIONS | BROKER_MUTATIONS)[rule]:
            stack.enter_context(patch.object(owner, name, replacement))
        yield
