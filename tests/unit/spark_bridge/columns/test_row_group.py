"""How records are grouped into Arrow batches."""

import pytest
from unit.spark_bridge.log_files import numbered, records

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.columns.row_group import (
    GROUP_BYTES_MAX,
    GROUP_ROWS_MAX,
    RowGroup,
    row_groups,
)
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

PARTITION = LogPartition("/", "audit", 0)


def batch(base_offset: int, count: int) -> RecordBatch:
    return RecordBatch(numbered(base_offset, count), base_offset, 1)


def grouped(start: int, end: int, *batches: RecordBatch) -> list[RowGroup]:
    return list(row_groups(OffsetRange(PARTITION, start, end, 0), batches))


def offsets(group: RowGroup) -> list[int]:
    return [
        each.batch.base_offset + index
        for each in group.slices
        for index in range(each.first, each.stop)
    ]


def test_small_batches_share_a_group() -> None:
    (group,) = grouped(0, 100, batch(0, 3), batch(3, 1), batch(50, 2))
    assert offsets(group) == [0, 1, 2, 3, 50, 51]
    assert (group.rows, group.run_ends) == (6, [3, 4, 6])


def test_groups_have_a_limit_of_rows() -> None:
    half = GROUP_ROWS_MAX // 2
    groups = grouped(0, 10**6, *(batch(at * half, half) for at in range(5)))
    assert [group.rows for group in groups] == [2 * half, 2 * half, half]


def test_groups_have_a_limit_of_bytes() -> None:
    content = records([bytes(GROUP_BYTES_MAX // 2)])
    groups = grouped(0, 9, *(RecordBatch(content, at, 1) for at in range(5)))
    assert [group.rows for group in groups] == [2, 2, 1]


def test_what_is_large_enough_is_not_copied_to_join_others() -> None:
    batches = [
        RecordBatch(records([bytes(size)]), at, 1) for at, size in enumerate((9, 99, 9, 9, 100))
    ]
    groups = row_groups(OffsetRange(PARTITION, 0, 9, 0), batches, 99)
    assert [offsets(group) for group in groups] == [[0], [1], [2, 3], [4]]


def test_a_large_batch_is_cut_between_bodies() -> None:
    quarter = bytes(GROUP_BYTES_MAX // 4)
    bodies = [quarter, quarter, b"", bytes(GROUP_BYTES_MAX * 2), quarter, b"", b"x"]
    groups = grouped(0, 7, RecordBatch(records(bodies), 0, 1))
    assert [offsets(group) for group in groups] == [[0, 1, 2], [3], [4, 5, 6]]


@pytest.mark.parametrize(("start", "end"), [(0, 9), (4, 5), (3, 9), (0, 3), (2, 8)])
def test_offsets_outside_of_the_range_are_left_out(start: int, end: int) -> None:
    groups = grouped(start, end, batch(0, 4), batch(4, 5))
    assert [at for group in groups for at in offsets(group)] == list(range(start, end))


def test_no_batches_are_no_groups() -> None:
    assert grouped(0, 9) == []
