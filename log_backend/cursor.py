"""A cursor: what one reader of a partition has settled, in memory and on its way to the journal."""

import struct
import zlib
from collections.abc import Callable, Iterable

from log_backend.metadata import Change
from log_backend.settled import SettledSet

# Keys of the metadata store, integers big-endian:
#   b"cursors/" partition u64, cursor u32             -> low water u64, next offset u64, synced offset u64
#   b"cursors/" partition u64, cursor u32, chunk u64  -> bitmap of the chunk, compressed with zlib
_PREFIX = b"cursors/"
_KEY = struct.Struct(">QI")
_CHUNK = struct.Struct(">Q")
_MARKS = struct.Struct(">QQQ")


class Cursor:
    """The progress of one reader of a partition.

    Attributes:
        number: of the cursor within its partition; 0 is the queue's own.
        settled: the offsets it is done with.
    """

    __slots__ = ("_on_settled", "_unjournaled", "number", "settled")

    def __init__(self, number: int, on_settled: Callable[[], None] | None) -> None:
        self.number = number
        self.settled = SettledSet()
        self._on_settled = on_settled
        self._unjournaled: list[tuple[int, int]] = []

    @property
    def low_water(self) -> int:
        """Every offset below is settled."""
        return self.settled.low_water

    def settle(self, first: int, end: int) -> int:
        """Settle [first, end); returns how many were not settled before."""
        added = self.settled.settle(first, end)
        if added and self._on_settled is not None:
            ranges = self._unjournaled
            if ranges and ranges[-1][1] == first:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((first, end))
            if len(ranges) == 1:
                self._on_settled()
        return added

    def take_unjournaled(self) -> list[tuple[int, int]]:
        """The ranges settled since the last call."""
        ranges, self._unjournaled = self._unjournaled, []
        return ranges

    def snapshot(self, partition: int, next_offset: int, synced_offset: int) -> list[Change]:
        """The metadata changes that bring the stored snapshot up to date."""
        key = _PREFIX + _KEY.pack(partition, self.number)
        marks = _MARKS.pack(self.low_water, next_offset, synced_offset)
        changes = [Change(key, marks)]
        for number in self.settled.dirty_chunks:
            bitmap = self.settled.chunks.get(number)
            content = None if bitmap is None else zlib.compress(bitmap, 1)
            changes.append(Change(key + _CHUNK.pack(number), content))
        self.settled.dirty_chunks.clear()
        return changes

    def restore(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
        """Load a snapshot from its keys and values.

        Returns:
            The partition's next offset and synced offset when the snapshot was made.
        """
        marks = (0, 0, 0)
        chunks: list[tuple[int, bytes]] = []
        for key, value in entries:
            rest = key[len(_PREFIX) + _KEY.size :]
            if rest:
                chunks.append((_CHUNK.unpack(rest)[0], zlib.decompress(value)))
            else:
                marks = _MARKS.unpack(value)
        self.settled.low_water = marks[0]
        for number, bitmap in chunks:
            self.settled.restore_chunk(number, bitmap)
        return marks[1], marks[2]


def partition_prefix(partition: int) -> bytes:
    """Prefix of the metadata keys of all cursors of a partition."""
    return _PREFIX + struct.pack(">Q", partition)


def cursor_prefix(partition: int, cursor: int) -> bytes:
    """Prefix of the metadata keys of one cursor."""
    return _PREFIX + _KEY.pack(partition, cursor)


def cursor_number(key: bytes) -> int:
    """Number of the cursor that a key of a snapshot belongs to."""
    number: int = _KEY.unpack_from(key, len(_PREFIX))[1]
    return number
