# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The tail: the newest batches of a partition, in memory; the last of them are in no segment yet."""

from collections.abc import Callable, Container
from typing import Any

import cython

from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.records.record_batch import RecordBatch

LetGo = Callable[[list[Any]], None]
# Batches of one partition that are freed at once; a queue may have 256 partitions
DROPPED_AT_ONCE = 64
_DROPPED_AT_ONCE = cython.declare(cython.Py_ssize_t, DROPPED_AT_ONCE)


@cython.final
@cython.cclass
class Tail:
    """Batches in offset order, found by offset with a binary search.

    A batch is *unflushed* until it is in a segment, or in a plan to write one.

    Attributes:
        bytes: memory of the batches.
        unflushed_bytes: memory of the unflushed batches.
        is_unordered: some batch may have an earlier time than one before: the clock was set back, or another
            node led before, with another clock.

    Args:
        intake: its `unflushed_bytes` are kept up to date, too.
    """

    def __init__(self, intake: LogIntake | None = None) -> None:
        self._intake = intake
        self._batches: list[Any] = []  # None below `_start`
        self._start = 0  # index of the oldest batch
        self._unflushed = 0  # index of the first unflushed batch, or of the list's end
        self.bytes = 0
        self.unflushed_bytes = 0
        self.is_unordered = False
        self._latest = 0  # time of all batches so far, those that were removed included

    def __len__(self) -> int:
        return len(self._batches) - self._start

    @cython.ccall
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(batch=RecordBatch, size=cython.longlong, time=cython.longlong)
    def append(self, batch: RecordBatch) -> bool:
        """Add an unflushed batch at the end; returns whether it is the only unflushed one."""
        size = 64 + len(batch.records.payload)
        time = batch.records.last_time
        if self._start == len(self._batches):
            self.is_unordered = False
        if time < self._latest:
            self.is_unordered = True
        else:
            self._latest = time
        self._batches.append(batch)
        self.bytes += size
        self._count_unflushed(size)
        return self._unflushed + 1 == len(self._batches)

    def comes_behind(self, time: int) -> None:
        """Batches that were never in this tail lie before it, the latest of them of a time."""
        if time > self._latest:
            self._latest = time
            first = self.first
            self.is_unordered |= first is not None and first.records.last_time < time

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

    @cython.ccall
    @cython.returns(RecordBatch)
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
        if self.is_unordered:  # one by one: 15 ns each, and few ask for times
            while low < high and _batch(self._batches, low).records.last_time < time:
                low += 1
            high = low
        while low < high:
            at = (low + high) // 2
            if _batch(self._batches, at).records.last_time < time:
                low = at + 1
            else:
                high = at
        return self._batches[low] if low < len(self._batches) else None

    @cython.ccall
    @cython.returns(cython.longlong)
    @cython.exceptval(-1, check=True)
    @cython.locals(end=cython.longlong, freed=cython.longlong, first=cython.Py_ssize_t)
    def drop_up_to(self, end: int, let_go: LetGo) -> int:
        """Remove the oldest batches that end at or below an offset; returns their bytes.

        Args:
            let_go: if there are very many, it takes them, to free them later.
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
        if _batch(self._batches, len(self._batches) - 1).end_offset <= end:
            freed = self.bytes  # all of them: no need to look at each
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
        """Remove and return all batches; the tail must not be used afterwards."""
        self._count_unflushed(-self.unflushed_bytes)
        batches, self._batches = self._batches, []
        return batches

    @cython.locals(size=cython.longlong, freed=cython.longlong)
    def evict(self, size: int) -> int:
        """Remove the oldest flushed batches until `size` bytes are freed; returns the bytes freed."""
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
        # Half of the list is empty: to cut it now costs little for each batch that was removed.
        if 2 * self._start >= len(self._batches):
            del self._batches[: self._start]
            self._unflushed -= self._start
            self._start = 0

    # -- flushing

    @property
    def is_flushed(self) -> bool:
        """Whether no batch is unflushed."""
        return self._unflushed == len(self._batches)

    @cython.locals(
        end=cython.longlong,
        most=cython.Py_ssize_t,
        first=cython.Py_ssize_t,
        size=cython.longlong,
        batch=RecordBatch,
    )
    def take_unflushed(self, end: int, most: int) -> list[RecordBatch]:
        """Mark up to `most` unflushed batches that begin below an offset as flushed, and return them."""
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
        """Mark the batches that begin at or behind an offset as unflushed again."""
        while (
            self._unflushed > self._start
            and _batch(self._batches, self._unflushed - 1).base_offset >= offset
        ):
            self._unflushed -= 1
            size = 64 + len(_batch(self._batches, self._unflushed).records.payload)
            self._count_unflushed(size)

    @cython.locals(first=cython.Py_ssize_t, size=cython.longlong, freed=cython.longlong)
    def take_back(self, offsets: Container[int]) -> int:
        """Remove the unflushed batches that begin at some offsets; returns their bytes."""
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
