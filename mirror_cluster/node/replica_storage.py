"""What a replica asks of the journal of its shard on this node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from routelog.mirror_cluster.protocol.block import Block, Mark
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.replica.chain import Chain
from routelog.mirror_cluster.replica.events import (
    Appended,
    Durable,
    Promised,
    Recycled,
    Truncated,
)

Notice = Appended | Durable | Truncated | Promised | Recycled


class CopyFailed(Exception):
    """A checkpoint could not be copied; the data are as they were."""


class CopyDamaged(CopyFailed):
    """All of a checkpoint was copied, and a part of it cannot be read; the data are as they were."""


class CopyWaits(Exception):
    """A copy is whole, and takes the place of the data when the node is started again."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a journal held when it was opened.

    Attributes:
        incarnation: of the data: they have another when they were wiped, or are found damaged.
        chain: all of it is synced.
        promise: the newest that was written down.
        applied: position up to which the journal is applied.
        alone: the newest epoch in which a node with these data ran on its own; 0: none did.
    """

    shard: int
    incarnation: int
    chain: Chain
    promise: Promise
    applied: int
    alone: int = 0


class ReplicaStorage(Protocol):
    """The journal of one shard, as its replica uses it.

    Everything is called on the event loop and returns at once. What it changes is carried out in the order
    of the calls, and told on the event loop when it is durable.
    """

    def start(self, notify: Callable[[Notice], None]) -> Recovered:
        """Open it; call `notify` from then on."""
        ...

    def store(self, blocks: Sequence[Block]) -> None:
        """Append the blocks of another node's journal; told by `Durable`, of the last one or one by one."""
        ...

    def begin_epoch(self, epoch: int) -> None:
        """Make the blocks here from now on, the first one empty and at once; each is told by `Appended`."""
        ...

    def truncate(self, position: int, keep: bool) -> None:
        """Erase what is behind a position; told by `Truncated`.

        Args:
            keep: put a copy of what is erased aside.
        """
        ...

    def save_promise(self, promise: Promise) -> None:
        """Write a promise down; told by `Promised`."""
        ...

    def commit(self, position: int) -> None:
        """Apply the blocks up to here, and release the confirms that wait for them."""
        ...

    async def read(self, after: int, bytes_max: int) -> Sequence[Block]:
        """The blocks behind a position: one at least, however long, and no more than so many bytes.

        Returns:
            Empty: the block behind `after` is not there any more.
        """
        ...

    async def copy(self, leader: str, *, heals: bool = False) -> Mark:
        """Put a copy of a node's checkpoint in the place of all data.

        Cancelled, it leaves the data as they are. It returns in the turn of the loop in which the copy took
        their place, durably, and raises `CopyWaits` in the one in which that is sure.

        Args:
            heals: see `CopyCheckpoint`.

        Raises:
            CopyDamaged: it is damaged, and was to heal.
            CopyFailed: it broke off.
            CopyWaits: it is here, and the node must end: what is added to the data would be lost.
        """
        ...
