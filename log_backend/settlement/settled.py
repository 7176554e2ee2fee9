# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""Which offsets of a partition are settled: a low-water mark and chunks above it.

Offsets settle out of order, so there are holes above the mark. They are kept in chunks of 65,536 offsets
(`settled_chunk.py`). Memory depends on the number of holes, and is at most one bit for each offset.
"""

from collections.abc import Iterator

import cython

from routelog.log_backend.settlement.settled_chunk import (
    BITMAP_BYTES,
    CHUNK_OFFSETS,
    Bitmap,
    Chunk,
    Runs,
)

_CHUNK_MASK = (1 << CHUNK_OFFSETS) - 1


@cython.final
@cython.cclass
class SettledSet:
    """A set of offsets that only grows.

    Attributes:
        low_water: the lowest offset that is not settled.
        chunks: by number; only chunks with settled offsets above `low_water`.
        dirty_chunks: numbers of the chunks that were changed or removed since the last snapshot.
    """

    __slots__ = ("chunks", "dirty_chunks", "low_water")

    def __init__(self, low_water: int = 0) -> None:
        self.low_water = low_water
        self.chunks: dict[int, Chunk] = {}
        # A dict: an empty set, one for each cursor, would take three times as much
        self.dirty_chunks: dict[int, None] = {}

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(first=cython.longlong, end=cython.longlong, low_water=cython.longlong)
    def settle(self, first: int, end: int) -> int:
        """Settle [first, end); returns how many of them were not settled before."""
        low_water = self.low_water
        if first < low_water:
            first = low_water
        if first >= end:
            return 0
        if first > low_water:
            return self._mark(first, end)
        if not self.chunks:
            self.low_water = end
            return end - first
        return self._settle_lowest(end)

    def settle_bits(self, first: int, bitmap: bytes) -> int:
        """Settle the offsets whose bits are set, counted from `first`; returns how many were not before."""
        added = 0
        bits = int.from_bytes(bitmap, "little")
        if first < self.low_water:
            bits >>= self.low_water - first
            first = self.low_water
        number, place = divmod(first, CHUNK_OFFSETS)
        bits <<= place
        while bits:
            piece = bits & _CHUNK_MASK
            if piece:
                added += self._merge(number, piece)
            bits >>= CHUNK_OFFSETS
            number += 1
        if self.low_water in self:
            self._settle_lowest(self.low_water + 1)
        return added

    def _merge(self, number: int, bits: int) -> int:
        chunk = self.chunks.get(number)
        if isinstance(chunk, Runs):
            chunk = Bitmap.of(chunk)
        elif chunk is None:
            chunk = Bitmap(bytearray(BITMAP_BYTES))
        added = chunk.merge(bits)
        self.chunks[number] = chunk.smallest() if chunk.misfit else chunk
        self.dirty_chunks[number] = None
        return added

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is settled."""
        if offset < self.low_water:
            return True
        chunk = self.chunks.get(offset // CHUNK_OFFSETS)
        return chunk is not None and offset % CHUNK_OFFSETS in chunk

    def unsettled_from(self, offset: int) -> int:
        """The first unsettled offset at or above an offset."""
        offset = max(offset, self.low_water)
        while (chunk := self.chunks.get(offset // CHUNK_OFFSETS)) is not None:
            place = chunk.unsettled_from(offset % CHUNK_OFFSETS)
            offset += place - offset % CHUNK_OFFSETS
            if place < CHUNK_OFFSETS:
                break
        return offset

    def settled_from(self, offset: int, end: int) -> int:
        """The first settled offset in [offset, end), or `end`; the offset is not below the mark."""
        if not self.chunks:
            return end
        while offset < end:
            chunk = self.chunks.get(offset // CHUNK_OFFSETS)
            base = offset - offset % CHUNK_OFFSETS
            if chunk is not None:
                place = chunk.settled_from(offset - base)
                if place < CHUNK_OFFSETS:
                    return min(base + place, end)
            offset = base + CHUNK_OFFSETS
        return end

    def count_from(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are settled."""
        total = max(0, min(self.low_water, end) - first)
        first = max(first, self.low_water)
        if self.chunks and first < end:
            for number in self._numbers(first // CHUNK_OFFSETS, (end - 1) // CHUNK_OFFSETS + 1):
                base = number * CHUNK_OFFSETS
                low, high = max(first - base, 0), min(end - base, CHUNK_OFFSETS)
                total += self.chunks[number].count(low, high)
        return total

    def restore_chunk(self, number: int, chunk: Chunk) -> None:
        """Restore a chunk of a snapshot."""
        if (number + 1) * CHUNK_OFFSETS > self.low_water:
            self.chunks[number] = chunk.smallest()

    def shrink(self) -> None:
        """Convert the chunks that changed since the last snapshot to their smallest form."""
        for number in self.dirty_chunks:
            chunk = self.chunks.get(number)
            if chunk is not None:
                self.chunks[number] = chunk.smallest()

    def _mark(self, first: int, end: int) -> int:
        added = 0
        chunks = self.chunks
        while first < end:
            number, low = divmod(first, CHUNK_OFFSETS)
            high = end - first + low
            if high > CHUNK_OFFSETS:
                high = CHUNK_OFFSETS
            chunk = chunks.get(number)
            if chunk is None:
                chunk = chunks[number] = Runs()
            added += chunk.add(low, high)
            if chunk.misfit:
                chunks[number] = chunk.smallest()
            self.dirty_chunks[number] = None
            first += high - low
        return added

    def _settle_lowest(self, end: int) -> int:
        # Settles all offsets from the mark up to `end`, and removes chunks below the new mark.
        first = self.low_water
        added = end - first - self.count_from(first, end)
        self.low_water = low_water = self.unsettled_from(end)
        number = low_water // CHUNK_OFFSETS
        for passed in self._numbers(first // CHUNK_OFFSETS, number):
            del self.chunks[passed]
            self.dirty_chunks[passed] = None
        chunk = self.chunks.get(number)
        if chunk is not None and chunk.settled_from(low_water % CHUNK_OFFSETS) == CHUNK_OFFSETS:
            del self.chunks[number]
            self.dirty_chunks[number] = None
        return added

    def _numbers(self, first: int, end: int) -> list[int]:
        # Numbers of the existing chunks in [first, end), which may be a wide range.
        if end - first > len(self.chunks):
            return [number for number in self.chunks if first <= number < end]
        return [number for number in range(first, end) if number in self.chunks]


def pieces(first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Cut [first, end) at chunk borders: chunk number, first and end place within it."""
    while first < end:
        number, low = divmod(first, CHUNK_OFFSETS)
        high = min(CHUNK_OFFSETS, end - number * CHUNK_OFFSETS)
        yield number, low, high
        first = number * CHUNK_OFFSETS + high
