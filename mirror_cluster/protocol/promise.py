"""What a replica has promised: the newest record of the coordinator that it has taken, kept with its data.

The coordinator may be set back to an older state, be emptied, or be another one. Each node remembers by itself
what it must not fall behind, and refuses a record that does.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from routelog.mirror_cluster.protocol.shard_record import ShardRecord


class Refusal(StrEnum):
    """Why a record is not acted upon, in words for an operator."""

    MISSING = "etcd has no record of this cluster any more"
    OTHER = "etcd has the record of another cluster"
    OLDER = "etcd has an older record than nodes have known"
    LACKING = "who leads lacks what has been committed"


@dataclass(frozen=True, slots=True)
class Promise:
    """The newest record of the coordinator that a replica has taken.

    Attributes:
        cluster: the id of the node's cluster; 0: it belongs to none yet.
        begun: that of the record.
        epoch: nothing is followed in an older one.
        claim: who leads that epoch: each has one leader.
        revision: of the record; it grows with each change.
        incarnation: of this node's disk when that record has it in the in-sync set; 0: it does not.
        in_sync: that set; empty: it is not known, as in the file of an earlier version.
    """

    cluster: int = 0
    begun: int = 0
    epoch: int = 0
    claim: int = 0
    revision: int = 0
    incarnation: int = field(default=0, compare=False)
    in_sync: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, record: ShardRecord, node: str = "") -> "Promise":
        """What a node promises that takes a record."""
        return cls(
            record.cluster,
            record.begun,
            record.epoch,
            record.claim,
            record.revision,
            record.incarnations.get(node, 0),
            record.in_sync,
        )

    def refusal(self, record: ShardRecord | None) -> Refusal | None:
        """Why a record must not be taken; None: it may.

        Args:
            record: None: the coordinator has none.
        """
        if record is None:
            return Refusal.MISSING if self.cluster else None
        if self.cluster not in (0, record.cluster):
            return Refusal.OTHER
        return Refusal.OLDER if self.is_newer_than(Promise.of(record)) else None

    def is_of(self, record: ShardRecord) -> bool:
        """Whether this follows the leader of a record."""
        return (self.epoch, self.claim) == (record.epoch, record.claim)

    def is_newer_than(self, other: "Promise") -> bool:
        """Whether what this promises was known behind, or instead of, what the other one does."""
        if self.begun != other.begun:  # revisions of the coordinator before say nothing
            return self.begun > other.begun or self.epoch >= other.epoch
        if self.revision >= other.revision:
            return self != other
        if self.epoch == other.epoch:
            return self.claim != other.claim
        return self.epoch > other.epoch


NOTHING = Promise()
