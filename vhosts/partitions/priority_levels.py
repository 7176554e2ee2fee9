"""Ready offsets by priority: for each priority ranges in the order of the log, the highest first.

Those whose priority is not known yet are in an order of their own, behind all others.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class ReadyRange(NamedTuple):
    """Ready messages [first, end) of one priority; all of them were handed out before, or none."""

    first: int
    end: int
    redelivered: bool


class _Level:
    # Ranges of new messages, ascending; and ranges of returned messages, which may lie anywhere between them.
    __slots__ = ("fresh", "returned")

    def __init__(self) -> None:
        self.fresh: deque[ReadyRange] = deque()
        self.returned: list[ReadyRange] = []

    def head(self) -> ReadyRange | None:
        if self.returned and (not self.fresh or self.returned[0] < self.fresh[0]):
            return self.returned[0]
        return self.fresh[0] if self.fresh else None

    def has(self, offset: int) -> bool:
        for ranges in (self.fresh, self.returned):
            at = bisect_right(ranges, offset, key=_first)
            if at > 0 and offset < ranges[at - 1].end:
                return True
        return False

    def take_out(self, first: int, end: int) -> list[ReadyRange]:
        taken: list[ReadyRange] = []
        for ranges in (self.fresh, self.returned):
            at = max(0, bisect_right(ranges, first, key=_first) - 1)
            while at < len(ranges) and ranges[at].first < end:
                each = ranges[at]
                begin, behind = max(each.first, first), min(each.end, end)
                if begin >= behind:
                    at += 1
                    continue
                taken.append(each._replace(first=begin, end=behind))
                del ranges[at]
                for part in (each._replace(end=begin), each._replace(first=behind)):
                    if part.first < part.end:
                        ranges.insert(at, part)
                        at += 1
        return taken

    def pass_head(self, end: int) -> bool:
        # Returns whether it was among the returned ones.
        if self.returned and (not self.fresh or self.returned[0] < self.fresh[0]):
            head = self.returned.pop(0)
            if end < head.end:
                self.returned.insert(0, head._replace(first=end))
            return True
        head = self.fresh.popleft()
        if end < head.end:
            self.fresh.appendleft(head._replace(first=end))
        return False


class PriorityLevels:
    """The ready messages of one partition by priority; see `ReadyOrder` for what it is asked.

    Attributes:
        count: messages.
        priority_max: the highest priority; 0: all messages are in the order of the log.

    Cost:
        About 120 bytes for each run of neighbours of one priority, and 1 KB for each priority seen.
    """

    __slots__ = ("_levels", "_unsorted", "count", "priority_max")

    def __init__(self, priority_max: int) -> None:
        self.count = 0
        self.priority_max = priority_max
        self._levels: dict[int, _Level] = {}  # priorities seen so far, the highest first
        self._unsorted = _Level()  # their priority is not known

    def add(self, priority: int, first: int, end: int, *, redelivered: bool) -> None:
        """Add new messages, behind all others."""
        fresh = self._level(priority).fresh
        self.count += end - first
        if fresh and (fresh[-1].end, fresh[-1].redelivered) == (first, redelivered):
            first = fresh.pop().first
        fresh.append(ReadyRange(first, end, redelivered))

    def put_back(self, first: int, end: int) -> None:
        """Add returned messages, whose priority is not known any more."""
        self.count += end - first
        insort(self._unsorted.returned, ReadyRange(first, end, True))

    def change(self, priority_max: int) -> None:
        """Forget all priorities: there is another highest one; 0: messages are in the order of the log."""
        levels = [*self._levels.values(), self._unsorted]
        self.priority_max, self._levels, self._unsorted = priority_max, {}, _Level()
        self._unsorted.fresh.extend(sorted(each for level in levels for each in level.fresh))
        self._unsorted.returned.extend(sorted(each for level in levels for each in level.returned))

    def unsorted_head(self) -> ReadyRange | None:
        """The first messages whose priority is not known."""
        return self._unsorted.head()

    def place(self, priority: int, end: int) -> None:
        """The first messages whose priority was not known, up to `end`, have this one."""
        head = self._unsorted.head()
        if head is None:
            return
        if self._unsorted.pass_head(end):
            insort(self._level(priority).returned, head._replace(end=end))
        else:
            self.count -= end - head.first
            self.add(priority, head.first, end, redelivered=head.redelivered)

    def _level(self, priority: int) -> _Level:
        priority = min(priority, self.priority_max)
        level = self._levels.get(priority)
        if level is None:
            level = _Level()
            others = self._levels.items()
            self._levels = dict(sorted([*others, (priority, level)], key=_priority, reverse=True))
        return level

    def _all(self) -> Iterator[_Level]:
        yield from self._levels.values()
        yield self._unsorted

    def next_range(self) -> ReadyRange | None:
        """The next messages, all of one priority."""
        for level in self._all():
            head = level.head()
            if head is not None:
                return head
        return None

    def has(self, offset: int) -> bool:
        """Whether a message is in any range."""
        return any(level.has(offset) for level in self._all())

    def take_out(self, first: int, end: int) -> list[ReadyRange]:
        """Remove all messages of [first, end): their ranges, in the order of the log."""
        taken = [each for level in self._all() for each in level.take_out(first, end)]
        self.count -= sum(each.end - each.first for each in taken)
        return sorted(taken)

    def pass_head(self, end: int) -> None:
        """Remove the messages of the head up to `end`."""
        for level in self._all():
            head = level.head()
            if head is not None:
                self.count -= end - head.first
                level.pass_head(end)
                return

    def ranges(self) -> Iterator[tuple[int, int]]:
        """All ranges, in any order."""
        for level in self._all():
            for each in (*level.returned, *level.fresh):
                yield each.first, each.end

    def clear(self) -> None:
        """Remove all messages."""
        self.count = 0
        self._levels, self._unsorted = {}, _Level()


def _first(each: ReadyRange) -> int:
    return each.first


def _priority(level: tuple[int, _Level]) -> int:
    return level[0]
