"""A replica's journal, as far as its state machine knows it: the chain, what is durable, what committed."""

from dataclasses import dataclass

from routelog.log_backend import Mark, ShardBlock
from routelog.mirror_cluster.protocol.shard_record import Member
from routelog.mirror_cluster.replica.chain import Chain


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a replica is.

    Attributes:
        member: its node, and the disk that this has.
        process: drawn at random at each start: a process never mistakes itself for an earlier one.
    """

    shard: int
    member: Member
    process: int


class ShardLog:
    """The journal of one replica.

    Invariants: `committed` is never above `durable`, nothing up to it is ever cut, and it falls only when
    a copy takes the place of everything.

    Attributes:
        alone: the newest epoch in which a node with these data ran on its own; 0: none did.
    """

    def __init__(self, chain: Chain, applied: int, alone: int = 0) -> None:
        self.chain = chain
        self.durable = chain.end_position  # recovery has synced what it found
        self.committed = max(applied, chain.base.position)
        self.alone = alone

    def extend(self, block: ShardBlock) -> None:
        """The next block is being stored."""
        self.chain.extend(block)

    def truncate(self, position: int) -> None:
        """The blocks behind a position are being erased."""
        self.chain.truncate(position)
        self.durable = min(self.durable, position)

    def synced(self, mark: Mark) -> bool:
        """The disk has this block and all before it.

        Returns:
            Whether `durable` has grown. A block that was cut since, or replaced, says nothing.
        """
        if mark.position <= self.durable or self.chain.mark(mark.position) != mark:
            return False
        self.durable = mark.position
        return True

    def commit(self, position: int) -> bool:
        """Blocks up to a position are committed, as far as they are here; whether that is news."""
        position = min(position, self.durable)
        if position <= self.committed:
            return False
        self.committed = position
        return True

    def replace(self, checkpoint: Mark) -> None:
        """A copy of a checkpoint has taken the place of everything."""
        self.chain = Chain(checkpoint)
        self.durable = self.committed = checkpoint.position
