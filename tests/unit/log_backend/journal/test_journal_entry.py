"""Entries of the journal: a batch, and one that has its records from another."""

import struct

import pytest
from unit.log_backend.log_records import batch

from routelog.log_backend.journal.journal_block import HandedOut, decode_entries
from routelog.log_backend.journal.journal_entry import (
    BATCH_AGAIN,
    JournalEntry,
    put_batch_again_entry,
    put_batch_entry,
)
from routelog.log_backend.records.gathering import Gathering
from routelog.log_backend.records.record_batch import CorruptBatch, RecordBatch

BATCH = batch([b"one", b"two"], 5)
BATCH_ENTRY = JournalEntry(3, BATCH).encode()


def again(base_offset: int, more: bytes = b"") -> bytes:
    place = struct.pack("<QI4x", base_offset, 1) + more
    return struct.pack("<B7xQI4x", BATCH_AGAIN, 4, len(place)) + place


def test_a_batch_again_shares_the_records_before_it() -> None:
    gathering = Gathering()
    put_batch_entry(gathering, 3, BATCH)
    put_batch_again_entry(gathering, 4, RecordBatch(BATCH.records, 7, 1))
    octets = b"".join(gathering.buffers())
    assert octets == BATCH_ENTRY + again(7)
    first, second = (entry.change for entry in decode_entries(octets))
    assert second.records is first.records
    assert (second.base_offset, second.end_offset, second.leader_epoch) == (7, 9, 1)


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (again(7) + BATCH_ENTRY, "no batch stands before it"),
        (JournalEntry(3, HandedOut(0, 9)).encode() + again(7), "no batch stands before it"),
        (BATCH_ENTRY + again(2**63 - 2), "is out of range"),
        (BATCH_ENTRY + again(2**64 - 1), "is out of range"),
        (BATCH_ENTRY + again(7, bytes(8)), "requires a buffer of 16 bytes"),
    ],
)
def test_a_batch_again_that_cannot_be_one_is_corrupt(octets: bytes, problem: str) -> None:
    with pytest.raises(CorruptBatch, match=problem):
        decode_entries(octets)
