"""The follower: a recovery that does not end.

It agrees with its leader on where their journals part, cuts its own there, and stores what the leader
sends, at once. It acknowledges what is durable and applies what is committed.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from routelog.log_backend import ShardBlock
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    Append,
    CopyFrom,
    Fenced,
    Hello,
    Leave,
    Message,
    TruncateTo,
)
from routelog.mirror_cluster.protocol.shard_record import ShardRecord
from routelog.mirror_cluster.replica.actions import (
    AbortCopy,
    Action,
    Commit,
    CopyCheckpoint,
    ReadRecord,
    Send,
    Store,
    Truncate,
)
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity, ShardLog

_SESSIONS = 2**64


class FollowerState(Enum):
    """Where a follower is with its leader."""

    IDLE = auto()  # it follows nobody
    ASKING = auto()  # `Hello` is sent
    OPENING = auto()  # the common point is known; what was behind it is being erased
    STREAMING = auto()
    COPYING = auto()  # a checkpoint is on its way


class Follower:
    """One replica's view of the leader that it follows.

    Attributes:
        draining: this node is about to stop.
        heals: a copy of the leader's data is to take the place of what is here, which is damaged.
        has_refused: the leader lacks what is committed here, and no operator has given that up.
    """

    def __init__(self, identity: Identity, log: ShardLog, settings: ReplicaSettings) -> None:
        self.state = FollowerState.IDLE
        self.draining = False
        self.heals = False
        self.has_refused = False
        self._identity = identity
        self._log = log
        self._settings = settings
        self._record: ShardRecord | None = None
        self._session = identity.process
        self._wants_copy = False
        self._erasing = 0  # truncations that are not durable yet
        self._heard_at = 0.0
        self._stamp = 0.0
        self._leader_committed = 0
        self._readers: Mapping[type[Message], Callable[[Any, float], list[Action]]] = {
            TruncateTo: self._truncate_to,
            CopyFrom: self._copy_from,
            Append: self._append,
        }

    @property
    def has_caught_up(self) -> bool:
        """Whether it has applied all that its leader has called committed."""
        is_streaming = self.state is FollowerState.STREAMING
        return is_streaming and 0 < self._leader_committed <= self._log.committed

    def follow(self, record: ShardRecord, now: float) -> list[Action]:
        """Open a session with the leader of this record, whose epoch is promised."""
        actions = self.stop()
        self.has_refused = False
        self._record = record
        self._wants_copy = False
        return actions + self._hello(now)

    def stop(self) -> list[Action]:
        """Follow nobody: nothing is acknowledged from here on."""
        copying = self.state is FollowerState.COPYING
        self.state = FollowerState.IDLE
        return [AbortCopy()] if copying else []

    def received(self, sender: str, message: Message, now: float) -> list[Action]:
        """Take a message; those of other leaders and earlier sessions are refused."""
        if isinstance(message, Fenced):
            return [ReadRecord()]
        reader = self._readers.get(type(message))
        if reader is None or self._record is None:
            return []
        if message.epoch < self._record.epoch:
            return [self._send(Fenced, sender)]
        if message.epoch > self._record.epoch:
            return [ReadRecord()]
        if message.session != self._session or self.state is FollowerState.IDLE:
            return []
        self._heard_at = now
        return reader(message, now)

    def tick(self, now: float) -> list[Action]:
        """Ask again, when nothing was heard for some time; the record tells whether somebody else leads."""
        if self.state in (FollowerState.IDLE, FollowerState.COPYING):
            return []
        if self.heals and self._has_begun():
            self._wants_copy = True
            return self._hello(now)
        limit = self._settings.retry_seconds
        if self.state is FollowerState.STREAMING:
            limit += self._settings.heartbeat_seconds
        if now - self._heard_at < limit:
            return []
        return [ReadRecord(), *self._hello(now)]

    def _has_begun(self) -> bool:
        """Whether the leader has committed a block of its epoch, so that its copies have all that is committed.

        Before that it may know less of what is committed than this member has on its disk.
        """
        assert self._record is not None
        mark = self._log.chain.mark(self._log.committed)
        is_streaming = self.state is FollowerState.STREAMING
        return is_streaming and mark is not None and mark.epoch == self._record.epoch

    def synced(self) -> list[Action]:
        """More of the journal is durable."""
        if self.state is not FollowerState.STREAMING:
            return []
        return self._acknowledge() + self._commit()

    def truncated(self) -> list[Action]:
        """What was behind the common point is gone for good."""
        self._erasing -= 1
        return self._open()

    def copied(self, now: float) -> list[Action]:
        """The journal begins behind the checkpoint that has come."""
        self._wants_copy = False
        return self._hello(now)

    def copy_failed(self, is_damaged: bool, now: float) -> list[Action]:
        """The copy has broken off, or is damaged itself: then it is not asked for again."""
        self._wants_copy = self._wants_copy and not is_damaged
        return self._hello(now) if self.state is FollowerState.COPYING else []

    def drain(self) -> list[Action]:
        """This node is about to stop: the leader is not to wait for it."""
        self.draining = True
        return self._leave() if self.state is FollowerState.STREAMING else []

    def _hello(self, now: float, *, step: int = 2) -> list[Action]:
        assert self._record is not None
        self.state = FollowerState.ASKING
        self._session = (self._session + step) % _SESSIONS
        self._heard_at = now
        self._stamp = 0.0
        self._leader_committed = 0
        ends = () if self._wants_copy else self._log.chain.epoch_ends()
        member = self._identity.member
        hello = Hello(
            self._identity.shard,
            self._record.epoch,
            self._session,
            member.node,
            member.incarnation,
            ends,
        )
        return [Send(self._record.leader, hello)]

    def _truncate_to(self, message: TruncateTo, now: float) -> list[Action]:
        if self.state is not FollowerState.ASKING:
            return []
        log, common = self._log, message.common
        if log.chain.mark(common.position) != common or common.position < log.committed:
            # Damage, or an operator chose another history. What was applied cannot be undone.
            if common.position < log.committed and not self._is_given_up():
                self.has_refused = True
                return self.stop()
            self._wants_copy = True
            return self._hello(now, step=1)  # no other has the next number: it is the answer
        self.state = FollowerState.OPENING
        actions: list[Action] = []
        if common.position < log.chain.end_position:
            actions.append(Truncate(common.position, self._is_given_up()))
            log.truncate(common.position)
            self._erasing += 1
        return actions + self._open()

    def _is_given_up(self) -> bool:
        """Whether an operator chose another history behind what is here."""
        assert self._record is not None
        return max(self._record.unclean, self._record.begun) > self._log.chain.end.epoch

    def _open(self) -> list[Action]:
        # Not before the truncation is durable: the leader counts from here on what this journal has, and a
        # power cut must not bring back what it has not.
        if self.state is not FollowerState.OPENING or self._erasing:
            return []
        self.state = FollowerState.STREAMING
        return self._acknowledge()

    def _copy_from(self, message: CopyFrom, now: float) -> list[Action]:
        if self.state is not FollowerState.ASKING:
            return []
        assert self._record is not None
        self.state = FollowerState.COPYING
        return [CopyCheckpoint(self._record.leader, self._wants_copy and self.heals)]

    def _append(self, message: Append, now: float) -> list[Action]:
        if self.state is not FollowerState.STREAMING:
            return []
        stored: list[ShardBlock] = []
        broken = message.after > self._log.chain.end_position
        for block in message.blocks:
            if self._has(block):
                continue
            broken = broken or not self._fits(block)
            if broken:
                break
            self._log.extend(block)
            stored.append(block)
        actions: list[Action] = [Store(tuple(stored))] if stored else []
        if broken:  # something was lost on the way
            return actions + self._hello(now)
        self._stamp = max(self._stamp, message.stamp)
        self._leader_committed = max(self._leader_committed, message.committed)
        actions += self._commit()
        return actions if stored else actions + self._acknowledge()

    def _commit(self) -> list[Action]:
        return [Commit(self._log.committed)] if self._log.commit(self._leader_committed) else []

    def _has(self, block: ShardBlock) -> bool:
        return self._log.chain.mark(block.position) == block.mark

    def _fits(self, block: ShardBlock) -> bool:
        return block.shard == self._identity.shard and block.follows(self._log.chain.end)

    def _acknowledge(self) -> list[Action]:
        assert self._record is not None
        # The leader must not take for in sync who leaves, and what has been sent may be lost.
        leave = self._leave() if self.draining else []
        message = Acknowledge(
            self._identity.shard,
            self._record.epoch,
            self._session,
            self._log.durable,
            self._stamp,
        )
        return [*leave, Send(self._record.leader, message)]

    def _leave(self) -> list[Action]:
        assert self._record is not None
        return [self._send(Leave, self._record.leader)]

    def _send(self, kind: type[Leave] | type[Fenced], to: str) -> Send:
        assert self._record is not None
        return Send(to, kind(self._identity.shard, self._record.epoch, self._session))
