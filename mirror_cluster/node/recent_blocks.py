"""The newest blocks of a journal, in memory: followers that keep up get theirs without a read."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from routelog.mirror_cluster.protocol.block import Block


class RecentBlocks:
    """Blocks that follow each other.

    Args:
        bytes_max: of payloads; the newest block is kept however long it is.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._blocks: deque[Block] = deque()

    def add(self, block: Block) -> None:
        """The next block; behind a gap, only those behind the gap are kept."""
        if self._blocks and self._blocks[-1].position + 1 != block.position:
            self.clear()
        self._blocks.append(block)
        self._bytes += len(block.payload)
        while self._bytes > self._bytes_max and len(self._blocks) > 1:
            self._bytes -= len(self._blocks.popleft().payload)

    def truncate(self, position: int) -> None:
        """Forget those behind a position."""
        while self._blocks and self._blocks[-1].position > position:
            self._bytes -= len(self._blocks.pop().payload)

    def clear(self) -> None:
        """Forget all."""
        self._blocks.clear()
        self._bytes = 0

    def between(self, after: int, end: int) -> Sequence[Block]:
        """The blocks (after, end]; empty when not all of them are here."""
        if not self._blocks or end > self._blocks[-1].position:
            return ()
        first = after + 1 - self._blocks[0].position
        if first < 0:
            return ()
        count = end - after
        if first + count == len(self._blocks) and count == 1:  # nearly always
            return (self._blocks[-1],)
        return tuple(islice(self._blocks, first, first + count))
