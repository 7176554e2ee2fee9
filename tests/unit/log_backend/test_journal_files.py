"""Files of the journal: made whole or not at all."""

import errno
from pathlib import Path

import pytest
from unit.log_backend.watched_disk import WatchedDisk

from log_backend.disk import DiskFull
from log_backend.journal_files import JournalFiles

FILE_BYTES = 65_536


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def directory(disk: WatchedDisk, tmp_path: Path) -> JournalFiles:
    return JournalFiles(tmp_path, disk)


def test_a_file_is_made_of_zeros_and_found_again(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    made = directory.new(3, FILE_BYTES)
    (mark,) = directory.marks()
    assert mark == made.mark
    assert mark.number == 3
    assert directory.read(mark) == bytes(FILE_BYTES)
    opened = directory.open(mark, [])
    assert (opened.mark, opened.path, opened.size, opened.at) == (mark, made.path, FILE_BYTES, 0)
    order = [event[0] for event in disk.events if event[0] != "write"]
    assert order[0] == "allocate"
    assert order[-4:] == ["fill", "rename", "sync_directory", "sync"]


def test_a_recycled_file_has_its_new_number_only(directory: JournalFiles) -> None:
    made = directory.new(1, FILE_BYTES)
    made.at = 2 * FILE_BYTES  # one block was larger than the file
    recycled = directory.recycled(made, 2)
    assert directory.marks() == [recycled.mark]
    assert recycled.mark.number == 2
    assert (recycled.at, recycled.size, recycled.file) == (0, 2 * FILE_BYTES, made.file)


@pytest.mark.parametrize("operation", ["open", "allocate"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_finds_no_room_leaves_nothing(
    directory: JournalFiles, disk: WatchedDisk, tmp_path: Path, operation: str, number: int
) -> None:
    disk.fail(operation, "*.new", number)
    with pytest.raises(DiskFull):
        directory.new(1, FILE_BYTES)
    assert list(tmp_path.iterdir()) == []
    disk.repair()
    directory.new(1, FILE_BYTES)
    assert [mark.number for mark in directory.marks()] == [1]


@pytest.mark.parametrize("operation", ["open", "allocate", "fill", "rename", "sync_directory"])
def test_an_error_of_the_disk_is_no_lack_of_room(
    directory: JournalFiles, disk: WatchedDisk, operation: str
) -> None:
    disk.fail(operation, "*", errno.EIO)
    with pytest.raises(OSError, match="made to fail"):
        directory.new(1, FILE_BYTES)


def test_a_full_disk_that_shows_while_filling_is_final(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    disk.fail("fill", "*.new", errno.ENOSPC)
    with pytest.raises(OSError, match="made to fail"):
        directory.new(1, FILE_BYTES)


def test_growing_keeps_what_is_there_and_is_undone_without_room(
    directory: JournalFiles, disk: WatchedDisk
) -> None:
    file = directory.new(1, FILE_BYTES)
    disk.write(file.file, 0, [b"block"])
    directory.grow(file.file, FILE_BYTES, FILE_BYTES + 100)
    assert disk.size(file.file) == FILE_BYTES + 100
    disk.capacity = 2 * FILE_BYTES
    with pytest.raises(DiskFull):
        directory.grow(file.file, FILE_BYTES + 100, 3 * FILE_BYTES)
    assert disk.size(file.file) == FILE_BYTES + 100
    assert directory.read(file.mark)[:5] == b"block"


def test_what_an_earlier_run_did_not_finish_is_removed(
    directory: JournalFiles, tmp_path: Path
) -> None:
    made = directory.new(1, FILE_BYTES)
    (tmp_path / "00000000000000000002.new").write_bytes(b"half")
    directory.remove_unfinished()
    assert list(tmp_path.iterdir()) == [made.path]
