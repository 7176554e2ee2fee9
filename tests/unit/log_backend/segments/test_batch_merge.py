"""Which batches are merged on their way into a segment."""

from array import array
from collections.abc import Callable

import pytest

from routelog.log_backend import encode_records
from routelog.log_backend.records.record_batch import (
    EXPIRING,
    OWN_DEATHS,
    PERSISTENT,
    RecordBatch,
    Records,
)
from routelog.log_backend.segments.batch_merge import (
    MERGED_BYTES_MAX,
    MERGED_RECORDS_MAX,
    SECOND,
    SMALL_BYTES_MAX,
    merged,
)

MIB = 1 << 20
START = 1_000_000_000


def content(
    body: bytes = b"x",
    *,
    count: int = 1,
    time: int = START,
    exchange: bytes = b"x",
    key: bytes = b"key",
    attributes: int = PERSISTENT,
) -> Records:
    source = bytearray(b"\0\0" + body)
    rows = array("i", (0, 0, 0, 2, 2, len(body)) * count)
    records: Records = encode_records(
        memoryview(source), memoryview(rows), None, count, exchange, key, attributes, time
    )
    return records


def log(*parts: Records) -> list[RecordBatch]:
    """Batches that follow one another."""
    batches, offset = [], 0
    for records in parts:
        batches.append(RecordBatch(records, offset, 1))
        offset += records.count
    return batches


def counts(batches: list[RecordBatch]) -> list[int]:
    return [batch.records.count for batch in batches]


def test_what_was_published_one_by_one_becomes_one_batch() -> None:
    batches = log(*(content(b"%d" % number, time=START + number) for number in range(100)))
    (batch,) = merged(batches, MIB)
    assert (batch.base_offset, batch.end_offset, batch.leader_epoch) == (0, 100, 1)
    assert [batch.records.body(at) for at in range(100)] == [b"%d" % at for at in range(100)]
    assert (batch.records.time, batch.records.last_time) == (START, START + 99)


def test_batches_are_the_same_ones_where_nothing_is_joined() -> None:
    batches = log(content(exchange=b"x"), content(exchange=b"y"))
    found = merged(batches, MIB)
    assert all(one is other for one, other in zip(found, batches, strict=True))
    assert merged([], MIB) == []


@pytest.mark.parametrize(
    "other",
    [
        content(exchange=b"y"),
        content(attributes=0),
        content(attributes=PERSISTENT | OWN_DEATHS & 0x100),
        content(time=START - 1),
        content(time=START + SECOND),
        content(b"x" * SMALL_BYTES_MAX),
    ],
    ids=["exchange", "attributes", "deaths", "clock set back", "next second", "large"],
)
def test_what_differs_stays_apart(other: Records) -> None:
    assert counts(merged(log(content(), content(), other, content()), MIB))[0] == 2


def test_other_keys_are_kept_and_the_end_of_the_second_is_not_too_late() -> None:
    batches = log(content(key=b"a"), content(key=b"b", time=START + SECOND - 1))
    (batch,) = merged(batches, MIB)
    assert [batch.records.routing_key(at) for at in range(2)] == [b"a", b"b"]


def test_records_with_an_expiration_of_their_own_stay_apart() -> None:
    parts = [content(attributes=PERSISTENT | EXPIRING) for _ in range(3)]
    assert counts(merged(log(*parts), MIB)) == [1, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: RecordBatch(batch.records, batch.base_offset + 1, 1),
        lambda batch: RecordBatch(batch.records, batch.base_offset, 2),
    ],
    ids=["a gap", "another epoch"],
)
def test_offsets_and_epochs_stay(change: Callable[[RecordBatch], RecordBatch]) -> None:
    first, second = log(content(), content())
    assert counts(merged([first, change(second)], MIB)) == [1, 1]


def test_merged_batches_have_limits() -> None:
    many = log(*(content(b"", count=1_000) for _ in range(9)))
    assert counts(merged(many, MIB)) == [4_000, 4_000, 1_000]
    few = log(*(content(b"", count=1) for _ in range(MERGED_RECORDS_MAX + 1)))
    assert counts(merged(few, MIB)) == [MERGED_RECORDS_MAX, 1]
    large = log(*(content(bytes(SMALL_BYTES_MAX - 200)) for _ in range(40)))
    assert max(len(each.records.payload) for each in merged(large, MIB)) <= MERGED_BYTES_MAX
    assert len(merged(large, MIB)) == 3
    assert len(merged(large, 50_000)) == 14
