"""A histogram of fixed buckets: how many values were in each, and the sum of all."""

from bisect import bisect_left
from collections.abc import Sequence

# Of waits for a disk, in seconds: from a quick one to one that hangs.
WAIT_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 10.0),
)


class Histogram:
    """Counts values by bucket.

    Attributes:
        bounds: the highest value of each bucket, rising.
        counts: values by bucket; behind the last bound there is one more.
        sum: of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = WAIT_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value. Cost: 0.3 us."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
