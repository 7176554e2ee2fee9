"""What happens to a replica: the inputs of its state machine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from routelog.log_backend import Mark, ShardBlock
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import ShardRecord


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from another node."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The leader's journal has made its next block, and hands it to the disk."""

    block: ShardBlock


@dataclass(frozen=True, slots=True)
class Durable:
    """The journal is synced up to this block, or was: it may have been cut meanwhile."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class TellCommitted:
    """Somebody waits until followers have applied what is committed: the leader tells them now."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """The journal ends behind this position, and a power cut brings nothing back."""

    position: int


@dataclass(frozen=True, slots=True)
class Promised:
    """This promise is on the disk."""

    promise: Promise


@dataclass(frozen=True, slots=True)
class Recycled:
    """The journal's files up to this position are free: a checkpoint holds what they said."""

    position: int


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of the leader's checkpoint is in place, durably, and the old data set aside.

    It came in the same turn: after `AbortCopy` there is none.

    Attributes:
        checkpoint: the block up to which the copy holds everything; committed at the leader.
    """

    checkpoint: Mark


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """The copy broke off; the old data are as they were.

    Attributes:
        is_damaged: all of it came, and a part of it cannot be read.
    """

    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Damaged:
    """Some partition here is quarantined: a part of its records cannot be read; or none is any more."""

    is_damaged: bool = True


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """The coordinator was read, or told of a change; perhaps late, perhaps out of order.

    Attributes:
        record: None: it has none.
        is_fresh: the reading began when this node had already taken all that it has taken now. So a record
            that is older than that is no late news: the coordinator is not what it was.
    """

    record: ShardRecord | None
    is_fresh: bool = True


@dataclass(frozen=True, slots=True)
class Proposed:
    """The coordinator answered a proposal, or did not: each `Propose` gets one of these.

    Attributes:
        revision: of the record that was proposed, as it was then.
        accepted: the record as it is since; None if it had changed before, or the answer did not come:
            then it may still be accepted later.
    """

    revision: int
    accepted: ShardRecord | None


@dataclass(frozen=True, slots=True)
class NodesAlive:
    """The nodes whose lease the coordinator holds, each with the process that has it.

    Attributes:
        damaged: those of them that cannot read all that they have.
        incarnations: of their disks.
        promises: what they say that they have promised.
    """

    processes: Mapping[str, int]
    damaged: frozenset[str] = frozenset()
    incarnations: Mapping[str, int] = field(default_factory=dict)
    promises: Collection[Promise] = ()


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node's machine refuses connections: its process has ended. Sooner than its lease tells."""

    node: str


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """This node's lease has ended, by its own clock."""


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """This node has a lease again."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Command: another member of the in-sync set is to lead. Empty: the first that can."""

    to: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """Command: this node is about to stop; it leads nothing and is in no in-sync set when it can."""


@dataclass(frozen=True, slots=True)
class RecoverWithLoss:
    """Command: lead with what is here, whatever others may have had. The operator accepts the loss.

    Attributes:
        revision: of the record that the operator has seen: nothing is done when it has changed since.
    """

    revision: int


Event = (
    Received
    | Tick
    | Appended
    | Durable
    | TellCommitted
    | Truncated
    | Promised
    | Recycled
    | Copied
    | CopyFailed
    | Damaged
    | RecordSeen
    | Proposed
    | NodesAlive
    | NodeGone
    | LeaseLost
    | LeaseHeld
    | Transfer
    | Drain
    | RecoverWithLoss
)
