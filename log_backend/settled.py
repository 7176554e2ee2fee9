"""Which offsets of a partition are settled: a low-water mark and bitmaps above it.

Offsets settle out of order, so above the mark there are holes. A chunk of 65,536 offsets that has
both kinds is a bitmap of 8 KiB; the cost follows the chunks with holes, not the backlog, and has no cap.
"""

import re
from collections.abc import Iterator

CHUNK_OFFSETS = 65_536
CHUNK_BYTES = CHUNK_OFFSETS // 8

_NOT_FULL = re.compile(rb"[^\xff]")  # finds the first byte with a hole, at the speed of C
_NOT_EMPTY = re.compile(rb"[^\x00]")


class SettledSet:
    """A set of offsets that only grows.

    Attributes:
        low_water: every offset below is settled; itself it is not.
        chunks: chunk number to bitmap, least significant bit first, for chunks above the mark in which
            some offset is settled.
        dirty_chunks: chunks that changed or went since the last snapshot.
    """

    __slots__ = ("chunks", "dirty_chunks", "low_water")

    def __init__(self, low_water: int = 0) -> None:
        self.low_water = low_water
        self.chunks: dict[int, bytearray] = {}
        self.dirty_chunks: set[int] = set()

    def settle(self, first: int, end: int) -> int:
        """Settle [first, end); returns how many of them were not settled before."""
        first = max(first, self.low_water)
        if first >= end:
            return 0
        if first == self.low_water and not self.chunks:
            self.low_water = end
            return end - first
        added = self._mark(first, end)
        if first == self.low_water:
            self._advance()
        return added

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is settled."""
        if offset < self.low_water:
            return True
        chunk = self.chunks.get(offset // CHUNK_OFFSETS)
        if chunk is None:
            return False
        place = offset % CHUNK_OFFSETS
        return bool(chunk[place >> 3] >> (place & 7) & 1)

    def unsettled_from(self, offset: int) -> int:
        """The first unsettled offset at or above an offset."""
        offset = max(offset, self.low_water)
        while (chunk := self.chunks.get(offset // CHUNK_OFFSETS)) is not None:
            place = _find(chunk, offset % CHUNK_OFFSETS, settled=False)
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
                place = _find(chunk, offset - base, settled=True)
                if place < CHUNK_OFFSETS:
                    return min(base + place, end)
            offset = base + CHUNK_OFFSETS
        return end

    def count_from(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are settled."""
        total = max(0, min(self.low_water, end) - first)
        first = max(first, self.low_water)
        for number, low, high in _pieces(first, end):
            chunk = self.chunks.get(number)
            if chunk is not None:
                bits = int.from_bytes(chunk, "little") >> low
                total += (bits & ((1 << (high - low)) - 1)).bit_count()
        return total

    def restore_chunk(self, number: int, bitmap: bytes) -> None:
        """Put back a chunk of a snapshot; call `settle` afterwards for later changes."""
        if (number + 1) * CHUNK_OFFSETS > self.low_water:
            self.chunks[number] = bytearray(bitmap)

    def _mark(self, first: int, end: int) -> int:
        added = 0
        for number, low, high in _pieces(first, end):
            chunk = self.chunks.setdefault(number, bytearray(CHUNK_BYTES))
            self.dirty_chunks.add(number)
            added += _set_bits(chunk, low, high)
        return added

    def _advance(self) -> None:
        self.low_water = self.unsettled_from(self.low_water)
        done = [number for number in self.chunks if (number + 1) * CHUNK_OFFSETS <= self.low_water]
        for number in done:
            del self.chunks[number]
            self.dirty_chunks.add(number)
        number = self.low_water // CHUNK_OFFSETS
        chunk = self.chunks.get(number)
        if chunk is not None and self._nothing_above(chunk):
            del self.chunks[number]
            self.dirty_chunks.add(number)

    def _nothing_above(self, chunk: bytearray) -> bool:
        return _find(chunk, self.low_water % CHUNK_OFFSETS, settled=True) == CHUNK_OFFSETS


def _pieces(first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Cut [first, end) at chunk borders: chunk number, first and end place within it."""
    while first < end:
        number, low = divmod(first, CHUNK_OFFSETS)
        high = min(CHUNK_OFFSETS, end - number * CHUNK_OFFSETS)
        yield number, low, high
        first = number * CHUNK_OFFSETS + high


def _set_bits(chunk: bytearray, low: int, high: int) -> int:
    """Set the bits [low, high); returns how many were clear."""
    first_byte, last_byte = low >> 3, (high - 1) >> 3
    width = last_byte - first_byte + 1
    mask = ((1 << (high - low)) - 1) << (low & 7)
    before = int.from_bytes(chunk[first_byte : last_byte + 1], "little")
    after = before | mask
    chunk[first_byte : last_byte + 1] = after.to_bytes(width, "little")
    return after.bit_count() - before.bit_count()


def _find(chunk: bytearray, place: int, *, settled: bool) -> int:
    """The first place at or above `place` whose bit has a value, or CHUNK_OFFSETS."""
    byte = chunk[place >> 3] ^ (0 if settled else 0xFF)
    byte >>= place & 7
    if byte:
        return place + (byte & -byte).bit_length() - 1
    match = (_NOT_EMPTY if settled else _NOT_FULL).search(chunk, (place >> 3) + 1)
    if match is None:
        return CHUNK_OFFSETS
    at = match.start()
    byte = chunk[at] ^ (0 if settled else 0xFF)
    return at * 8 + (byte & -byte).bit_length() - 1
