"""A copy's files have the names and sizes that they have in a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from routelog.log_backend.copies.data_copy import COPY, CopiedDisk, CopiedFile
from routelog.log_backend.doors.disk import opened


def test_files_are_found_below_their_folders_and_end_where_the_copy_ends(tmp_path: Path) -> None:
    held = tmp_path / "17"
    held.write_bytes(b"as it was, and what came since")
    disk = CopiedDisk(
        [
            CopiedFile("logs/%2F/q-0/1.log", 9, held),
            CopiedFile("logs/%2F/q-0/PARTITION", 0, held),
            CopiedFile("journal/1.journal", 4, held),
        ]
    )
    assert disk.list_directory(COPY) == ["journal", "logs"]
    assert disk.list_directory(COPY / "logs" / "%2F") == ["q-0"]
    assert disk.list_directory(COPY / "logs/%2F/q-0") == ["1.log", "PARTITION"]
    assert disk.list_directory(COPY / "spill") == []
    with opened(disk, COPY / "logs/%2F/q-0/1.log") as file:
        assert disk.size(file) == 9
        assert disk.read(file, 3, 100) == b"it was"
        assert disk.read(file, 9, 100) == b""
    with pytest.raises(FileNotFoundError):
        disk.open(COPY / "logs/%2F/q-0/2.log")
