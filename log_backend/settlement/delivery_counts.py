"""Counts how often messages were redelivered: ranges of offsets with one count, in chunks of 65,536.

It has only messages that were redelivered and are not settled. A range is removed when all of its offsets are
settled; until then, settled offsets within it stay, so that the range is not split.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from routelog.log_backend.settlement.settled import SettledSet, pieces
from routelog.log_backend.settlement.settled_chunk import CHUNK_OFFSETS

CountedRange = tuple[int, int, int]  # first offset, end offset, count: 1 or more


class DeliveryCounts:
    """The counts of one cursor. They only rise.

    Attributes:
        chunks: number to ranges, ascending and disjoint, each within its chunk and with its first offset
            unsettled; no chunk is empty.
        dirty_chunks: numbers of the chunks that changed or went since the last snapshot.
    """

    __slots__ = ("_settled", "chunks", "dirty_chunks")

    def __init__(self, settled: SettledSet) -> None:
        self._settled = settled
        self.chunks: dict[int, list[CountedRange]] = {}
        self.dirty_chunks: set[int] = set()

    def __getitem__(self, offset: int) -> int:
        """How often the message at an unsettled offset was redelivered."""
        ranges = self.chunks.get(offset // CHUNK_OFFSETS, ())
        at = bisect_right(ranges, offset, key=_first) - 1
        return ranges[at][2] if at >= 0 and offset < ranges[at][1] else 0

    def reaching(self, first: int, end: int, count: int) -> list[tuple[int, int]]:
        """The parts of [first, end), all unsettled, that were redelivered at least `count` times.

        Args:
            count: 1 or more.
        """
        found: list[tuple[int, int]] = []
        for number, low, high in pieces(first, end):
            base = number * CHUNK_OFFSETS
            ranges = self.chunks.get(number, [])
            at = max(0, bisect_right(ranges, base + low, key=_first) - 1)
            for begin, stop, counted in ranges[at:]:
                if begin >= base + high:
                    break
                begin, stop = max(begin, base + low), min(stop, base + high)
                if counted >= count and begin < stop:
                    if found and found[-1][1] == begin:
                        begin = found.pop()[0]
                    found.append((begin, stop))
        return found

    def count(self, first: int, end: int) -> list[CountedRange]:
        """Count one more delivery of the unsettled messages [first, end); returns their counts."""
        return self._change(first, end, lambda count: count + 1)

    def raise_to(self, first: int, end: int, count: int) -> None:
        """Raise the counts of [first, end) to at least `count`, from a journal entry or a snapshot."""
        self._change(first, end, lambda before: max(before, count))

    def settled(self, first: int, end: int) -> None:
        """Remove ranges that are not needed any more, because [first, end) is settled."""
        within = range(first // CHUNK_OFFSETS, (end - 1) // CHUNK_OFFSETS + 1)
        wide = len(within) > len(self.chunks)
        for number in [n for n in self.chunks if n in within] if wide else within:
            ranges = self.chunks.get(number)
            if ranges is not None:
                self._trim(number, ranges, first, end)

    def restore_chunk(self, number: int, ranges: list[CountedRange]) -> None:
        """Restore a chunk of a snapshot; settled offsets must be restored before."""
        for first, end, count in ranges:
            self.raise_to(first, end, count)
        self.dirty_chunks.discard(number)

    def _trim(self, number: int, ranges: list[CountedRange], first: int, end: int) -> None:
        at, behind = bisect_left(ranges, first, key=_first), bisect_left(ranges, end, key=_first)
        if at == behind:
            return
        ranges[at:behind] = self._unsettled(ranges[at:behind])
        self.dirty_chunks.add(number)
        if not ranges:
            del self.chunks[number]

    def _unsettled(self, ranges: list[CountedRange]) -> list[CountedRange]:
        moved = ((self._settled.unsettled_from(first), end, n) for first, end, n in ranges)
        return [each for each in moved if each[0] < each[1]]

    def _change(self, first: int, end: int, counted: Callable[[int], int]) -> list[CountedRange]:
        result: list[CountedRange] = []
        for number, low, high in pieces(first, end):
            base = number * CHUNK_OFFSETS
            ranges = self.chunks.get(number, [])
            # With the neighbours, which may join the changed ranges.
            at = max(0, bisect_left(ranges, base + low, key=_first) - 1)
            behind = bisect_right(ranges, base + high, key=_first)
            changed = _overlaid(ranges[at:behind], base + low, base + high, counted)
            kept = self._unsettled(changed)
            result += [
                (max(low + base, begin), min(high + base, stop), count)
                for begin, stop, count in changed
                if begin < high + base and stop > low + base
            ]
            ranges[at:behind] = kept
            if ranges:
                self.chunks[number] = ranges
            else:
                self.chunks.pop(number, None)
            self.dirty_chunks.add(number)
        return result


def _overlaid(
    ranges: list[CountedRange], low: int, high: int, counted: Callable[[int], int]
) -> list[CountedRange]:
    """Change the counts of [low, high), and join adjacent ranges with equal counts."""
    result: list[CountedRange] = []

    def add(first: int, end: int, count: int) -> None:
        if first >= end:
            return
        if result and result[-1][1] == first and result[-1][2] == count:
            first = result.pop()[0]
        result.append((first, end, count))

    place = low
    for first, end, count in ranges:
        add(first, min(end, low), count)
        inner_first, inner_end = max(first, low), min(end, high)
        if inner_first < inner_end:
            add(place, inner_first, counted(0))
            add(inner_first, inner_end, counted(count))
            place = inner_end
        if first >= high or end > high:
            add(place, high, counted(0))
            place = high
            add(max(first, high), end, count)
    add(place, high, counted(0))
    return result


def _first(counted: CountedRange) -> int:
    return counted[0]
