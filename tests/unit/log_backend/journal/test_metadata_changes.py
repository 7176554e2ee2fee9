import struct

import pytest
from unit.log_backend.journal_blocks import block_bytes

from routelog.log_backend.journal.journal_block import (
    FileMark,
    JournalEntry,
    Settlement,
    UnknownEntry,
    decode_block,
)
from routelog.log_backend.journal.metadata_changes import MetadataChanges
from routelog.log_backend.metadata.metadata import Change

CHANGES = [Change(b"queues/q", b"record"), Change(b"queues/p", None), Change(b"k", b"")]
MARK = FileMark(1, 7)


def test_changes_are_read_as_they_were_written() -> None:
    content = MetadataChanges(CHANGES).encode()
    assert len(content) % 8 == 0
    assert MetadataChanges.decode(content).changes == CHANGES
    assert MetadataChanges.decode(memoryview(content)).changes == CHANGES


def test_no_change_is_an_entry_too() -> None:
    assert MetadataChanges.decode(MetadataChanges([]).encode()).changes == []


@pytest.mark.parametrize("size", range(0, 48, 8))
def test_a_part_of_an_entry_is_none(size: int) -> None:
    content = MetadataChanges(CHANGES).encode()
    with pytest.raises((ValueError, struct.error)):
        MetadataChanges.decode(content[:size])


def test_a_block_tells_what_it_changes_in_the_metadata_in_order() -> None:
    entries = [
        JournalEntry(0, MetadataChanges(CHANGES[:1])),
        JournalEntry(4, Settlement(0, [(1, 2)])),
        JournalEntry(0, MetadataChanges(CHANGES[1:])),
    ]
    block = decode_block(bytearray(block_bytes(MARK, 1, 1, 0, entries)), 0, MARK)
    assert block is not None
    assert block.metadata_changes() == CHANGES
    assert [each.partition for each in block.entries] == [0, 4, 0]


def test_an_entry_that_is_none_is_of_a_later_version() -> None:
    class Broken(MetadataChanges):
        def encode(self) -> bytes:
            return struct.pack("<I4x", 3)

    block = decode_block(
        bytearray(block_bytes(MARK, 1, 1, 0, [JournalEntry(0, Broken([]))])), 0, MARK
    )
    assert block is not None
    with pytest.raises(UnknownEntry):
        block.metadata_changes()
