from pathlib import Path
from typing import Any

import pytest
from support.frame_samples import source_module
from unit.log_backend.journal_blocks import block_bytes
from unit.log_backend.log_records import batch, bodies_of

from routelog.log_backend.journal.journal_block import (
    BATCH,
    BLOCK_ALIGNMENT,
    BLOCK_HEADER_BYTES,
    MAGIC,
    Block,
    FileMark,
    HandedOut,
    JournalEntry,
    MetadataChanges,
    Reason,
    Redelivered,
    Settlement,
    UnknownEntry,
    decode_block,
    decode_entries,
    encode_block,
)
from routelog.log_backend.journal.journal_chain import Mark, ShardBlock
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.records.record_batch import RecordBatch, crc32c

FILE = FileMark(17, 0xFEED)
SCATTERED = [(9, 12), *((offset, offset + 1) for offset in range(20, 90, 2)), (93, 500)]
ENTRIES = [
    JournalEntry(1, batch([b"one", b"two"], 5)),
    JournalEntry(2, Settlement(0, [(0, 5), (9, 1 << 40)])),
    JournalEntry(3, batch([b"x" * 5000], 1 << 40)),
    JournalEntry(2, HandedOut(1, 1 << 41)),
    JournalEntry(2, Redelivered(0, [(3, 5, 1), (9, 1 << 40, 1 << 33)])),
    JournalEntry(2, Settlement(7, [(1, 2)], Reason.EXPIRED)),
    JournalEntry(2, Settlement(7, SCATTERED, Reason.REJECTED)),
]


def block(position: int = 8, file: FileMark = FILE) -> bytes:
    return block_bytes(file, position, 2, 7, ENTRIES)


def test_what_is_encoded_is_decoded() -> None:
    found = decode_block(bytearray(block()), 0, FILE)
    assert found is not None
    assert (found.position, found.first, found.committed) == (8, 2, 7)
    assert [entry.partition for entry in found.entries] == [1, 2, 3, 2, 2, 2, 2]
    first, second, third, fourth, fifth, sixth, seventh = (entry.change for entry in found.entries)
    assert isinstance(first, RecordBatch)
    assert isinstance(second, Settlement)
    assert isinstance(third, RecordBatch)
    assert (first.base_offset, bodies_of(first)) == (5, [b"one", b"two"])
    assert (second.cursor, second.ranges) == (0, [(0, 5), (9, 1 << 40)])
    assert second.reason is Reason.ACKED
    assert isinstance(fourth, HandedOut)
    assert (fourth.cursor, fourth.end) == (1, 1 << 41)
    assert isinstance(fifth, Redelivered)
    assert (fifth.cursor, fifth.counts) == (0, [(3, 5, 1), (9, 1 << 40, 1 << 33)])
    assert isinstance(sixth, Settlement)
    assert (sixth.cursor, sixth.ranges, sixth.reason) == (7, [(1, 2)], Reason.EXPIRED)
    assert isinstance(seventh, Settlement)
    assert (seventh.cursor, seventh.ranges, seventh.reason) == (7, SCATTERED, Reason.REJECTED)
    assert third.base_offset == 1 << 40


def test_the_entries_of_partitions_are_all_but_those_of_metadata() -> None:
    metadata = JournalEntry(0, MetadataChanges([Change(b"key", b"value"), Change(b"gone", None)]))
    block = block_bytes(FILE, 8, 2, 7, [metadata, *ENTRIES, metadata])
    found = decode_block(bytearray(block), 0, FILE)
    assert found is not None
    assert [entry.partition for entry in found.entries] == [0, 1, 2, 3, 2, 2, 2, 2, 0]
    assert [entry.partition for entry in found.partition_entries] == [1, 2, 3, 2, 2, 2, 2]
    assert found.metadata_changes() == 2 * metadata.change.changes


def test_the_checksum_in_the_chain_is_the_same_in_every_file() -> None:
    payload = b"".join(entry.encode() for entry in ENTRIES)
    expected = ShardBlock.following(Mark(7, 2, 0xFEED_BEEF), 0, 3, payload)
    for file in (FILE, FileMark(1, 2)):
        found = decode_block(bytearray(encode_block(file, expected, 2, 5)), 0, file)
        assert found is not None
        assert found.mark == expected.mark
        assert Mark(7, 2, 0xFEED_BEEF).precedes(found)
        assert (found.shard, found.payload) == (0, payload)
        assert len(decode_entries(found.payload)) == len(ENTRIES)


def test_the_size_of_an_entry_is_what_it_takes_in_a_block() -> None:
    for entries in ([entry] for entry in ENTRIES):
        found = decode_block(bytearray(block_bytes(FILE, 1, 1, 0, entries)), 0, FILE)
        assert found is not None
        assert found.length == BLOCK_HEADER_BYTES + len(entries[0].encode())


def test_a_block_fills_whole_pages() -> None:
    assert len(block()) % BLOCK_ALIGNMENT == 0
    assert not any(block()[found_length() :])


def found_length() -> int:
    found = decode_block(bytearray(block()), 0, FILE)
    assert found is not None
    return found.length


def test_a_block_is_read_where_it_starts() -> None:
    content = bytearray(block(8) + block(9))
    first = decode_block(content, 0, FILE)
    second = decode_block(content, len(block(8)), FILE)
    assert isinstance(first, Block)
    assert isinstance(second, Block)
    assert (first.position, second.position) == (8, 9)
    for at in range(BLOCK_ALIGNMENT, len(block(8)), BLOCK_ALIGNMENT):
        assert decode_block(content, at, FILE) is None


@pytest.mark.parametrize("number", [0, 16, 18, 17 + (1 << 32)])
def test_a_stale_block_of_a_recycled_file_is_none(number: int) -> None:
    other = FileMark(number, FILE.salt)
    assert decode_block(bytearray(block(file=other)), 0, FILE) is None


@pytest.mark.parametrize("salt", [0, 0xFEEC, 0xFEED << 32, (1 << 64) - 1])
def test_a_block_with_another_salt_is_none(salt: int) -> None:
    assert decode_block(bytearray(block(file=FileMark(17, salt))), 0, FILE) is None


def test_a_stale_block_with_its_file_number_changed_is_none() -> None:
    stale = bytearray(block(file=FileMark(16, FILE.salt)))
    stale[8:16] = FILE.number.to_bytes(8, "little")
    assert decode_block(stale, 0, FILE) is None


def test_a_block_torn_over_a_stale_one_is_none() -> None:
    fresh = block()
    stale = block_bytes(FileMark(16, 5), 3, 1, 2, [JournalEntry(9, batch([b"y" * 6000]))])
    for torn_at in range(0, found_length(), 512):
        assert decode_block(bytearray(fresh[:torn_at] + stale[torn_at:]), 0, FILE) is None
        assert decode_block(bytearray(fresh[:torn_at] + bytes(len(fresh))), 0, FILE) is None


def test_every_flipped_byte_is_detected() -> None:
    whole = block()
    for place in range(found_length()):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        assert decode_block(damaged, 0, FILE) is None, place


def test_every_truncation_is_detected() -> None:
    whole = bytearray(block())
    for size in range(found_length()):
        assert decode_block(whole[:size], 0, FILE) is None, size


@pytest.mark.parametrize("size", [0, 1, BLOCK_HEADER_BYTES, BLOCK_ALIGNMENT])
def test_zeros_are_no_block(size: int) -> None:
    assert decode_block(bytearray(size), 0, FileMark(0, 0)) is None


def test_a_length_beyond_the_file_is_no_block() -> None:
    for length in (0xFFFFFFFF, BLOCK_HEADER_BYTES - 1):
        huge = bytearray(block())
        huge[40:44] = length.to_bytes(4, "little")
        assert decode_block(checked(huge), 0, FILE) is None


def checked(block: bytes) -> bytearray:
    """A block with right checksums of what it holds."""
    length = int.from_bytes(block[40:44], "little")
    header = block[8:44] + crc32c(block[48:length]).to_bytes(4, "little")
    return bytearray(MAGIC + crc32c(header).to_bytes(4, "little") + header + block[48:])


@pytest.mark.parametrize(
    ("at", "value", "problem"), [(0, 9, "kind is not known"), (24 + 4, 77, "77 is not a valid")]
)
def test_an_entry_of_a_later_version_is_said_to_be_one(at: int, value: int, problem: str) -> None:
    whole = bytearray(block_bytes(FILE, 1, 1, 0, [JournalEntry(3, Settlement(0, [(1, 2)]))]))
    whole[BLOCK_HEADER_BYTES + at] = value
    with pytest.raises(UnknownEntry, match=f"partition 3: .*{problem}"):
        _entries(checked(whole))


def test_the_writer_of_blocks_takes_their_constants_from_one_place() -> None:
    module = source_module("routelog.log_backend.journal.journal_groups")
    source = Path(str(module.__file__)).read_text()
    for name, value in (("BLOCK_ALIGNMENT", "4_096"), ("BLOCK_HEADER_BYTES", "72")):
        assert f"\n{name} = {value}\n" in source
    changed = source.replace("= 4_096\n", "= 512\n").replace("_BYTES = 72\n", "_BYTES = 88\n")
    names = {"__name__": module.__name__}
    exec(compile(changed, "journal_groups_changed.py", "exec"), names)
    groups: Any = names["JournalGroups"]
    made = groups(lambda waited: None, lambda pressed: None)
    made.start(1)
    made.append_batch(1, batch([b"x" * 600], 1), True, True)
    block = made.take_first().block(1, 2, 1, 1, 0, 1, 0)
    length = int.from_bytes(block[40:44], "little")
    assert len(block) == -(-length // 512) * 512 == 1024
    assert block[88] == BATCH


def _entries(octets: bytearray) -> list[JournalEntry]:
    block = decode_block(octets, 0, FILE)
    assert block is not None
    return block.entries
