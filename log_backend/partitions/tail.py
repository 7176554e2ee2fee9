# cython: annotation_typing=False
"""The tail: the batches of a partition that are in memory; those behind a mark are in no segment."""

from collections.abc import Callable, Container
from typing import Any

import cython

from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.records.record_batch import RecordBatch

LetGo = Callable[[list[Any]], None]
DROPPED_AT_ONCE = 64  # batches, of one partition: a queue may have 256
_DROPPED_AT_ONCE = cython.declare(cython.Py_ssize_t, DROPPED_AT_ONCE)


@cython.final
@cython.cclass
class Tail:
    """Batches in offset order, found by offset in logarithmic time.

    Attributes:
        bytes: memory of the batches.
        unflushed_bytes: of those that no segment has, and no plan to write one.

    Args:
        intake: counts `unflushed_bytes` of many; None: nobody does.
    """

    __slots__ = ("_batches", "_intake", "_start", "_unflushed", "bytes", "unflushed_bytes")

    def __init__(self, intake: LogIntake | None = None) -> None:
        self._intake = intake
        self._batches: list[Any] = []  # None where one was forgotten
        self._start = 0
        self._unflushed = 0  # index of the first unflushed batch, or behind the last one
        self.bytes = 0
        self.unflushed_bytes = 0

    def __len__(self) -> int:
        return len(self._batches) - self._start

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(batch=RecordBatch, size=cython.longlong)
    def append(self, batch: RecordBatch) -> bool:
        """Add an unflushed batch behind all others; tells whether it is the only one."""
        size = 64 + len(batch.records.payload)
        self._batches.append(batch)
        self.bytes += size
        self._count_unflushed(size)
        return self._unflushed + 1 == len(self._batches)

    @property
    def first(self) -> RecordBatch | None:
        """The oldest batch."""
        return self._batches[self._start] if self._start < len(self._batches) else None

    @cython.locals(
        end=cython.longlong, low=cython.Py_ssize_t, high=cython.Py_ssize_t, at=cython.Py_ssize_t
    )
    def last_below(self, end: int) -> RecordBatch | None:
        """The newest batch that begins below an offset; None when there is none."""
        low, high = self._start, len(self._batches)
        while low < high:
            at = (low + high) // 2
            if _batch(self._batches, at).base_offset < end:
                low = at + 1
            else:
                high = at
        return self._batches[low - 1] if low > self._start else None

    @cython.locals(
        offset=cython.longlong, low=cython.Py_ssize_t, high=cython.Py_ssize_t, at=cython.Py_ssize_t
    )
    def find(self, offset: int) -> RecordBatch | None:
        """The batch that holds an offset, or the next one; None when all end before it."""
        low, high = self._start, len(self._batches)
        while low < high:
            at = (low + high) // 2
            if _batch(self._batches, at).end_offset <= offset:
                low = at + 1
            else:
                high = at
        return self._batches[low] if low < len(self._batches) else None

    @cython.locals(
        time=cython.longlong, low=cython.Py_ssize_t, high=cython.Py_ssize_t, at=cython.Py_ssize_t
    )
    def find_time(self, time: int) -> RecordBatch | None:
        """The first batch whose last record came in at a time or later; None when all are older."""
        low, high = self._start, len(self._batches)
        while low < high:
            at = (low + high) // 2
            if _batch(self._batches, at).records.last_time < time:
                low = at + 1
            else:
                high = at
        return self._batches[low] if low < len(self._batches) else None

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(size=cython.longlong)
    def drop_first(self) -> int:
        """Forget the oldest batch; returns its bytes."""
        size = self._drop()
        self._compact()
        return size

    @cython.locals(end=cython.longlong, freed=cython.longlong)
    def drop_up_to(self, end: int, let_go: LetGo) -> int:
        """Forget the oldest batches that end at an offset or before it; returns their bytes.

        Args:
            let_go: takes very many, to free them later.
        """
        freed = 0
        first = self._start
        while (
            self._start < len(self._batches)
            and _batch(self._batches, self._start).end_offset <= end
        ):
            if self._start - first == _DROPPED_AT_ONCE:
                return freed + self._let_go_up_to(end, let_go)
            freed += self._drop()
        self._compact()
        return freed

    @cython.locals(
        end=cython.longlong,
        size=cython.longlong,
        freed=cython.longlong,
        unflushed=cython.longlong,
        at=cython.Py_ssize_t,
    )
    def _let_go_up_to(self, end: int, let_go: LetGo) -> int:
        # As `drop_up_to`, of so many that their memory is freed later.
        if (
            _batch(self._batches, len(self._batches) - 1).end_offset <= end
        ):  # no need to look at each
            freed = self.bytes
            self.bytes = 0
            self._count_unflushed(-self.unflushed_bytes)
            self._start = self._unflushed = 0
            let_go(self.take_all())
            return freed
        freed = unflushed = 0
        at = self._start
        while at < len(self._batches) and _batch(self._batches, at).end_offset <= end:
            size = 64 + len(_batch(self._batches, at).records.payload)
            freed += size
            if at >= self._unflushed:
                unflushed += size
            at += 1
        let_go(self._batches[self._start : at])
        for forgotten in range(self._start, at):
            self._batches[forgotten] = None
        self._unflushed = max(at, self._unflushed)
        self._start = at
        self.bytes -= freed
        self._count_unflushed(-unflushed)
        self._compact()
        return freed

    def take_all(self) -> list[Any]:
        """All batches: the tail is not used any more."""
        self._count_unflushed(-self.unflushed_bytes)
        batches, self._batches = self._batches, []
        return batches

    @cython.locals(size=cython.longlong, freed=cython.longlong)
    def evict(self, size: int) -> int:
        """Forget the oldest batches that are flushed, until `size` bytes are freed; returns how many were."""
        freed = 0
        while freed < size and self._start < self._unflushed:
            freed += self._drop()
        self._compact()
        return freed

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.longlong)
    @cython.locals(size=cython.longlong)
    def _drop(self) -> int:
        size = 64 + len(_batch(self._batches, self._start).records.payload)
        self._batches[self._start] = None
        if self._unflushed == self._start:
            self._unflushed += 1
            self._count_unflushed(-size)
        self._start += 1
        self.bytes -= size
        return size

    @cython.cfunc
    def _compact(self) -> None:
        # The list is cut when half of it is forgotten, which costs little for each batch.
        if 2 * self._start >= len(self._batches):
            del self._batches[: self._start]
            self._unflushed -= self._start
            self._start = 0

    # -- flushing

    @property
    def is_flushed(self) -> bool:
        """No batch is unflushed."""
        return self._unflushed == len(self._batches)

    @cython.locals(
        end=cython.longlong,
        most=cython.Py_ssize_t,
        first=cython.Py_ssize_t,
        size=cython.longlong,
        batch=RecordBatch,
    )
    def take_unflushed(self, end: int, most: int) -> list[RecordBatch]:
        """Some unflushed batches that begin below an offset, which are so no more; they stay in the tail."""
        first = self._unflushed
        size = 0
        while self._unflushed < len(self._batches) and self._unflushed - first < most:
            batch = _batch(self._batches, self._unflushed)
            if batch.base_offset >= end:
                break
            size += 64 + len(batch.records.payload)
            self._unflushed += 1
        self._count_unflushed(-size)
        taken: list[RecordBatch] = self._batches[first : self._unflushed]
        return taken

    @cython.locals(offset=cython.longlong, size=cython.longlong)
    def unflush_from(self, offset: int) -> None:
        """The batches that begin at an offset or behind it are unflushed again."""
        while (
            self._unflushed > self._start
            and _batch(self._batches, self._unflushed - 1).base_offset >= offset
        ):
            self._unflushed -= 1
            size = 64 + len(_batch(self._batches, self._unflushed).records.payload)
            self._count_unflushed(size)

    @cython.locals(first=cython.Py_ssize_t, size=cython.longlong, freed=cython.longlong)
    def take_back(self, offsets: Container[int]) -> int:
        """Forget the unflushed batches that begin at some offsets; returns their bytes."""
        first = self._unflushed
        freed = 0
        kept: list[Any] = []
        for batch in self._batches[first:]:
            if batch.base_offset in offsets:
                size = 64 + len(batch.records.payload)
                freed += size
            else:
                kept.append(batch)
        self._batches[first:] = kept
        self.bytes -= freed
        self._count_unflushed(-freed)
        return freed

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(size=cython.longlong)
    def _count_unflushed(self, size: int) -> int:
        self.unflushed_bytes += size
        if self._intake is not None:
            self._intake.unflushed_bytes += size
        return 0


@cython.cfunc
@cython.inline
@cython.returns(RecordBatch)
@cython.locals(batches=list, at=cython.Py_ssize_t)
def _batch(batches: list[Any], at: int) -> RecordBatch:
    return cython.cast(RecordBatch, batches[at])
