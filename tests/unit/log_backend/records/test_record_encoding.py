from array import array

import pytest
from unit.log_backend.log_records import encoded, records

from routelog.log_backend.records.record_batch import RECORDS_MAX, RecordBatch, decode_batch
from routelog.log_backend.records.record_encoding import ROW_COLUMNS, encode_parts, encode_records


def encode(rows: list[int], count: int, source: bytes = bytes(100)) -> None:
    encode_records(
        memoryview(bytearray(source)), memoryview(array("i", rows)), None, count, b"", b"", 0, 0
    )


@pytest.mark.parametrize(
    "row",
    [
        [0, 0, 0, 0, 0, 101],
        [0, 0, 0, 0, 100, 1],
        [0, 0, 0, 0, 101, 0],
        [0, 0, 99, 2, 0, 0],
        [100, 1, 0, 0, 0, 0],
        [-1, 1, 0, 0, 0, 0],
        [0, -1, 0, 0, 0, 0],
        [0, 0, -1, 1, 0, 0],
        [0, 0, 0, -1, 0, 0],
        [0, 0, 0, 0, -5, 5],
        [0, 0, 0, 0, 5, -5],
        [0, 0, 0, 0, 2**31 - 1, 2**31 - 1],
        [0, 0, 2**31 - 1, 1, 0, 0],
    ],
)
def test_a_row_that_points_outside_of_its_buffer_is_refused(row: list[int]) -> None:
    with pytest.raises(ValueError, match="row"):
        encode(row, 1)
    with pytest.raises(ValueError, match="row"):
        encode([0] * ROW_COLUMNS + row, 2)


def test_a_row_may_end_with_its_buffer() -> None:
    encode([100, 0, 99, 1, 0, 100], 1)


@pytest.mark.parametrize("count", [0, -1, RECORDS_MAX + 1])
def test_a_batch_of_no_record_or_too_many_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="records"):
        encode([0] * ROW_COLUMNS, count)


def test_a_table_with_too_few_rows_is_refused() -> None:
    with pytest.raises(IndexError):
        encode([0] * ROW_COLUMNS, 2)


def test_a_batch_may_be_full() -> None:
    full = RecordBatch(records([b""] * RECORDS_MAX), 5, 1)
    assert decode_batch(encoded(full), 0).end_offset == 5 + RECORDS_MAX


def test_a_selection_takes_rows_in_its_order() -> None:
    source = b"k1p1b1k2p2b2"
    rows = array("i", [0, 2, 2, 2, 4, 2, 6, 2, 8, 2, 10, 2])
    for selection, wanted in (([1], [b"b2"]), ([1, 0, 1], [b"b2", b"b1", b"b2"])):
        content = encode_records(
            memoryview(bytearray(source)),
            memoryview(rows),
            memoryview(array("i", selection)),
            len(selection),
            b"",
            None,
            0,
            0,
        )
        assert [content.body(index) for index in range(content.count)] == wanted
        keys = [content.routing_key(index) for index in range(content.count)]
        assert keys == [body.replace(b"b", b"k") for body in wanted]


def test_a_part_that_has_no_row_or_one_outside_of_the_table_is_refused() -> None:
    views = memoryview(bytearray(9)), memoryview(array("i", bytes(24)))
    with pytest.raises(IndexError):
        encode_parts(*views, [[0], [1]], b"", b"", 0, 0)
    with pytest.raises(ValueError, match="records"):
        encode_parts(*views, [[0], []], b"", b"", 0, 0)


def test_the_source_may_be_reused_after_encoding() -> None:
    source = bytearray(b"body")
    content = encode_records(
        memoryview(source), memoryview(array("i", [0, 0, 0, 0, 0, 4])), None, 1, b"", b"", 0, 0
    )
    source[:] = b"XXXX"
    assert content.body(0) == b"body"
