"""The chain of a journal's blocks: each carries the checksum of the one before.

So the checksum of one block stands for everything before it: two journals with the same checksum at the same
position are the same up to there. It is the CRC-32C of, little-endian::

     0  shard     u32  number of the journal; a node on its own has one, 0
     4  epoch     u64  of the leader that made the block; each start of a node on its own begins one
    12  position  u64
    20  previous  u32  checksum of the block before
    24  entries, as they stand in the block
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from routelog.log_backend.records.checksum import crc32c, crc32c_joined, crc32c_on

_HEAD = struct.Struct("<IQQI")


class Link(Protocol):
    """A block, as far as it says which one it follows."""

    @property
    def position(self) -> int:
        """One more than that of the block before."""

    @property
    def epoch(self) -> int:
        """Of the leader that made it."""

    @property
    def previous(self) -> int:
        """Checksum of the block before."""


class Mark(NamedTuple):
    """A place in a chain of blocks: the block at `position`, or before the first one if that is 0."""

    position: int
    epoch: int
    checksum: int

    def precedes(self, block: Link) -> bool:
        """Whether a block is the next one of the chain that ends here."""
        return (
            block.position == self.position + 1
            and block.previous == self.checksum
            and block.epoch >= self.epoch
        )


START = Mark(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ShardBlock:
    """One block of a shard's journal, as replicas compare it.

    Attributes:
        epoch: of the leader that made it; it never falls from one block to the next.
        position: one more than that of the block before it, from 1.
        previous: checksum of the block before it.
        payload: entries of the journal; empty in the block with which a leader begins its epoch. A view where
            it is part of a larger buffer, which nobody changes.
        checksum: CRC-32C of all that.
    """

    shard: int
    epoch: int
    position: int
    previous: int
    payload: bytes | memoryview
    checksum: int

    @classmethod
    def following(cls, end: Mark, shard: int, epoch: int, payload: bytes) -> "ShardBlock":
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

    @property
    def payload_checksum(self) -> int:
        """CRC-32C of the payload alone, if the block is intact: it is not looked at."""
        head = crc32c(_HEAD.pack(self.shard, self.epoch, self.position, self.previous))
        checksum: int = crc32c_joined(head, self.checksum, len(self.payload))
        return checksum

    def follows(self, end: Mark) -> bool:
        """Whether it is the next block of the chain that ends there."""
        return end.precedes(self)


def _checksum(
    shard: int, epoch: int, position: int, previous: int, payload: bytes | memoryview
) -> int:
    checksum: int = crc32c_on(crc32c(_HEAD.pack(shard, epoch, position, previous)), payload)
    return checksum
