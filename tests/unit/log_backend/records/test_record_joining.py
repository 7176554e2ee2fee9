"""Joined records, as one batch would have them; `tests/property` has the rest."""

from array import array

import pytest

from routelog.log_backend import encode_records
from routelog.log_backend.records.record_batch import KEY_COLUMN, PERSISTENT, Records
from routelog.log_backend.records.record_joining import join_records, slice_records


def record(body: bytes, key: bytes = b"key", time: int = 7) -> Records:
    source = bytearray(b"\0\0" + body)
    rows = array("i", (0, 0, 0, 2, 2, len(body)))
    records: Records = encode_records(
        memoryview(source), memoryview(rows), None, 1, b"x", key, PERSISTENT, time
    )
    return records


@pytest.mark.parametrize("other", [b"key", b"other"])
def test_a_key_that_all_share_is_stored_once(other: bytes) -> None:
    joined = join_records([record(b"one"), record(b"two", other)])
    assert [joined.routing_key(at) for at in range(2)] == [b"key", other]
    assert [joined.body(at) for at in range(2)] == [b"one", b"two"]
    assert bool(joined.attributes & KEY_COLUMN) is (other != b"key")


def test_the_times_are_those_of_the_first_and_the_last() -> None:
    first, last = record(b"", time=5), record(b"", time=7)
    last.last_time = 9
    joined = join_records([first, last])
    assert (joined.time, joined.last_time) == (5, 9)


def test_a_slice_of_all_records_is_no_copy() -> None:
    joined = join_records([record(b"one"), record(b"two")])
    assert slice_records(joined, 0, 2) is joined


def test_a_slice_keeps_the_times() -> None:
    joined = join_records([record(b"one", time=5), record(b"two", time=9)])
    cut = slice_records(joined, 1, 1)
    assert (cut.time, cut.last_time) == (5, 9)


@pytest.mark.parametrize(("index", "count"), [(-1, 1), (0, 0), (0, 3), (2, 1), (1, 2)])
def test_a_slice_outside_of_the_batch_is_refused(index: int, count: int) -> None:
    joined = join_records([record(b"one"), record(b"two")])
    with pytest.raises(ValueError, match=r"of a batch of 2"):
        slice_records(joined, index, count)


@pytest.mark.parametrize("place", [0, 4, 12, 16])
def test_offsets_outside_of_their_column_are_refused(place: int) -> None:
    joined = join_records([record(b"one"), record(b"two")])
    joined.payload[place : place + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(ValueError, match=r"outside of its column"):
        slice_records(joined, 0, 1)


def test_columns_that_are_cut_off_are_refused() -> None:
    joined = join_records([record(b"one"), record(b"two")])
    joined.payload = joined.payload[:20]
    with pytest.raises(ValueError, match=r"cut off"):
        slice_records(joined, 0, 1)
