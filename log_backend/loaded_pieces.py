"""Pieces of a partition's log that were read back from its segments, for readers that are far behind."""

from collections.abc import Sequence

from log_backend.record_batch import RecordBatch
from log_backend.tail import Tail

# About 1 MiB each: so many readers of one log can be far behind, each at a place of its own, before one
# takes the piece of another, which then reads it from the disk for every few messages.
PIECES_MAX = 16


class LoadedPieces:
    """The pieces that were used last: about one for each place where somebody reads."""

    __slots__ = ("_pieces", "_pieces_max")

    def __init__(self, pieces_max: int) -> None:
        self._pieces: list[tuple[int, int, Tail]] = []  # first offset, end, batches; last used last
        self._pieces_max = pieces_max

    def add(self, first: int, batches: Sequence[RecordBatch]) -> None:
        """Keep the batches that were read for an offset: all that there are from it to their end.

        A piece that ends there goes: its reader goes on with this one. Another reader of it loads it
        again, once.
        """
        if not batches:
            return
        tail = Tail()
        for batch in batches:
            tail.append(batch)
        kept = [piece for piece in self._pieces if piece[1] != first]
        kept.append((first, batches[-1].end_offset, tail))
        self._pieces = kept[-self._pieces_max :]

    def find(self, offset: int) -> RecordBatch | None:
        """The batch that holds an offset, or the next one of its piece; None: nobody has read it."""
        for at in range(len(self._pieces) - 1, -1, -1):
            first, end, tail = self._pieces[at]
            if first <= offset < end:
                if at < len(self._pieces) - 1:
                    self._pieces.append(self._pieces.pop(at))
                found: RecordBatch | None = tail.find(offset)
                return found
        return None

    def clear(self) -> None:
        """Forget all of them."""
        self._pieces.clear()
