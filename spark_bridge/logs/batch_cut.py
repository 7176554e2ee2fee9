"""Cuts a range of offsets so that its bodies do not exceed a size."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.logs.readable_logs import Cut


class BatchSize(NamedTuple):
    """A batch's offsets [start, end), the bytes of its bodies, and a function that loads the batch."""

    start: int
    end: int
    bodies_bytes: int
    load: Callable[[], RecordBatch]


def cut_batches(batches: Iterable[BatchSize], start: int, end: int, bytes_max: int) -> Cut:
    """Return the longest beginning of a range of offsets that fits; see `ReadableLogs.cut`.

    Args:
        batches: those of the range, in order; only as many are consumed as are needed.
    """
    size, taken = 0, False
    for batch in batches:
        if batch.start >= end:
            break
        inside = start <= batch.start and batch.end <= end
        if inside and size + batch.bodies_bytes <= bytes_max:
            size += batch.bodies_bytes
            taken = True
            if batch.end == end:
                break  # the broker may be writing behind it
            continue
        offsets = batch.load().records.offset_columns()
        first = max(start - batch.start, 0)
        stop = min(end, batch.end) - batch.start
        limit = offsets[first] + bytes_max - size
        fitting = bisect_right(offsets, limit, first, stop + 1) - 1
        fitting = max(fitting, first if taken else first + 1)
        size += offsets[fitting] - offsets[first]
        taken = True
        if fitting < stop or batch.end >= end:
            return Cut(batch.start + fitting, size)
    return Cut(end, size)
