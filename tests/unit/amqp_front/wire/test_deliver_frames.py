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


@pytest.mark.parametrize("key", [b"k", None])
@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("value", [2**32 - 1, 2**31, 10**6, 3])
def test_offset_columns_that_do_not_add_up_read_nothing_from_outside(
    key: bytes | None, column: int, value: int
) -> None:
    records = batch(key=key)
    columns = memoryview(records.payload)[: records.columns_at].cast("I")
    at = column * 4 + 2
    if at >= len(columns):
        return
    columns[at] = value
    try:
        frames = encode_deliveries(records, 0, 3, 1, b"t", 1, False, 4088)
    except (ValueError, IndexError, MemoryError):
        return
    assert len(frames) < len(records.payload) + 300
