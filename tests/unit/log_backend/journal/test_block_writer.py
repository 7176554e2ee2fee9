import errno
from pathlib import Path

import pytest
from unit.log_backend.log_records import batch
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.journal.block_writer import BlockWriter, PlacedGroup
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, decode_block
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_files import JournalFile, JournalFiles
from routelog.log_backend.journal.journal_groups import JournalGroups

FILE_BYTES = 4 * BLOCK_ALIGNMENT


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def files(tmp_path: Path, disk: WatchedDisk) -> JournalFiles:
    return JournalFiles(tmp_path, disk)


@pytest.fixture
def file(files: JournalFiles, disk: WatchedDisk) -> JournalFile:
    file = files.new(1, FILE_BYTES)
    file.first = 1
    disk.events.clear()
    return file


def placed(file: JournalFile, at: int, *, synced: bool, size: int = 1) -> PlacedGroup:
    """A group of one entry; its position follows from its place."""
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    groups.start(1 + at // BLOCK_ALIGNMENT)
    groups.append(JournalEntry(1, batch([b"x" * size], 0)), False, synced)
    group = groups.take_first()
    return PlacedGroup(file, at, 0, group)


def operations(disk: WatchedDisk) -> list[str]:
    return [operation for operation, _ in disk.events]


def test_a_synced_block_is_durable_when_the_call_returns(
    disk: WatchedDisk, files: JournalFiles, file: JournalFile
) -> None:
    BlockWriter(disk, files).write(placed(file, 0, synced=True))
    assert operations(disk) == ["write", "sync"]
    block = decode_block(files.read(file.mark), 0, file.mark)
    assert block is not None
    assert block.position == 1


def test_a_synced_block_makes_those_before_it_durable_in_other_files_too(
    disk: WatchedDisk, files: JournalFiles, file: JournalFile
) -> None:
    other = files.new(2, FILE_BYTES)
    disk.events.clear()
    writer = BlockWriter(disk, files)
    writer.write(placed(file, 0, synced=False))
    assert operations(disk) == ["write"]
    writer.write(placed(other, 0, synced=True))
    assert {path for operation, path in disk.events if operation == "sync"} == {
        file.path,
        other.path,
    }


def test_what_is_synced_is_not_synced_again(
    disk: WatchedDisk, files: JournalFiles, file: JournalFile
) -> None:
    writer = BlockWriter(disk, files)
    writer.write(placed(file, 0, synced=False))
    writer.sync()
    writer.sync()
    assert operations(disk) == ["write", "sync"]


def test_a_block_larger_than_its_file_finds_room_or_nothing_is_written(
    disk: WatchedDisk, files: JournalFiles, file: JournalFile
) -> None:
    writer = BlockWriter(disk, files)
    disk.fail("allocate", "*.journal", errno.ENOSPC)
    before = files.read(file.mark)
    with pytest.raises(DiskFull):
        writer.write(placed(file, 0, synced=True, size=2 * FILE_BYTES))
    assert files.read(file.mark) == before
    disk.repair()
    writer.write(placed(file, 0, synced=True, size=2 * FILE_BYTES))
    assert decode_block(files.read(file.mark), 0, file.mark) is not None
