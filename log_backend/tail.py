"""The tail: the batches of a partition that are in memory, oldest first."""

from bisect import bisect_left, bisect_right

from log_backend.record_batch import RecordBatch

_COMPACT_AT = 256  # dropped entries before the lists are cut: amortises the cut


class Tail:
    """Batches in offset order, found by offset in logarithmic time.

    Attributes:
        bytes: memory of the batches.
    """

    __slots__ = ("_bases", "_batches", "_start", "bytes")

    def __init__(self) -> None:
        self._batches: list[RecordBatch] = []
        self._bases: list[int] = []
        self._start = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._batches) - self._start

    def append(self, batch: RecordBatch) -> None:
        """Add a batch behind all others."""
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self.bytes += batch.records.batch_bytes

    @property
    def first(self) -> RecordBatch | None:
        """The oldest batch."""
        return self._batches[self._start] if self._start < len(self._batches) else None

    @property
    def last(self) -> RecordBatch | None:
        """The newest batch."""
        return self._batches[-1] if len(self) else None

    def find(self, offset: int) -> RecordBatch | None:
        """The batch that holds an offset, or the next one; None when all end before it."""
        at = max(bisect_right(self._bases, offset, self._start) - 1, self._start)
        if at < len(self._batches) and self._batches[at].end_offset <= offset:
            at += 1
        return self._batches[at] if at < len(self._batches) else None

    def find_time(self, time: int) -> RecordBatch | None:
        """The first batch whose last record came in at a time or later; None when all are older."""
        at = bisect_left(self._batches, time, self._start, key=_last_time)
        return self._batches[at] if at < len(self._batches) else None

    def drop_first(self) -> int:
        """Forget the oldest batch; returns its bytes."""
        size = self._batches[self._start].records.batch_bytes
        self._start += 1
        self.bytes -= size
        if self._start >= _COMPACT_AT or self._start == len(self._batches):
            del self._batches[: self._start], self._bases[: self._start]
            self._start = 0
        return size


def _last_time(batch: RecordBatch) -> int:
    return batch.records.last_time
