"""A cache of pieces of logs that were read from remote storage.

A request takes tens of milliseconds, so a piece is larger than one of a segment on the disk, and the next one
comes before its reader asks for it. Readers who are at the same place share a piece: it stays behind the first
of them until others need the room.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from routelog.log_backend.partitions.tail import Tail
from routelog.log_backend.records.record_batch import RecordBatch

REQUEST_BYTES = 8 * 1024 * 1024  # storage takes tens of milliseconds to answer, then sends 100 MB/s
REQUEST_BYTES_MIN = 1024 * 1024
# With more pieces that are being read, requests are smaller: so many fit at once.
PIECES_OF_FULL_SIZE = 8
KEPT_MIN = 4  # pieces that are kept, however large they are: of two threads, and of two readers
UNREAD_SECONDS_MAX = 60.0  # a piece in which nobody reads any more has lost its reader


class Piece:
    """All records of one partition with offsets in [first, end); there may be none.

    Attributes:
        is_entered: somebody has begun to read it.
        is_finished: somebody has begun to read the piece behind it.
    """

    __slots__ = ("end", "first", "is_entered", "is_finished", "number", "tail", "used_at")

    def __init__(self, number: int, first: int, end: int, batches: Sequence[RecordBatch]) -> None:
        self.number = number
        self.first = first
        self.end = end
        self.tail = Tail()
        for batch in batches:
            self.tail.append(batch)
        self.is_entered = self.is_finished = False
        self.used_at = 0.0


class RemotePieces:
    """The pieces of all partitions, with a limit of memory.

    Pieces that a reader has left behind go first, then those that nobody has used for longest.

    Attributes:
        bytes: of the batches that are kept.

    Args:
        bytes_max: only KEPT_MIN pieces may exceed it.
        monotonic: seconds.
    """

    def __init__(self, bytes_max: int, monotonic: Callable[[], float]) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._monotonic = monotonic
        # Least recently used first
        self._unfinished: OrderedDict[Piece, None] = OrderedDict()
        self._finished: OrderedDict[Piece, None] = OrderedDict()
        self._by_partition: dict[int, list[Piece]] = {}

    @property
    def request_bytes(self) -> int:
        """How much to ask for at once: less with many readers at places of their own."""
        most = self._bytes_max // max(PIECES_OF_FULL_SIZE, len(self._unfinished) + 1)
        return max(REQUEST_BYTES_MIN, min(REQUEST_BYTES, most))

    @property
    def may_read_ahead(self) -> bool:
        """Whether there is room for a piece that nobody has asked for."""
        return (len(self._unfinished) + 1) * self.request_bytes <= self._bytes_max

    def add(self, number: int, first: int, end: int, batches: Sequence[RecordBatch]) -> None:
        """Keep all that partition `number` has of the offsets [first, end)."""
        piece = Piece(number, first, end, batches)
        piece.used_at = now = self._monotonic()
        self._by_partition.setdefault(number, []).append(piece)
        self._unfinished[piece] = None
        self.bytes += piece.tail.bytes
        for each in list(self._unfinished):
            if each.used_at > now - UNREAD_SECONDS_MAX:
                break
            self._drop(each)
        while self.bytes > self._bytes_max and self._count > KEPT_MIN:
            self._drop(next(iter(self._finished or self._unfinished)))

    def find(self, number: int, offset: int) -> Piece | None:
        """The piece of a partition that has an offset."""
        for piece in self._by_partition.get(number, ()):
            if piece.first <= offset < piece.end:
                return piece
        return None

    def use(self, piece: Piece) -> bool:
        """Note that somebody reads a piece; returns whether it is the first time."""
        piece.used_at = self._monotonic()
        (self._finished if piece.is_finished else self._unfinished).move_to_end(piece)
        if piece.is_entered:
            return False
        piece.is_entered = True
        for each in self._by_partition[piece.number]:
            if each.end == piece.first and not each.is_finished:
                each.is_finished = True
                del self._unfinished[each]
                self._finished[each] = None
        return True

    def forget(self, number: int) -> None:
        """Drop all pieces of a partition."""
        for piece in list(self._by_partition.get(number, ())):
            self._drop(piece)

    @property
    def _count(self) -> int:
        return len(self._unfinished) + len(self._finished)

    def _drop(self, piece: Piece) -> None:
        pieces = self._by_partition[piece.number]
        pieces.remove(piece)
        if not pieces:
            del self._by_partition[piece.number]
        del (self._finished if piece.is_finished else self._unfinished)[piece]
        self.bytes -= piece.tail.bytes
