"""Deliveries at the edges; tests/property/test_frames.py compares their content."""

from array import array

import pytest

from routelog.amqp_front.wire.deliver_frames import encode_deliveries
from routelog.log_backend import Records, encode_records


def batch(count: int = 3, key: bytes | None = b"k") -> Records:
    rows = array("i", [0, 1, 1, 2, 3, 4] * count)
    source = memoryview(bytearray(b"K\0\0body"))
    records: Records = encode_records(source, memoryview(rows), None, count, b"x", key, 0, 0)
    return records


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 0), (0, 4), (2, 2), (3, 1), (0, -1)])
def test_a_slice_outside_of_the_batch_is_refused(first: int, count: int) -> None:
    with pytest.raises(ValueError, match="of a batch of 3"):
        encode_deliveries(batch(), first, count, 1, b"t", 1, False, 4088)


def test_the_payload_may_be_a_view() -> None:
    records = batch()
    expected = encode_deliveries(records, 0, 3, 1, b"t", 1, False, 4088)
    records.payload = memoryview(bytearray(records.payload))
    assert encode_deliveries(records, 0, 3, 1, b"t", 1, False, 4088) == expected


def damaged(key: bytes | None, column: int, value: int) -> Records:
    """Three records; an offset between two of them is replaced."""
    records = batch(key=key)
    columns = memoryview(records.payload)[: records.columns_at].cast("I")
    columns[column * 4 + 2] = value
    return records


# Columns of body, property and, unless all share one, key offsets: each has one more than there are records.
COLUMNS = [(b"k", 0), (b"k", 1), (None, 0), (None, 1), (None, 2)]


@pytest.mark.parametrize(("key", "column"), COLUMNS)
@pytest.mark.parametrize("value", [2**32 - 1, 2**31, 10**6])
def test_an_offset_outside_of_its_column_is_refused(
    key: bytes | None, column: int, value: int
) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        encode_deliveries(damaged(key, column, value), 0, 3, 1, b"t", 1, False, 4088)


@pytest.mark.parametrize("key", [b"k", None])
def test_offsets_that_go_back_are_refused(key: bytes | None) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        encode_deliveries(damaged(key, 0, 3), 0, 3, 1, b"t", 1, False, 4088)


@pytest.mark.parametrize(("key", "column"), [(b"k", 1), (None, 1), (None, 2)])
def test_an_offset_that_moves_inside_of_its_column_moves_bytes_between_neighbours(
    key: bytes | None, column: int
) -> None:
    frames = encode_deliveries(damaged(key, column, 3), 0, 3, 1, b"t", 1, False, 4088)
    whole = encode_deliveries(batch(key=key), 0, 3, 1, b"t", 1, False, 4088)
    assert len(frames) == len(whole)
    assert frames != whole
