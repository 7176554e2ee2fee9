"""The values of one object over time: a row for each sample in which one of them had changed."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence


class History:
    """Rows in the order of time, each with all values.

    Attributes:
        last_time: of the newest row, in monotonic seconds.
    """

    __slots__ = ("_times", "_values", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._times = array("d")
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last_time(self) -> float:
        """When the newest row was added, in monotonic seconds; there is one."""
        return self._times[-1]

    @property
    def last(self) -> tuple[int, ...]:
        """The newest row; there is one."""
        return tuple(self._values[-self._width :])

    def add(self, time: float, values: Sequence[int], rows_max: int) -> None:
        """Add a row, and drop the oldest ones that are too many."""
        self._times.append(time)
        self._values.extend(values)
        surplus = len(self._times) - rows_max
        if surplus > 0:
            del self._times[:surplus], self._values[: surplus * self._width]

    def at(self, time: float, columns: Sequence[int]) -> int:
        """The sum of some values at a time; before the first row, those of the first."""
        row = max(0, bisect_right(self._times, time) - 1)
        return self._sum(row, columns)

    def rate(self, columns: Sequence[int]) -> float:
        """How fast the sum of some values grew between the newest two rows, by the second."""
        if len(self._times) < 2:
            return 0.0
        seconds = self._times[-1] - self._times[-2]
        grown = self._sum(len(self) - 1, columns) - self._sum(len(self) - 2, columns)
        return grown / seconds if seconds > 0 else 0.0

    def _sum(self, row: int, columns: Sequence[int]) -> int:
        values, first = self._values, row * self._width
        return sum(values[first + column] for column in columns)
