"""What a replica asks of the node that it runs in: the outputs of its state machine.

They are carried out in the order in which they come. What goes to the disk stays in that order there, and
each is answered by its event when it is durable; messages may be lost.
"""

from dataclasses import dataclass, field

from routelog.log_backend import ShardBlock
from routelog.mirror_cluster.protocol.messages import Message
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import ShardRecord


@dataclass(frozen=True, slots=True)
class Send:
    """A message to another node."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Ship:
    """An `Append` to a follower, with the journal's blocks (after, end], which are in memory or read.

    The core holds no bytes; the node may send fewer blocks, and the follower then asks again.
    """

    to: str
    epoch: int
    session: int
    after: int
    end: int
    committed: int
    stamp: float


@dataclass(frozen=True, slots=True)
class Store:
    """Append these blocks to the journal and sync it; answered by `Durable`."""

    blocks: tuple[ShardBlock, ...]


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """The journal makes its blocks itself from here on, of this epoch; the first is empty, and made at once.

    Each is told by `Appended` before its `Durable`.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Erase the journal behind a position, and sync that; answered by `Truncated`.

    Attributes:
        keep: put a copy of what is erased aside: an operator chose another history.
    """

    position: int
    keep: bool


@dataclass(frozen=True, slots=True)
class SavePromise:
    """Write down that nothing older is followed; answered by `Promised`."""

    promise: Promise


@dataclass(frozen=True, slots=True)
class CopyCheckpoint:
    """Copy the leader's checkpoint beside the data, then swap; answered by `Copied` or `CopyFailed`.

    Attributes:
        heals: the data are damaged, and the copy is of use only if it is not. Else nothing can be followed
            without it.
    """

    leader: str
    heals: bool = False


@dataclass(frozen=True, slots=True)
class AbortCopy:
    """Give the copy up, and leave the data as they are. Nothing answers."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Blocks up to here are committed: apply them, and release the confirms that wait for them."""

    position: int


@dataclass(frozen=True, slots=True)
class Propose:
    """Set the coordinator's record if it is still the one that was seen; answered by `Proposed`.

    Attributes:
        seen: whose revision `record` has. Revisions come again when a coordinator is set back.
        reason: in words, for a log.
    """

    record: ShardRecord
    seen: ShardRecord
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the coordinator's record and the nodes alive; answered by `RecordSeen`, `NodesAlive`."""


@dataclass(frozen=True, slots=True)
class Serve:
    """This replica leads: everything committed before is applied once the `Commit`s so far are."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StopServing:
    """Take no more publishes: another node is to lead, or could.

    Attributes:
        reason: in words, for clients.
    """

    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Drained:
    """Nothing depends on this node: it can stop."""


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process; started again it follows. A leader never becomes a follower in place."""

    reason: str


Action = (
    Send
    | Ship
    | Store
    | BeginEpoch
    | Truncate
    | SavePromise
    | CopyCheckpoint
    | AbortCopy
    | Commit
    | Propose
    | ReadRecord
    | Serve
    | StopServing
    | Drained
    | Exit
)
