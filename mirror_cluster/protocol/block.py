"""A block of a shard's journal, as replicas compare it: each carries the checksum of the one before.

So the checksum of one block stands for everything before it: two journals with the same checksum at the
same position are the same up to there.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from routelog.log_backend import crc32c

# Under the checksum, in this order: shard u32, epoch u64, position u64, previous u32, payload.
_HEAD = struct.Struct("<IQQI")


class Mark(NamedTuple):
    """A place in a chain of blocks: the block at `position`, or before the first one if that is 0."""

    position: int
    epoch: int
    checksum: int


START = Mark(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a shard's journal.

    Attributes:
        epoch: of the leader that made it; it never falls from one block to the next.
        position: one more than that of the block before it, from 1.
        previous: checksum of the block before it.
        payload: entries of the journal; empty in the block with which a leader begins its epoch.
        checksum: CRC-32C of all that.
    """

    shard: int
    epoch: int
    position: int
    previous: int
    payload: bytes
    checksum: int

    @classmethod
    def following(cls, end: Mark, shard: int, epoch: int, payload: bytes) -> "Block":
        """The block behind the end of a chain."""
        position = end.position + 1
        checksum = _checksum(shard, epoch, position, end.checksum, payload)
        return cls(shard, epoch, position, end.checksum, payload, checksum)

    @property
    def mark(self) -> Mark:
        """Its place."""
        return Mark(self.position, self.epoch, self.checksum)

    @property
    def is_intact(self) -> bool:
        """Whether it is what its checksum says."""
        return self.checksum == _checksum(
            self.shard, self.epoch, self.position, self.previous, self.payload
        )

    def follows(self, end: Mark) -> bool:
        """Whether it is the next block of the chain that ends there."""
        return (
            self.position == end.position + 1
            and self.previous == end.checksum
            and self.epoch >= end.epoch
        )


def _checksum(shard: int, epoch: int, position: int, previous: int, payload: bytes) -> int:
    checksum: int = crc32c(_HEAD.pack(shard, epoch, position, previous) + payload)
    return checksum
