"""Groups records for one Arrow batch: a part of a large record batch, or many small batches."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

# An Arrow batch has an overhead of some 100 us in Python and the JVM. Larger batches would save little, and
# take memory on both sides.
GROUP_ROWS_MAX = 8_192
GROUP_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchSlice:
    """Records `first` to `stop - 1` of a batch, and the size of their bodies."""

    batch: RecordBatch
    first: int
    stop: int
    body_bytes: int

    @property
    def rows(self) -> int:
        """Number of records."""
        return self.stop - self.first


class RowGroup:
    """Slices of one partition, in order.

    Attributes:
        partition: of the slices.
        slices: at least one.
        rows: number of records.
        run_ends: number of records up to the end of each slice.
    """

    def __init__(self, partition: LogPartition, slices: Sequence[BatchSlice]) -> None:
        self.partition = partition
        self.slices = slices
        self.run_ends = list(accumulate(each.rows for each in slices))
        self.rows = self.run_ends[-1]

    def constant(self, value: object, arrow_type: pa.DataType) -> pa.Array:
        """A column with the same value for all records."""
        return pa.repeat(pa.scalar(value, arrow_type), self.rows)

    def spread(self, values: Sequence[object], arrow_type: pa.DataType) -> pa.Array:
        """A column with one value for each slice, repeated for its records."""
        if len(values) == 1:
            return self.constant(values[0], arrow_type)
        runs = pa.RunEndEncodedArray.from_arrays(self._run_end_column, pa.array(values, arrow_type))
        return pc.run_end_decode(runs)

    def gathered(self, of_slice: Callable[[BatchSlice], pa.Array]) -> pa.Array:
        """Join the columns of the slices; that of a single slice is not copied."""
        if len(self.slices) == 1:
            return of_slice(self.slices[0])
        return pa.concat_arrays(map(of_slice, self.slices))

    @cached_property
    def _run_end_column(self) -> pa.Array:
        return pa.array(self.run_ends, pa.int32())


def row_groups(
    wanted: OffsetRange, batches: Iterable[RecordBatch], bytes_alone: int = GROUP_BYTES_MAX
) -> Iterator[RowGroup]:
    """Group the records of a range; offsets outside of it are left out.

    Args:
        bytes_alone: a slice with so many bytes becomes its own group, so that its bodies are not copied.
    """
    pending: list[BatchSlice] = []
    rows = size = 0
    reached = wanted.start
    for batch in batches:
        # Of a log that is compacted meanwhile, a batch may begin before the end of the last one.
        slices = _slices(batch, reached, wanted.end)
        reached = max(reached, batch.end_offset)
        for each in slices:
            rows += each.rows
            size += each.body_bytes
            alone = each.body_bytes >= bytes_alone
            if pending and (alone or rows > GROUP_ROWS_MAX or size > GROUP_BYTES_MAX):
                yield RowGroup(wanted.partition, pending)
                pending, rows, size = [], each.rows, each.body_bytes
            pending.append(each)
            if alone:
                yield RowGroup(wanted.partition, pending)
                pending, rows, size = [], 0, 0
    if pending:
        yield RowGroup(wanted.partition, pending)


def _slices(batch: RecordBatch, start: int, behind: int) -> Iterator[BatchSlice]:
    """Yield the part of a batch in [start, behind), cut where bodies exceed the limit of an Arrow batch."""
    records = batch.records
    first = max(start - batch.base_offset, 0)
    end = min(behind - batch.base_offset, records.count)
    if end - first == records.count and records.bodies_bytes <= GROUP_BYTES_MAX:
        yield BatchSlice(batch, 0, end, records.bodies_bytes)
        return
    offsets = records.offset_columns()
    while first < end:
        fitting = bisect_right(offsets, offsets[first] + GROUP_BYTES_MAX, first, end + 1) - 1
        stop = max(fitting, first + 1)
        yield BatchSlice(batch, first, stop, offsets[stop] - offsets[first])
        first = stop
