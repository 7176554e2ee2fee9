"""Pieces of partitions' logs that were read back from their segments, for readers that are far behind."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from routelog.log_backend.partitions.tail import Tail
from routelog.log_backend.records.record_batch import RecordBatch

# However large: two threads bring one each, and those before are being handed out. A piece that goes before
# its reader has looked at it is read again and again.
KEPT_MIN = 4


@dataclass(slots=True, eq=False)
class _Piece:
    # All that there is of one partition from one offset up to another.
    owner: "LoadedPieces"
    first: int
    end: int
    tail: Tail


class PieceBudget:
    """The memory of all partitions' pieces: the one that was used longest ago goes first.

    Attributes:
        bytes: of the batches that are kept.

    Args:
        bytes_max: more only in the KEPT_MIN pieces used last.
    """

    __slots__ = ("_bytes_max", "_pieces", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pieces: OrderedDict[_Piece, None] = OrderedDict()  # last used last
        self.bytes = 0

    def take(self, piece: _Piece) -> None:
        """Account for a piece, and let go of others."""
        self._pieces[piece] = None
        self.bytes += piece.tail.bytes
        while self.bytes > self._bytes_max and len(self._pieces) > KEPT_MIN:
            oldest = next(iter(self._pieces))
            oldest.owner.drop(oldest)

    def use(self, piece: _Piece) -> None:
        """Somebody reads it."""
        self._pieces.move_to_end(piece)

    def release(self, piece: _Piece) -> None:
        """It is gone."""
        del self._pieces[piece]
        self.bytes -= piece.tail.bytes


class LoadedPieces:
    """The pieces of one partition: about one for each place where somebody reads."""

    __slots__ = ("_budget", "_pieces")

    def __init__(self, budget: PieceBudget) -> None:
        self._budget = budget
        self._pieces: list[_Piece] = []  # last used last

    def add(self, first: int, batches: Sequence[RecordBatch]) -> None:
        """Keep the batches that were read for an offset: all that there are from it to their end.

        A piece that ends there goes: its reader goes on with this one. Another reader of it loads it
        again, once.
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
        """The batch that holds an offset, or the next one of its piece; None: nobody has read it."""
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
        """Forget one."""
        self._pieces.remove(piece)
        self._budget.release(piece)

    def clear(self) -> None:
        """Forget all of them."""
        for piece in self._pieces:
            self._budget.release(piece)
        self._pieces.clear()
