"""A chunk: which of 65,536 adjacent offsets are settled, as runs or as a bitmap, whichever is smaller.

A chunk with one hole, or one settled offset, takes a few bytes; all full chunks share one object; no chunk is
larger than a bitmap. Both forms have the same methods. When `misfit` is set, the owner replaces the chunk by
`smallest`.
"""

import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, pairwise

CHUNK_OFFSETS = 65_536
BITMAP_BYTES = CHUNK_OFFSETS // 8
BORDERS_MAX = BITMAP_BYTES // 2  # of two bytes each; with more, a bitmap is smaller
BORDERS_LOW = BORDERS_MAX // 2  # a bitmap becomes runs only below this, not to change to and fro
HOLES_LOW = 512  # a bitmap with fewer holes has at most 1,026 borders

# A regular expression finds the first byte with a hole at the speed of C
_NOT_FULL = re.compile(rb"[^\xff]")
_NOT_EMPTY = re.compile(rb"[^\x00]")


class Runs:
    """A chunk as the borders of its runs.

    Attributes:
        borders: ascending places; [first, second) is settled, [second, third) is not, and so on. A run to the
            end of the chunk has no second border.
        misfit: another form is smaller.
    """

    __slots__ = ("borders", "misfit")

    def __init__(self, borders: "array[int] | None" = None) -> None:
        self.borders = array("H") if borders is None else borders
        self.misfit = False

    def add(self, low: int, high: int) -> int:
        """Settle the places [low, high), at least one; returns how many were not."""
        borders = self.borders
        at = bisect_right(borders, low)
        if bisect_left(borders, high, at) > at:
            added = high - low - self.count(low, high)
            if added:
                self._replace(low, high)
            return added
        if at & 1:
            return 0
        # [low, high) is a hole, or part of one.
        if at and borders[at - 1] == low and high < CHUNK_OFFSETS:
            if at < len(borders) and borders[at] == high:
                del borders[at - 1 : at + 1]
                self._fit()
            else:
                borders[at - 1] = high  # the run before it grows, as with acks in order
        else:
            self._replace(low, high)
        return high - low

    def _replace(self, low: int, high: int) -> None:
        borders = self.borders
        at, behind = bisect_left(borders, low), bisect_right(borders, high)
        edges = array("H")
        if not at & 1:
            edges.append(low)
        if not behind & 1 and high < CHUNK_OFFSETS:
            edges.append(high)
        borders[at:behind] = edges
        self._fit()

    def _fit(self) -> None:
        borders = self.borders
        self.misfit = len(borders) > BORDERS_MAX or (len(borders) == 1 and borders[0] == 0)

    def __contains__(self, place: int) -> bool:
        """Whether a place is settled."""
        return bool(bisect_right(self.borders, place) & 1)

    def settled_from(self, place: int) -> int:
        """The first settled place at or above a place, or CHUNK_OFFSETS."""
        return self._next(place, 1)

    def unsettled_from(self, place: int) -> int:
        """The first unsettled place at or above a place, or CHUNK_OFFSETS."""
        return self._next(place, 0)

    def _next(self, place: int, settled: int) -> int:
        borders = self.borders
        at = bisect_right(borders, place)
        if at & 1 == settled:
            return place
        return borders[at] if at < len(borders) else CHUNK_OFFSETS

    def count(self, low: int, high: int) -> int:
        """How many places of [low, high) are settled."""
        borders = self.borders
        at, behind = bisect_right(borders, low), bisect_left(borders, high)
        if at == behind:
            return high - low if at & 1 else 0
        edges = [low, *borders[at:behind], high]
        return sum(end - first for first, end in list(pairwise(edges))[1 - (at & 1) :: 2])

    def smallest(self) -> "Chunk":
        """The same places in the form that needs the least memory."""
        borders = self.borders
        if len(borders) == 1 and borders[0] == 0:
            return FULL
        return Bitmap.of(self) if len(borders) > BORDERS_MAX else self

    def runs(self) -> "zip[tuple[int, int]]":
        """First place and end of every run."""
        return zip(self.borders[::2], chain(self.borders[1::2], (CHUNK_OFFSETS,)), strict=False)

    def encode(self) -> bytes:
        """The borders, u16 each, little-endian."""
        return struct.pack(f"<{len(self.borders)}H", *self.borders)

    @classmethod
    def decode(cls, content: bytes) -> "Runs":
        """Read what `encode` wrote.

        Raises:
            ValueError: it is not ascending borders.
        """
        borders = array("H", struct.unpack(f"<{len(content) // 2}H", content[: len(content) & ~1]))
        ascending = all(first < second for first, second in pairwise(borders))
        if len(content) & 1 or not borders or not ascending:
            raise ValueError("runs are not in ascending order")
        return cls(borders)


FULL = Runs(array("H", (0,)))  # one run from the first place on; shared, and never changed


class Bitmap:
    """A chunk as one bit a place, least significant bit first.

    Attributes:
        bits: 8 KiB.
        settled: how many bits are set.
        misfit: another form is smaller.
    """

    __slots__ = ("bits", "misfit", "settled")

    def __init__(self, bits: bytearray) -> None:
        self.bits = bits
        self.settled = int.from_bytes(bits, "little").bit_count()
        self.misfit = False

    @classmethod
    def of(cls, runs: Runs) -> "Bitmap":
        """The bitmap of a chunk of runs."""
        bits = bytearray(BITMAP_BYTES)
        for first, end in runs.runs():
            set_bits(bits, first, end)
        return cls(bits)

    def add(self, low: int, high: int) -> int:
        """Settle the places [low, high), at least one; returns how many were not."""
        added = set_bits(self.bits, low, high)
        self.settled += added
        self.misfit = self.settled > CHUNK_OFFSETS - HOLES_LOW
        return added

    def merge(self, bits: int) -> int:
        """Settle the places whose bits are set in a number; returns how many were not."""
        before = int.from_bytes(self.bits, "little")
        self.bits[:] = (before | bits).to_bytes(BITMAP_BYTES, "little")
        added = (bits & ~before).bit_count()
        self.settled += added
        self.misfit = self.settled > CHUNK_OFFSETS - HOLES_LOW
        return added

    def __contains__(self, place: int) -> bool:
        """Whether a place is settled."""
        return bool(self.bits[place >> 3] >> (place & 7) & 1)

    def settled_from(self, place: int) -> int:
        """The first settled place at or above a place, or CHUNK_OFFSETS."""
        return _find(self.bits, place, 0, _NOT_EMPTY)

    def unsettled_from(self, place: int) -> int:
        """The first unsettled place at or above a place, or CHUNK_OFFSETS."""
        return _find(self.bits, place, 0xFF, _NOT_FULL)

    def count(self, low: int, high: int) -> int:
        """How many places of [low, high) are settled."""
        bits = int.from_bytes(self.bits[low >> 3 : (high + 7) >> 3], "little") >> (low & 7)
        return (bits & ((1 << (high - low)) - 1)).bit_count()

    def smallest(self) -> "Chunk":
        """The same places in the form that needs the least memory."""
        bits = int.from_bytes(self.bits, "little")
        if (bits ^ bits << 1).bit_count() > BORDERS_LOW:
            return self
        borders = array("H")
        place = self.settled_from(0)
        while place < CHUNK_OFFSETS:
            borders.append(place)
            place = self.unsettled_from(place)
            if place < CHUNK_OFFSETS:
                borders.append(place)
                place = self.settled_from(place)
        return Runs(borders).smallest()

    def encode(self) -> bytes:
        """The bits."""
        return bytes(self.bits)

    @classmethod
    def decode(cls, content: bytes) -> "Bitmap":
        """Read what `encode` wrote.

        Raises:
            ValueError: it has another length.
        """
        if len(content) != BITMAP_BYTES:
            raise ValueError(f"a bitmap of {len(content)} bytes")
        return cls(bytearray(content))


Chunk = Runs | Bitmap


def set_bits(bits: bytearray, low: int, high: int) -> int:
    """Set the bits [low, high) of a bitmap; returns how many were clear."""
    if high - low == 1:
        byte = bits[low >> 3]
        bits[low >> 3] = byte | 1 << (low & 7)
        return 1 - (byte >> (low & 7) & 1)
    first_byte, last_byte = low >> 3, (high - 1) >> 3
    width = last_byte - first_byte + 1
    mask = ((1 << (high - low)) - 1) << (low & 7)
    before = int.from_bytes(bits[first_byte : last_byte + 1], "little")
    after = before | mask
    bits[first_byte : last_byte + 1] = after.to_bytes(width, "little")
    return after.bit_count() - before.bit_count()


def _find(bits: bytearray, place: int, flip: int, other: "re.Pattern[bytes]") -> int:
    # The first place at or above `place` with a set bit after flipping, or CHUNK_OFFSETS.
    byte = (bits[place >> 3] ^ flip) >> (place & 7)
    if byte:
        return place + (byte & -byte).bit_length() - 1
    match = other.search(bits, (place >> 3) + 1)
    if match is None:
        return CHUNK_OFFSETS
    at = match.start()
    byte = bits[at] ^ flip
    return at * 8 + (byte & -byte).bit_length() - 1
