"""The shape of a journal: the checksum of each block, and which epoch made it. Not the blocks."""

from array import array
from bisect import bisect_right

from routelog.mirror_cluster.protocol.block import START, Block, Mark


class Chain:
    """The blocks of a journal behind its base, by position: 4 bytes of memory each.

    Attributes:
        base: the block that the journal begins behind. What it and those before it said is in a checkpoint.
    """

    def __init__(self, base: Mark = START) -> None:
        self.base = base
        self._checksums = array("I")
        self._epochs = [base.epoch]  # rising
        self._firsts = [
            base.position
        ]  # the first position of each, that of the base for the base's

    @property
    def end(self) -> Mark:
        """The last block."""
        if not self._checksums:
            return self.base
        return Mark(self.end_position, self._epochs[-1], self._checksums[-1])

    @property
    def end_position(self) -> int:
        """The last block's position."""
        return self.base.position + len(self._checksums)

    def mark(self, position: int) -> Mark | None:
        """The block at a position; None if it is not there, or before the base."""
        index = position - self.base.position
        if not 0 < index <= len(self._checksums):
            return self.base if index == 0 else None
        epoch = self._epochs[bisect_right(self._firsts, position) - 1]
        return Mark(position, epoch, self._checksums[index - 1])

    def extend(self, block: Block | Mark) -> None:
        """Add a block that follows the end; its place says enough of it."""
        if block.epoch != self._epochs[-1]:
            self._epochs.append(block.epoch)
            self._firsts.append(block.position)
        self._checksums.append(block.checksum)

    def truncate(self, position: int) -> None:
        """Forget the blocks behind a position, which is not before the base."""
        del self._checksums[position - self.base.position :]
        while len(self._firsts) > 1 and self._firsts[-1] > position:
            self._firsts.pop()
            self._epochs.pop()

    def rebase(self, position: int) -> None:
        """Begin behind this block: the journal's files before it were recycled."""
        base = self.mark(position)
        if base is None or base == self.base:
            return
        del self._checksums[: position - self.base.position]
        keep = bisect_right(self._firsts, position) - 1
        del self._firsts[:keep]
        del self._epochs[:keep]
        self._firsts[0] = position
        self.base = base

    def epoch_end(self, epoch: int) -> Mark | None:
        """The last block of an epoch; None if there is none, or only before the base."""
        place = bisect_right(self._epochs, epoch) - 1
        if place < 0 or self._epochs[place] != epoch:
            return None
        last = place == len(self._firsts) - 1
        return self.end if last else self.mark(self._firsts[place + 1] - 1)

    def epoch_ends(self) -> tuple[Mark, ...]:
        """The last block of each epoch, oldest first."""
        marks = [self.mark(first - 1) for first in self._firsts[1:]]
        return (*(mark for mark in marks if mark is not None), self.end)
