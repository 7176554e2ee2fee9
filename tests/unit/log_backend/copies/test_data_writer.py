"""Files of a data directory that come from elsewhere."""

from pathlib import Path

import pytest

from routelog.log_backend.copies.data_writer import DataWriter, NotBelow
from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_files import find_end


def writer(tmp_path: Path) -> DataWriter:
    return DataWriter(tmp_path / "data", SystemDisk())


def test_files_are_there_with_the_folders_of_an_empty_store(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.write("logs/v/q-0/1.log", [b"one", b"two"])
    writing.write("LOCK", ())
    writing.complete()
    data = tmp_path / "data"
    assert sorted(each.name for each in data.iterdir()) == ["LOCK", "journal", "logs"]
    assert (data / "logs/v/q-0/1.log").read_bytes() == b"onetwo"


@pytest.mark.parametrize("size", [0, BLOCK_ALIGNMENT, 3 * BLOCK_ALIGNMENT])
def test_a_file_of_the_journal_has_its_size_and_its_end(tmp_path: Path, size: int) -> None:
    padded = 4 * BLOCK_ALIGNMENT
    writer(tmp_path).write("journal/1.journal", [b"x" * size], padded)
    content = (tmp_path / "data/journal/1.journal").read_bytes()
    assert len(content) == padded
    assert find_end(content) == padded - BLOCK_ALIGNMENT
    assert content[: padded - BLOCK_ALIGNMENT] == b"x" * size + bytes(3 * BLOCK_ALIGNMENT - size)


@pytest.mark.parametrize(
    "path", ["", ".", "/etc/passwd", "..", "../up", "logs/../../up", "logs/..", "a\0b"]
)
def test_no_path_leads_out_of_the_directory(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotBelow, match="no path below"):
        writer(tmp_path).write(path, [b"x"])
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_written_twice(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.write("logs/a", [b"long"])
    for same in ("logs/a", "logs//a", "./logs/a"):
        with pytest.raises(NotBelow, match="twice"):
            writing.write(same, [b"x"])
    assert (tmp_path / "data/logs/a").read_bytes() == b"long"


def test_all_that_was_written_can_be_removed(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.write("LOCK", ())
    writing.write("logs/v/q-0/1.log", [b"one"])
    writing.complete()
    writing.remove_all()
    assert list(tmp_path.iterdir()) == []
