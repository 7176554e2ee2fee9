"""What the coordinator holds of a shard: who leads, in which epoch, and who has all that is committed.

The value is a JSON object, so that an operator can read it with the coordinator's own tools::

    {"version": 1, "shard": 0, "leader": "a", "claim": 8234, "epoch": 7, "in_sync": ["a", "b"],
     "replicas": ["a", "b", "c"], "incarnations": {"a": 1, "b": 2}, "unclean": 0, "cluster": 7120,
     "begun": 5, "changed_at": 1764079200000000}

It is changed by compare-and-set of its revision only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

FORMAT_VERSION = 1
SHARD = 0  # the only one of a cluster yet


class BadRecord(Exception):
    """The coordinator's value is no record of this version."""


class Member(NamedTuple):
    """A node with the disk that it had: a wiped one is another member."""

    node: str
    incarnation: int


@dataclass(frozen=True)
class ShardRecord:
    """The record of a shard.

    Attributes:
        leader: empty when nobody has led yet.
        claim: the process that leads: one that was started again on the same node does not. 0 asks the
            leader to claim the next epoch.
        epoch: grows with each change of leader.
        in_sync: who has every committed block on its disk.
        replicas: who is to have a copy, in the order in which they are preferred as leader.
        incarnations: of the members of the in-sync set.
        unclean: the newest epoch that an operator's command began with a loss; 0 is none.
        cluster: its id, drawn at random for the first record. Nodes obey no other cluster's record.
        begun: the epoch of the first record, or of the one with which an operator began the cluster again. It
            is above all epochs before it: that tells a record that was begun again from an older one.
        changed_at: when that was proposed, in microseconds since 1970, by the clock of who did; for people.
        revision: the coordinator's, of the value; not in the value.
    """

    shard: int
    leader: str
    claim: int
    epoch: int
    in_sync: frozenset[str]
    replicas: tuple[str, ...]
    incarnations: Mapping[str, int] = field(default_factory=dict)
    unclean: int = 0
    cluster: int = 0
    begun: int = 0
    changed_at: int = field(default=0, compare=False)
    revision: int = 0

    @classmethod
    def beginning(
        cls, shard: int, cluster: int, member: Member, replicas: tuple[str, ...], known_epoch: int
    ) -> "ShardRecord":
        """What a cluster begins with, for the first time or again: what this member has is the truth.

        Args:
            known_epoch: no node has known a newer one, or has blocks of one.
        """
        epoch = known_epoch + 1
        return cls(
            shard=shard,
            leader="",
            claim=0,
            epoch=epoch,
            in_sync=frozenset((member.node,)),
            replicas=replicas,
            incarnations=dict((member,)),
            cluster=cluster,
            begun=epoch,
        )

    @property
    def members(self) -> frozenset[Member]:
        """The in-sync set, with the disks that it means."""
        return frozenset(Member(node, self.incarnations[node]) for node in self.in_sync)

    def led_by(self, member: Member, claim: int) -> "ShardRecord":
        """The next epoch, led by a member of the in-sync set."""
        return replace(self, leader=member.node, claim=claim, epoch=self.epoch + 1)

    def with_member(self, member: Member) -> "ShardRecord":
        """A member joins the in-sync set, or is there with another disk."""
        incarnations = {**self.incarnations, member.node: member.incarnation}
        return replace(self, in_sync=self.in_sync | {member.node}, incarnations=incarnations)

    def without(self, nodes: frozenset[str]) -> "ShardRecord":
        """Some leave the in-sync set."""
        left = self.in_sync - nodes
        kept = {node: number for node, number in self.incarnations.items() if node in left}
        return replace(self, in_sync=left, incarnations=kept)

    def recovered_by(self, member: Member, claim: int) -> "ShardRecord":
        """An unclean election: what this member has is the truth from here on."""
        led = replace(self, in_sync=frozenset((member.node,)), incarnations=dict((member,)))
        led = led.led_by(member, claim)
        return replace(led, unclean=led.epoch)

    def with_replicas(self, replicas: tuple[str, ...]) -> "ShardRecord":
        """Other nodes have copies; who leaves is neither leader nor in the in-sync set."""
        if not {self.leader, *self.in_sync} <= {*replicas, ""}:
            raise ValueError("transfer and shrink first")
        return replace(self, replicas=replicas)

    def told(self) -> str:
        """In words, for a log."""
        leader = f"{self.leader or 'nobody'} leads epoch {self.epoch}"
        return f"shard {self.shard}: {leader}, in sync {' '.join(sorted(self.in_sync))}"

    def encode(self) -> bytes:
        """Encode the record as the coordinator's value."""
        return msgspec.json.encode(
            {
                "version": FORMAT_VERSION,
                "shard": self.shard,
                "leader": self.leader,
                "claim": self.claim,
                "epoch": self.epoch,
                "in_sync": sorted(self.in_sync),
                "replicas": list(self.replicas),
                "incarnations": dict(sorted(self.incarnations.items())),
                "unclean": self.unclean,
                "cluster": self.cluster,
                "begun": self.begun,
                "changed_at": self.changed_at,
            }
        )


class _Value(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    shard: int
    leader: str
    claim: int
    epoch: int
    in_sync: list[str]
    replicas: list[str]
    incarnations: dict[str, int]
    unclean: int
    cluster: int
    begun: int
    changed_at: int


def decode_record(value: bytes, revision: int) -> ShardRecord:
    """Read the coordinator's value.

    Raises:
        BadRecord: a later version wrote it, or nobody of ours.
    """
    try:
        read = msgspec.json.decode(value, type=_Value)
    except msgspec.DecodeError as error:
        raise BadRecord(str(error)) from None
    if read.version != FORMAT_VERSION or set(read.in_sync) != set(read.incarnations):
        raise BadRecord(f"version {read.version}, in sync {read.in_sync}")
    return ShardRecord(
        shard=read.shard,
        leader=read.leader,
        claim=read.claim,
        epoch=read.epoch,
        in_sync=frozenset(read.in_sync),
        replicas=tuple(read.replicas),
        incarnations=read.incarnations,
        unclean=read.unclean,
        cluster=read.cluster,
        begun=read.begun,
        changed_at=read.changed_at,
        revision=revision,
    )
