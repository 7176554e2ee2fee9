"""What a reader of journal files takes for a block: a client cannot forge one."""

import struct
from pathlib import Path

import pytest
from unit.log_backend.journal_blocks import block_bytes
from unit.log_backend.log_records import batch
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    FileMark,
    JournalEntry,
    aligned,
)
from routelog.log_backend.journal.journal_files import JournalFile, JournalFiles
from routelog.log_backend.journal.journal_reader import (
    JournalDamaged,
    JournalReader,
    claims_block,
    whole_blocks,
)
from routelog.log_backend.records.record_batch import RecordBatch

FILE_BYTES = 64 * BLOCK_ALIGNMENT


@pytest.fixture
def files(tmp_path: Path) -> JournalFiles:
    return JournalFiles(tmp_path, WatchedDisk())


def write(file: JournalFile, at: int, block: bytes) -> None:
    with file.path.open("r+b") as opened:
        opened.seek(at)
        opened.write(block)


def message_block(
    mark: FileMark, position: int, body: bytes, before: bytes = b"", epoch: int = 0
) -> bytes:
    entries = [JournalEntry(1, batch([body], position))]
    previous = int.from_bytes(before[44:48], "little")
    return block_bytes(mark, position, 1, 0, entries, previous=previous, epoch=epoch)


def block_with_forged_one(mark: FileMark, position: int, forged: bytes, before: bytes) -> bytes:
    """A block of a message in whose body another block lies, at a page of its own."""
    probe = message_block(mark, position, forged).find(forged)
    pad = -probe % BLOCK_ALIGNMENT
    for more in range(0, BLOCK_ALIGNMENT, 8):
        block = message_block(mark, position, bytes(pad + more) + forged, before)
        if block.find(forged) % BLOCK_ALIGNMENT == 0:
            return block
    raise AssertionError("the body never lies right")


def bodies(reader: JournalReader) -> list[bytes]:
    found = []
    for block in reader.blocks():
        for entry in block.entries:
            assert isinstance(entry.change, RecordBatch)
            found.append(entry.change.records.body(0))
    return found


@pytest.mark.parametrize("knows_the_salt", [False, True])
@pytest.mark.parametrize("position", [1, 2])
def test_a_block_in_the_body_of_a_message_is_none(
    files: JournalFiles, position: int, knows_the_salt: bool
) -> None:
    file = files.new(7, FILE_BYTES)
    at, before = 0, b""
    if position == 2:
        before = message_block(file.mark, 1, b"first")
        write(file, 0, before)
        at = BLOCK_ALIGNMENT
    guess = file.mark if knows_the_salt else FileMark(7, 0)
    forged = message_block(guess, position, b"forged", before)
    block = block_with_forged_one(file.mark, position, forged, before)
    write(file, at, bytes(512) + block[512:])  # torn: its first sector never arrived
    found = bodies(JournalReader(files))
    # With the salt it would be taken: the forgery lacks nothing else.
    assert found == [b"first"] * (position - 1) + [b"forged"] * knows_the_salt


def test_a_block_that_does_not_follow_the_one_before_ends_the_journal(files: JournalFiles) -> None:
    file = files.new(7, FILE_BYTES)
    first = message_block(file.mark, 1, b"first", epoch=2)
    write(file, 0, first)
    for other in (
        message_block(file.mark, 2, b"of another history", epoch=2),
        message_block(file.mark, 2, b"of an older epoch", first, epoch=1),
        message_block(file.mark, 3, b"not the next one", first, epoch=2),
    ):
        write(file, BLOCK_ALIGNMENT, other)
        reader = JournalReader(files)
        assert bodies(reader) == [b"first"]
        assert reader.end.position == 1
        assert reader.behind == {file.mark: [BLOCK_ALIGNMENT]}
    write(file, BLOCK_ALIGNMENT, message_block(file.mark, 2, b"second", first, epoch=2))
    assert bodies(JournalReader(files)) == [b"first", b"second"]


def test_a_block_that_a_later_one_calls_committed_and_that_does_not_follow_is_damage(
    files: JournalFiles,
) -> None:
    file = files.new(7, FILE_BYTES)
    first = message_block(file.mark, 1, b"first")
    other = message_block(file.mark, 2, b"of another history")
    third = block_bytes(file.mark, 3, 1, 2, [], previous=int.from_bytes(other[44:48], "little"))
    write(file, 0, first + other + third)
    with pytest.raises(JournalDamaged, match="at byte 4096: commit 2 is missing"):
        bodies(JournalReader(files))


def test_it_reads_again_only_what_it_has_found(files: JournalFiles) -> None:
    file = files.new(7, FILE_BYTES)
    first = message_block(file.mark, 1, b"first")
    write(file, 0, first)
    other = files.new(8, FILE_BYTES)
    second = message_block(other.mark, 2, b"second", first)
    write(other, 0, second)
    reader = JournalReader(files)
    assert bodies(reader) == [b"first", b"second"]
    write(other, len(second), message_block(other.mark, 3, b"third", second))
    assert bodies(reader) == [b"first", b"second"]
    assert bodies(JournalReader(files)) == [b"first", b"second", b"third"]
    write(other, 0, bytes(BLOCK_ALIGNMENT))
    with pytest.raises(JournalDamaged, match=r"0008.*at byte 0: a commit has changed"):
        bodies(reader)


def test_each_use_of_a_file_has_a_salt_of_its_own(files: JournalFiles) -> None:
    first = files.new(1, FILE_BYTES)
    write(first, 0, message_block(first.mark, 1, b"first"))
    second = files.recycled(2, first, FILE_BYTES)
    assert second.mark.number == 2
    assert second.mark.salt != first.mark.salt != files.new(3, FILE_BYTES).mark.salt
    assert files.marks()[0] == second.mark
    assert bodies(JournalReader(files)) == []


def test_a_body_full_of_magic_numbers_is_passed_over_page_by_page() -> None:
    mark = FileMark(1, 2)
    content = bytearray(b"RLJ2" * (4 * BLOCK_ALIGNMENT) + message_block(mark, 9, b"x"))
    (found,) = whole_blocks(content, mark)
    assert found[0] == 16 * BLOCK_ALIGNMENT
    assert found[1].position == 9


def test_every_block_of_a_file_is_found_where_it_begins() -> None:
    mark = FileMark(1, 2)
    blocks = [message_block(mark, 1 + n, b"x" * 3000 * n) for n in range(5)]
    content = bytearray(b"".join(blocks) + bytes(3 * BLOCK_ALIGNMENT))
    places = [sum(map(len, blocks[:n])) for n in range(5)]
    assert [at for at, _ in whole_blocks(content, mark)] == places
    assert [aligned(block.length) for _, block in whole_blocks(content, mark)] == [
        *map(len, blocks)
    ]
    struct.pack_into("<I", content, places[2] + 4, 0)
    assert [at for at, _ in whole_blocks(content, mark)] == places[:2] + places[3:]


def test_damaged_bytes_do_not_hide_that_a_block_was_meant() -> None:
    mark = FileMark(5, 1 << 62)
    content = message_block(mark, 9, b"x" * 100)
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        assert claims_block(damaged, 0, mark, 9)


@pytest.mark.parametrize(
    "content",
    [
        bytes(BLOCK_ALIGNMENT),
        b"",
        b"RLJ2",
        message_block(FileMark(4, 7), 8, b"x"),
        b"\xff" * BLOCK_ALIGNMENT,
    ],
)
def test_zeros_and_what_a_recycled_file_held_claim_nothing(content: bytes) -> None:
    assert not claims_block(bytearray(content), 0, FileMark(5, 1 << 62), 9)
