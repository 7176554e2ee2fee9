"""The values of one object over time: a row for each sample in which one of them had changed; and what grows,
since when.

Rows of the last ten minutes are kept as they were taken. Older ones are thinned, and what is left lies on a
line between its neighbours::

    up to 10 min   1 h         8 h          24 h
    every row      each 30 s   each 4 min   each 12 min
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

MINUTE = 60.0
GROWING_MINUTES = 5  # less is a burst
GROWN_MINUTES_MIN = 4  # of these: consumers may have caught up in one of them


def grows(value: Callable[[float], float], least: float) -> bool:
    """Whether something grows for minutes: by so much in the last five, and in nearly each of them.

    Args:
        value: at an age in seconds.
        least: less is no growth.
    """
    values = [value(at * MINUTE) for at in range(GROWING_MINUTES + 1)]
    grown_minutes = sum(before < after for after, before in pairwise(values))
    return grown_minutes >= GROWN_MINUTES_MIN and values[0] - values[-1] >= least


def growing_since(
    history: History, columns: Sequence[int], now: float, least: float
) -> float | None:
    """Since when the sum of some values grows, see `grows`; None: it does not.

    Args:
        now: monotonic seconds of the newest sample.

    Returns:
        Monotonic seconds, to the minute.
    """
    if not grows(lambda age: history.at(now - age, columns), least):
        return None
    window = GROWING_MINUTES * MINUTE

    def value(time: float) -> int:
        return history.at(time, columns)

    since = now - window
    while since > history.first_time and value(since - MINUTE) < value(since - MINUTE + window):
        since -= MINUTE
    while value(since + MINUTE) <= value(since):  # the rest before it
        since += MINUTE
    return max(since, history.first_time)


def grown(history: History, columns: Sequence[int], now: float) -> int:
    """How much the sum of some values grew in the last minutes; negative: it fell."""
    before = now - GROWING_MINUTES * MINUTE
    return history.at(now, columns) - history.at(before, columns)


def unchanged_since(history: History, columns: Sequence[int], now: float) -> float:
    """Since when the sum of some values is as it is, or longer: monotonic seconds, to the minute."""
    value, since = history.at(now, columns), now
    while since > history.first_time and history.at(since - MINUTE, columns) == value:
        since -= MINUTE
    return max(since, history.first_time)


class Stretch(NamedTuple):
    """How old rows may be, and how far apart they are at least, in seconds."""

    age: float
    step: float


DAY = (
    Stretch(600.0, 0.0),
    Stretch(3_600.0, 30.0),
    Stretch(28_800.0, 240.0),
    Stretch(86_400.0, 720.0),
)
TEN_MINUTES = DAY[:1]


class _Rows:
    """Rows in the order of time, each with all values."""

    __slots__ = ("times", "values", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.times = array("d")
        self.values = array("q")

    def add(self, time: float, values: Sequence[int]) -> None:
        self.times.append(time)
        self.values.extend(values)

    def drop(self, count: int) -> None:
        del self.times[:count], self.values[: count * self.width]

    def first(self) -> tuple[float, array[int]]:
        return self.times[0], self.values[: self.width]

    def sum(self, row: int, columns: Sequence[int]) -> int:
        values, first = self.values, row * self.width
        return sum(values[first + column] for column in columns)


class History:
    """Rows in the order of time.

    Invariant: each stretch but the youngest holds rows that are older than all of the one before, and none of
    those that are there is empty.

    Args:
        stretches: the youngest first.
    """

    __slots__ = ("_count", "_rows", "_stretches")

    def __init__(self, width: int, stretches: Sequence[Stretch] = DAY) -> None:
        self._stretches = stretches
        self._rows = [_Rows(width)]  # one for each stretch that has rows, and for those between
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first_time(self) -> float:
        """When the oldest row was added, in monotonic seconds; there is one."""
        return self._rows[-1].times[0]

    @property
    def last_time(self) -> float:
        """When the newest row was added, in monotonic seconds; there is one."""
        return self._rows[0].times[-1]

    @property
    def last(self) -> tuple[int, ...]:
        """The newest row; there is one."""
        rows = self._rows[0]
        return tuple(rows.values[-rows.width :])

    def add(self, time: float, values: Sequence[int], rows_max: int) -> None:
        """Add a row, thin those that have become old, and drop the oldest ones that are too many."""
        self._rows[0].add(time, values)
        self._count += 1
        self._grow_old(time)
        while self._count > rows_max:
            oldest = self._rows[-1]
            dropped = min(self._count - rows_max, len(oldest.times))
            self._count -= dropped
            if dropped < len(oldest.times):
                oldest.drop(dropped)
            else:
                self._rows.pop()

    def _grow_old(self, now: float) -> None:
        # The first row of a stretch is as old as it may be, or the only one: so there is a value at any time.
        at = 0
        while at < len(self._rows):
            rows, stretch = self._rows[at], self._stretches[at]
            while len(rows.times) > 1 and rows.times[1] <= now - stretch.age:
                if at + 1 < len(self._stretches):
                    self._pass_on(at + 1, *rows.first(), before=rows.times[1])
                rows.drop(1)
                self._count -= 1
            at += 1

    def _pass_on(self, at: int, time: float, values: Sequence[int], before: float) -> None:
        """Keep a row in an older stretch, unless its neighbours are near enough.

        Args:
            before: the time of the row behind it.
        """
        if at == len(self._rows):
            self._rows.append(_Rows(self._rows[0].width))
        rows = self._rows[at]
        if not rows.times or before - rows.times[-1] > self._stretches[at].step:
            rows.add(time, values)
            self._count += 1

    def at(self, time: float, columns: Sequence[int]) -> int:
        """The sum of some values at a time, on the line between two rows.

        Before the first row it is as there; after the last one, as there.
        """
        young = None
        for rows in self._rows:
            if rows.times[0] <= time:
                row = bisect_right(rows.times, time) - 1
                left, value = rows.times[row], rows.sum(row, columns)
                if row + 1 < len(rows.times):
                    right, after = rows.times[row + 1], rows.sum(row + 1, columns)
                elif young is not None:
                    right, after = young.times[0], young.sum(0, columns)
                else:
                    return value
                return value + round((after - value) * (time - left) / (right - left))
            young = rows
        return self._rows[-1].sum(0, columns)

    def rate(self, columns: Sequence[int]) -> float:
        """How fast the sum of some values grew between the newest two rows, by the second."""
        rows = self._rows[0]
        if len(rows.times) < 2:
            return 0.0
        seconds = rows.times[-1] - rows.times[-2]
        last = len(rows.times) - 1
        grown = rows.sum(last, columns) - rows.sum(last - 1, columns)
        return grown / seconds if seconds > 0 else 0.0
