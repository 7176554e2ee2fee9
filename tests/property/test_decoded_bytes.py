"""Bytes of the journal and of batches that are damaged and well signed: an error that says so, or a value."""

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unit.log_backend.log_records import records

from routelog.log_backend.journal.journal_block import (
    BATCH_AGAIN,
    HandedOut,
    JournalEntry,
    MetadataChanges,
    Reason,
    Redelivered,
    Settlement,
    decode_entries,
)
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.records.checksum import crc32c
from routelog.log_backend.records.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    RecordBatch,
    decode_batch,
    decode_header,
)

BATCH = RecordBatch(records([b"one", b"two"]), 5, 1)
WHOLE = bytes(BATCH.header()) + bytes(BATCH.records.payload)


def batch_again_entry(partition: int, base_offset: int) -> bytes:
    """The same records in another partition."""
    place = struct.pack("<QI4x", base_offset, 1)
    return struct.pack("<B7xQI4x", BATCH_AGAIN, partition, len(place)) + place


ENTRIES = b"".join(
    entry.encode()
    for entry in (
        JournalEntry(3, BATCH),
        JournalEntry(3, Settlement(0, [(1, 2), (7, 9)])),
        JournalEntry(3, Settlement(0, [(at, at + 1) for at in range(0, 100, 2)], Reason.EXPIRED)),
        JournalEntry(3, HandedOut(0, 9)),
        JournalEntry(3, Redelivered(0, [(1, 2, 3)])),
        JournalEntry(0, MetadataChanges([Change(b"key", b"value"), Change(b"gone", None)])),
    )
)
FAN_OUT = ENTRIES + b"".join(
    batch_again_entry(partition, base_offset) for partition, base_offset in ((4, 0), (5, 2**40))
)
NUMBERS = st.sampled_from([0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
CHANGES = st.lists(
    st.tuples(st.integers(0, 400), NUMBERS, st.sampled_from("BHIQ")), min_size=1, max_size=4
)


def changed(octets: bytes, changes: list[tuple[int, int, str]]) -> bytearray:
    """Bytes in which some numbers are others."""
    made = bytearray(octets)
    for at, number, letter in changes:
        field = struct.pack("<Q", number)[: struct.calcsize(f"<{letter}")]
        at %= len(made)
        made[at : at + len(field)] = field[: len(made) - at]
    return made


def signed(batch: bytearray) -> bytearray:
    """A batch with right checksums of what it holds."""
    batch[16 - 4 : 16] = crc32c(batch[HEADER_BYTES:]).to_bytes(4, "little")
    batch[8:12] = crc32c(batch[12:HEADER_BYTES]).to_bytes(4, "little")
    return batch


def answer(decode: Callable[[bytes], object], octets: bytes | bytearray) -> None:
    with suppress(CorruptBatch):
        decode(bytes(octets))


@given(changes=CHANGES, cut=st.integers(0, 200))
@example(changes=[(16, 2**63, "Q")], cut=0)  # the base offset
@example(changes=[(16, 2**63 - 1, "Q")], cut=0)
@example(changes=[(52, 2**32 - 1, "I")], cut=0)  # bytes of keys
@example(changes=[(28, 2**32 - 1, "I")], cut=0)  # records
def test_a_signed_batch_of_any_numbers_is_a_batch_or_corrupt(
    changes: list[tuple[int, int, str]], cut: int
) -> None:
    batch = signed(changed(WHOLE, changes))
    answer(lambda octets: decode_batch(octets, 0), batch[: len(batch) - cut])
    answer(lambda octets: decode_batch(memoryview(octets), 0), batch)
    answer(decode_header, batch[:HEADER_BYTES])


@given(st.binary(max_size=200))
def test_any_bytes_are_entries_or_corrupt(octets: bytes) -> None:
    answer(decode_entries, octets)
    answer(lambda each: decode_batch(each, 0), octets)


@given(changes=CHANGES, cut=st.integers(0, 200))
@example(changes=[(0, 2, "B")], cut=0)
@example(changes=[(8, 2**64 - 1, "Q")], cut=0)
@example(changes=[(16, 2**32 - 1, "I")], cut=0)
def test_entries_of_any_numbers_are_entries_or_corrupt(
    changes: list[tuple[int, int, str]], cut: int
) -> None:
    answer(decode_entries, changed(ENTRIES, changes)[: len(ENTRIES) - cut])


@given(changes=CHANGES, cut=st.integers(0, 200))
@example(changes=[(0, 2, "B")], cut=0)  # the batch is none any more
@example(changes=[(len(ENTRIES) + 24, 2**63 - 1, "Q")], cut=0)  # the base offset
@example(changes=[(len(ENTRIES) + 16, 2**32 - 1, "I")], cut=0)
@example(changes=[(len(ENTRIES) + 16, 0, "I")], cut=0)
def test_a_fan_out_of_any_numbers_is_entries_or_corrupt(
    changes: list[tuple[int, int, str]], cut: int
) -> None:
    octets = changed(FAN_OUT, changes)[: len(FAN_OUT) - cut]
    with suppress(CorruptBatch):
        found = [each.change for each in decode_entries(bytes(octets))]
        batches = [each for each in found if isinstance(each, RecordBatch)]
        assert all(each.end_offset == each.base_offset + 2 < 2**63 for each in batches)
        assert all(bytes(each.records.payload) in ENTRIES for each in batches)


@pytest.mark.parametrize("size", range(1, len(ENTRIES)))
def test_entries_that_are_cut_off_are_corrupt(size: int) -> None:
    whole = [len(each.encode()) for each in decode_entries(ENTRIES)]
    if size in {sum(whole[:count]) for count in range(len(whole))}:
        return
    with pytest.raises(CorruptBatch):
        decode_entries(ENTRIES[:size])
