"""A cache of pieces of logs that were read from segments, for readers that are far behind."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from routelog.log_backend.partitions.tail import Tail
from routelog.log_backend.records.record_batch import RecordBatch

# Pieces that are kept, however large they are: the two reading threads bring one each while two others are
# being delivered. A piece that is dropped before its reader has seen it is read again and again.
KEPT_MIN = 4


@dataclass(slots=True, eq=False)
class _Piece:
    # All records of one partition with offsets in [first, end).
    owner: "LoadedPieces"
    first: int
    end: int
    tail: Tail


class PieceBudget:
    """Limits the memory of all partitions' pieces; the least recently used one is dropped first.

    Attributes:
        bytes: of the batches that are kept.

    Args:
        bytes_max: only the KEPT_MIN pieces used last may exceed it.
    """

    __slots__ = ("_bytes_max", "_pieces", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pieces: OrderedDict[_Piece, None] = OrderedDict()  # least recently used first
        self.bytes = 0

    def take(self, piece: _Piece) -> None:
        """Count a new piece, and drop others if there are too many bytes."""
        self._pieces[piece] = None
        self.bytes += piece.tail.bytes
        while self.bytes > self._bytes_max and len(self._pieces) > KEPT_MIN:
            oldest = next(iter(self._pieces))
            oldest.owner.drop(oldest)

    def use(self, piece: _Piece) -> None:
        """Note that a piece was read."""
        self._pieces.move_to_end(piece)

    def release(self, piece: _Piece) -> None:
        """Stop counting a piece that was dropped."""
        del self._pieces[piece]
        self.bytes -= piece.tail.bytes


class LoadedPieces:
    """The pieces of one partition: about one for each reader."""

    __slots__ = ("_budget", "_pieces")

    def __init__(self, budget: PieceBudget) -> None:
        self._budget = budget
        self._pieces: list[_Piece] = []  # least recently used first

    def add(self, first: int, batches: Sequence[RecordBatch]) -> None:
        """Keep the batches that were read from an offset on, without gaps.

        A piece that ends at this offset is dropped, because its reader continues with the new one. If that
        piece has another reader, it is loaded once more.
        """
        if not batches:
            return
        for piece in [piece for piece in self._pieces if piece.end == first]:
            self.drop(piece)
        tail = Tail()
        for batch in batches:
            tail.append(batch)
        piece = _Piece(self, first, batches[-1].end_offset, tail)
        self._pieces.append(piece)
        self._budget.take(piece)

    def find(self, offset: int) -> RecordBatch | None:
        """The batch that holds an offset, or the next one of its piece; None: no piece has the offset."""
        for at in range(len(self._pieces) - 1, -1, -1):
            piece = self._pieces[at]
            if piece.first <= offset < piece.end:
                if at < len(self._pieces) - 1:
                    self._pieces.append(self._pieces.pop(at))
                self._budget.use(piece)
                found: RecordBatch | None = piece.tail.find(offset)
                return found
        return None

    def drop(self, piece: _Piece) -> None:
        """Drop a piece."""
        self._pieces.remove(piece)
        self._budget.release(piece)

    def clear(self) -> None:
        """Drop all pieces."""
        for piece in self._pieces:
            self._budget.release(piece)
        self._pieces.clear()
