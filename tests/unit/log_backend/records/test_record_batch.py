import random

import pytest
from unit.log_backend.log_records import bodies_of, encoded, records

from routelog.log_backend.records.record_batch import (
    BATCH_ALIGNMENT,
    HEADER_BYTES,
    KEY_COLUMN,
    PERSISTENT,
    RECORDS_MAX,
    CorruptBatch,
    RecordBatch,
    batch_bytes,
    decode_batch,
    decode_header,
    new_buffer,
)

SHARED = RecordBatch(records([b"one", b"", b"three"], exchange=b"ex", routing_key=b"rk"), 7, 3)
KEYED = RecordBatch(
    records([b"a" * 30, b"b"], routing_keys=[b"first", b""], properties=b"\x10\x00\x02"), 1 << 40, 9
)


@pytest.mark.parametrize("batch", [SHARED, KEYED])
def test_what_is_encoded_is_decoded(batch: RecordBatch) -> None:
    found = decode_batch(encoded(batch), 0)
    assert found.header() == batch.header()
    assert (found.base_offset, found.end_offset) == (batch.base_offset, batch.end_offset)
    assert found.leader_epoch == batch.leader_epoch
    assert found.records.exchange == batch.records.exchange
    for index in range(batch.records.count):
        for part in ("routing_key", "properties", "body"):
            wanted = getattr(batch.records, part)(index)
            assert getattr(found.records, part)(index) == wanted


def test_the_parts_of_records_are_what_was_put_in() -> None:
    assert bodies_of(SHARED) == [b"one", b"", b"three"]
    assert SHARED.records.exchange == b"ex"
    assert [SHARED.records.routing_key(index) for index in range(3)] == [b"rk"] * 3
    assert [KEYED.records.routing_key(index) for index in range(2)] == [b"first", b""]
    assert KEYED.records.properties(1) == b"\x10\x00\x02"
    assert KEYED.records.attributes == KEY_COLUMN | PERSISTENT
    assert KEYED.records.persistent
    assert not records([b""], persistent=False).persistent


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_record_outside_of_the_batch(index: int) -> None:
    with pytest.raises(IndexError):
        SHARED.records.body(index)


@pytest.mark.parametrize("batch", [SHARED, KEYED])
def test_every_flipped_bit_is_detected(batch: RecordBatch) -> None:
    whole = encoded(batch)
    for place in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[place >> 3] ^= 1 << (place & 7)
        with pytest.raises(CorruptBatch):
            decode_batch(bytes(damaged), 0)


@pytest.mark.parametrize("batch", [SHARED, KEYED])
def test_every_changed_byte_is_detected(batch: RecordBatch) -> None:
    whole = encoded(batch)
    choice = random.Random(1)
    for place, byte in enumerate(whole):
        for other in (0x00, 0xFF, choice.randrange(256)):
            if other == byte:
                continue
            with pytest.raises(CorruptBatch):
                decode_batch(whole[:place] + bytes([other]) + whole[place + 1 :], 0)


def test_every_truncation_is_detected_and_what_follows_does_not_matter() -> None:
    whole = encoded(SHARED)
    for size in range(len(whole)):
        with pytest.raises(CorruptBatch):
            decode_batch(whole[:size], 0)
        with pytest.raises(CorruptBatch):
            decode_batch(memoryview(b"before" + whole[:size]), 6)
    for following in (b"\0", whole, b"\xff" * 100):
        assert decode_batch(whole + following, 0).header() == SHARED.header()


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, 4096])
@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_zeros_and_ones_are_no_batch(byte: bytes, size: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(byte * size, 0)


def test_batches_follow_each_other_without_a_gap() -> None:
    whole = encoded(SHARED) + encoded(KEYED)
    second = batch_bytes(whole, 0)
    assert second == len(encoded(SHARED))
    assert second % BATCH_ALIGNMENT == 0
    assert [decode_batch(whole, at).base_offset for at in (0, second)] == [7, 1 << 40]


@pytest.mark.parametrize("change", [{"attributes": 16}, {"attributes": 128}])
def test_a_well_signed_header_with_unknown_attributes_is_refused(change: dict[str, int]) -> None:
    content = records([b"x"])
    content.attributes |= change["attributes"]
    with pytest.raises(CorruptBatch):
        decode_header(RecordBatch(content, 0, 0).header())


@pytest.mark.parametrize("field", ["count", "bodies_bytes", "keys_bytes", "properties_bytes"])
def test_a_well_signed_header_whose_sizes_do_not_add_up_is_refused(field: str) -> None:
    content = records([b"x"])
    setattr(content, field, getattr(content, field) + 100)
    with pytest.raises(CorruptBatch):
        decode_header(RecordBatch(content, 0, 0).header())


@pytest.mark.parametrize("count", [0, RECORDS_MAX + 1])
def test_a_well_signed_header_with_too_few_or_too_many_records_is_refused(count: int) -> None:
    content = records([b"x"])
    content.count = count
    with pytest.raises(CorruptBatch):
        decode_header(RecordBatch(content, 0, 0).header())


def test_a_new_buffer_has_its_size() -> None:
    assert [len(new_buffer(size)) for size in (0, 1, 4096)] == [0, 1, 4096]
