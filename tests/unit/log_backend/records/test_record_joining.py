"""Joined records, as one batch would have them; `tests/property` has the rest."""

from array import array

import pytest

from routelog.log_backend import encode_records
from routelog.log_backend.records.record_batch import KEY_COLUMN, PERSISTENT, Records
from routelog.log_backend.records.record_joining import join_records


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
