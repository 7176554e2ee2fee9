"""What a coordinator holds for a cluster: shard records, nodes that are alive, and commands of operators.

All agreement between nodes is one compare-and-set of a shard's record. A lease only says who is probably
alive: safety rests on the epoch in each block, never on a lease, a lock or a clock.

Source:
    docs/decisions/0018-etcd-is-read-not-watched.md
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from routelog.mirror_cluster.protocol.promise import NOTHING, Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import ShardRecord


class CoordinatorUnavailable(Exception):
    """No endpoint answered in time; what was asked may have been done, or be done later."""


class NobodyListens(CoordinatorUnavailable):
    """Each endpoint's machine has refused the connection: nothing runs there."""


class CoordinatorRefused(Exception):
    """The coordinator said no, as with a wrong password or a full disk; or what it holds cannot be read."""


class NodeNameTaken(Exception):
    """Another living process has this node's name."""


@dataclass(frozen=True, slots=True)
class ReplicaNote:
    """What a node tells of its replica of a shard, as it is now.

    Attributes:
        promise: the newest record that it has taken.
        refusal: why it does not take the one that is there, in words; empty: it does.
        serves: it leads, and may confirm something at any time.
        is_alone: it serves, and nodes enough have just answered it: no other one has served since.
        is_in_sync: in the record that it has taken last.
        end: epoch and position of its last block, while it neither leads nor follows, or refuses what is there.
    """

    promise: Promise = NOTHING
    refusal: str = ""
    serves: bool = False
    is_alone: bool = False
    is_in_sync: bool = False
    end: tuple[int, int] = (0, 0)

    def beside(self, record: ShardRecord | None) -> "ReplicaNote":
        """Without a refusal of what was there before this record: the node has not told since."""
        is_old = self.refusal != Refusal.LACKING and self.promise.refusal(record) is None
        return replace(self, refusal="") if self.refusal and is_old else self


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node that holds a lease.

    Attributes:
        process: number of the process, new with each start.
        address: where other nodes reach it, `host:port`.
        incarnation: of its data, which one process at a time has locked.
        notes: of its replicas, by shard.
        since: when its process started, in microseconds since 1970, by its own clock; for people.
        is_damaged: some of its queues are quarantined: it cannot read all that it has.
    """

    node: str
    process: int
    address: str
    incarnation: int
    notes: Mapping[int, ReplicaNote] = field(default_factory=dict)
    since: int = 0
    is_damaged: bool = False


class Verb(StrEnum):
    """What an operator can ask of a node."""

    TRANSFER = "transfer"  # have another node lead
    DRAIN = "drain"  # a node that does not lead: leave the in-sync set, and stay out of it
    INIT = "init"  # make the first record, or another one: the cluster begins with this node's data
    RECOVER = "recover"  # lead with what is here, whatever others may have had
    REPAIR = "repair"  # a node that does not lead: give up what is here, and take a copy


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """An operator's command, which waits for its node.

    Attributes:
        process: of the node: one that was started since leaves the command alone.
        to: of a transfer: who is to lead; empty: anybody.
        seen: revision of the shard's record that the operator has seen; 0: there was none.
        revision: the coordinator's, of the command; not in the value.
    """

    node: str
    process: int
    verb: Verb
    to: str = ""
    seen: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the coordinator held at one moment.

    Attributes:
        revision: grows with every change of anything in it.
        records: by shard, each with the revision that the next proposal must name.
        nodes: by name.
        commands: by the node that is to take it.
    """

    revision: int
    records: Mapping[int, ShardRecord] = field(default_factory=dict)
    nodes: Mapping[str, NodeEntry] = field(default_factory=dict)
    commands: Mapping[str, NodeCommand] = field(default_factory=dict)

    def notes(self, shard: int) -> dict[str, ReplicaNote]:
        """What nodes tell of their replicas of a shard, by node."""
        notes = {name: entry.notes.get(shard) for name, entry in sorted(self.nodes.items())}
        record = self.records.get(shard)
        return {name: note.beside(record) for name, note in notes.items() if note is not None}
