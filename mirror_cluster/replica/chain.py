"""The shape of a journal: checksum and size of each block, and which epoch made it. Not the blocks."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from routelog.log_backend import START, Mark, ShardBlock

HEAD_BYTES = 32  # of a block in a message, beside its payload


class Chain:
    """The blocks of a journal behind its base, by position: 12 bytes of memory each.

    Attributes:
        base: the block that the journal begins behind. What it and those before it said is in a checkpoint.
    """

    def __init__(self, base: Mark = START) -> None:
        self.base = base
        self._checksums = array("I")
        # The size of each block and all before it, those before the base
        self._byte_ends = array("Q")
        self._base_bytes = 0
        self._epochs = [base.epoch]  # rising
        # The first position of each, that of the base for the base's
        self._firsts = [base.position]

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

    def reach(self, after: int, bytes_max: int) -> int:
        """Position up to which the blocks behind another one are at most so many bytes; one block at least."""
        index = max(after - self.base.position, 0)
        limit = bytes_max + (self._byte_ends[index - 1] if index else self._base_bytes)
        fits = bisect_right(self._byte_ends, limit, min(index, len(self._byte_ends)))
        return min(self.base.position + max(fits, index + 1), self.end_position)

    def extend(self, block: ShardBlock) -> None:
        """Add a block that follows the end."""
        self.add(block.mark, len(block.payload))

    def add(self, mark: Mark, payload_bytes: int) -> None:
        """Add a block that follows the end, from what is known of one that recovery has found."""
        if mark.epoch != self._epochs[-1]:
            self._epochs.append(mark.epoch)
            self._firsts.append(mark.position)
        self._checksums.append(mark.checksum)
        before = self._byte_ends[-1] if self._byte_ends else self._base_bytes
        self._byte_ends.append(before + HEAD_BYTES + payload_bytes)

    def truncate(self, position: int) -> None:
        """Forget the blocks behind a position, which is not before the base."""
        del self._checksums[position - self.base.position :]
        del self._byte_ends[position - self.base.position :]
        while len(self._firsts) > 1 and self._firsts[-1] > position:
            self._firsts.pop()
            self._epochs.pop()

    def rebase(self, position: int) -> None:
        """Begin behind this block: the journal's files before it were recycled."""
        base = self.mark(position)
        if base is None or base == self.base:
            return
        gone = position - self.base.position
        self._base_bytes = self._byte_ends[gone - 1]
        del self._checksums[:gone]
        del self._byte_ends[:gone]
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

    def common_point(self, epoch_ends: Sequence[Mark]) -> Mark | None:
        """The last block that this journal, a leader's, and a follower's have in common.

        One leader makes all blocks of an epoch, so of two journals that both have some of an epoch, one has
        the start of what the other has. The newest epoch that both know decides; the checksums say whether
        that is so.

        Args:
            epoch_ends: the follower's, oldest first.

        Returns:
            The block; None when it is before the base, or the checksums contradict the epochs: then the
            follower needs a copy.

        Source:
            Kafka's KIP-101 and KIP-279, with a checksum over the whole past added.
        """
        for theirs in reversed(epoch_ends):
            end = self.epoch_end(theirs.epoch)
            if end is None:
                continue
            if end.position < theirs.position:
                return end  # the follower holds its own checksum against it
            return theirs if self.mark(theirs.position) == theirs else None
        return None
