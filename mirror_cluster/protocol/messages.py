"""The messages between two replicas of a shard, as values.

A follower opens a session with `Hello`; the leader answers where their journals part. All later messages
carry that session, so what a session before it still had under way is told apart::

    follower                       leader
       │ ── Hello ──────────────────► │   the ends of my epochs
       │ ◄─────────────── TruncateTo ─│   we agree up to here       (or CopyFrom: too far behind)
       │ cuts, syncs                  │
       │ ── Acknowledge ────────────► │   from here on
       │ ◄─────────────────── Append ─│   blocks, and what is committed; without blocks a heartbeat
       │ ── Acknowledge ────────────► │   durable up to here
       │ ── Leave ──────────────────► │   going: take me from the in-sync set

A message of an older epoch is answered by `Fenced`.
"""

from dataclasses import dataclass

from routelog.log_backend import Mark, ShardBlock


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower's journal, for its leader to compare.

    Attributes:
        epoch: of the leader that it wants to follow.
        session: that of the `TruncateTo` before, plus one, if it lacks that block; else a later one.
        incarnation: of its disk: a wiped one has another.
        epoch_ends: the last block of each epoch in its journal, oldest first; the first may be the block
            that its journal begins behind. Empty: it wants a copy, as it cannot use what it has.
    """

    shard: int
    epoch: int
    session: int
    node: str
    incarnation: int
    epoch_ends: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """The last block that both journals have: the follower's ends there before it answers."""

    shard: int
    epoch: int
    session: int
    common: Mark


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """The leader's journal begins too late for this follower: it needs a copy of a checkpoint."""

    shard: int
    epoch: int
    session: int


@dataclass(frozen=True, slots=True)
class Append:
    """Blocks behind the position `after`, in order; none are a heartbeat.

    Attributes:
        committed: what is committed at the leader.
        stamp: the leader's monotonic clock in seconds, for the answer.
    """

    shard: int
    epoch: int
    session: int
    after: int
    committed: int
    stamp: float
    blocks: tuple[ShardBlock, ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The follower's journal is on its disk up to `durable`, and is the leader's up to there.

    Attributes:
        stamp: of the newest `Append` that it has seen; 0 before the first.
    """

    shard: int
    epoch: int
    session: int
    durable: int
    stamp: float


@dataclass(frozen=True, slots=True)
class Leave:
    """The follower is about to stop."""

    shard: int
    epoch: int
    session: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """The answer to a message of an older epoch.

    Attributes:
        epoch: the one that the sender of this has promised.
    """

    shard: int
    epoch: int
    session: int


Message = Hello | TruncateTo | CopyFrom | Append | Acknowledge | Leave | Fenced
