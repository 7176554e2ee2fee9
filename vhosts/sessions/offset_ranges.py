"""A set of offsets as disjoint ranges: mostly added at the end, and taken from the beginning."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

TAKEN_MIN = 1_024  # ranges at the beginning that are taken before the room of theirs is


class OffsetRanges:
    """Disjoint ranges [first, end) of offsets, in order; neighbours are one.

    Cost:
        Microseconds at both ends. In the middle, room is made in two lists: 0.1 ms for 100,000 ranges.
    """

    __slots__ = ("_begin", "_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._begin = 0  # index of the first range: those before it were taken

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._firsts) - self._begin

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The ranges, in order."""
        begin = self._begin
        return zip(self._firsts[begin:], self._ends[begin:], strict=True)

    def add(self, first: int, end: int) -> None:
        """Add [first, end), none of which it has."""
        firsts, ends = self._firsts, self._ends
        if len(firsts) == self._begin or first > ends[-1]:
            firsts.append(first)
            ends.append(end)
            return
        if first == ends[-1]:
            ends[-1] = end
            return
        at = bisect_left(firsts, first, self._begin)
        if at > self._begin and ends[at - 1] == first:
            at -= 1
            first = firsts[at]
            ends[at] = end
        else:
            firsts.insert(at, first)
            ends.insert(at, end)
        if at + 1 < len(firsts) and firsts[at + 1] == end:
            ends[at] = ends.pop(at + 1)
            del firsts[at + 1]

    def take(self, first: int, end: int) -> bool:
        """Remove [first, end), which is not empty; False: it has not all of that, and keeps what it has."""
        firsts, ends, at = self._firsts, self._ends, self._begin
        if at == len(firsts):
            return False
        if first >= ends[at]:
            at = bisect_right(firsts, first, at) - 1
        behind = ends[at]
        if not firsts[at] <= first < end <= behind:
            return False
        if first > firsts[at]:
            ends[at] = first
            if end < behind:
                firsts.insert(at + 1, end)
                ends.insert(at + 1, behind)
        elif end < behind:
            firsts[at] = end
        elif at == self._begin:
            self._pass_first()
        else:
            del firsts[at], ends[at]
        return True

    def _pass_first(self) -> None:
        # Taking the first one of a long list away would move all others each time.
        self._begin = taken = self._begin + 1
        if taken == len(self._firsts) or (taken >= TAKEN_MIN and 2 * taken >= len(self._firsts)):
            del self._firsts[:taken], self._ends[:taken]
            self._begin = 0
