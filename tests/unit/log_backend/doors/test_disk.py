import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from routelog.log_backend.doors.disk import (
    DirectoryLocked,
    DiskFull,
    NoDescriptor,
    SystemDisk,
    doubt,
    is_full,
    kind_of_mount,
)

TAKE_LOCK = """
import sys
from pathlib import Path
from routelog.log_backend.doors.disk import DirectoryLocked, SystemDisk
try:
    SystemDisk().lock(Path(sys.argv[1]))
except DirectoryLocked as error:
    sys.exit(7 if str(error.path) == sys.argv[1] else 1)
"""


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


def test_what_was_written_is_read(disk: SystemDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", create=True)
    assert disk.write(file, 3, [b"ab", bytearray(b"cd"), memoryview(b"ef"), b""]) == 6
    assert disk.size(file) == 9
    assert disk.read(file, 0, 100) == b"\0\0\0abcdef"
    assert disk.read(file, 4, 2) == b"bc"
    assert disk.read(file, 9, 5) == b""
    assert disk.read(file, 50, 5) == b""
    disk.truncate(file, 4)
    assert disk.read(file, 0, 100) == b"\0\0\0a"
    disk.sync(file)
    disk.close(file)


def test_more_buffers_than_the_system_takes_at_once_are_written(
    disk: SystemDisk, tmp_path: Path
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    buffers = [bytes([number % 256]) * 3 for number in range(3000)]
    assert disk.write(file, 0, buffers) == 9000
    assert disk.read(file, 0, 9000) == b"".join(buffers)
    disk.close(file)


def test_short_writes_are_continued(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwritev

    def write_little(file: int, buffers: list[Any], position: int, flags: int) -> int:
        used.append(flags)
        return write(file, [memoryview(buffers[0])[:2]], position, flags)

    used: list[int] = []
    monkeypatch.setattr(os, "pwritev", write_little)
    file = disk.open(tmp_path / "file", create=True)
    assert disk.write(file, 1, [b"abcde", b"", b"fgh"]) == 8
    disk.fill_with_zeros(file, 3)
    assert disk.read(file, 0, 100) == b"\0\0\0cdefgh"
    assert set(used) == {0}
    used.clear()
    disk.write_synced(file, 4, [b"12345", b"", b"678"])
    assert disk.read(file, 0, 100) == b"\0\0\0c12345678"
    assert set(used) == {os.RWF_DSYNC}
    disk.close(file)


def test_a_synced_write_of_more_buffers_than_the_system_takes_is_whole(
    disk: SystemDisk, tmp_path: Path
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    buffers = [bytes([number % 256]) * 3 for number in range(3000)]
    disk.write_synced(file, 2, buffers)
    assert disk.read(file, 2, 9000) == b"".join(buffers)
    disk.close(file)


def test_a_short_write_of_zeros_on_a_full_disk_is_no_success(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write_until_full(file: int, buffers: list[Any], position: int, flags: int) -> int:
        if written:
            raise OSError(errno.ENOSPC, "full")
        written.append(position)
        return 100

    monkeypatch.setattr(os, "pwritev", write_until_full)
    file = disk.open(tmp_path / "file", create=True)
    with pytest.raises(OSError, match="full"):
        disk.fill_with_zeros(file, 1000)
    disk.close(file)


def test_zeros_overwrite_what_was_there(disk: SystemDisk, tmp_path: Path) -> None:
    size = 2 * 1024 * 1024 + 5
    file = disk.open(tmp_path / "file", create=True)
    disk.write(file, 0, [b"\xff" * 5000])
    disk.fill_with_zeros(file, size)
    assert disk.size(file) == size
    assert not any(disk.read(file, 0, size))
    disk.close(file)


def test_opening_creates_nothing_unless_asked_to(disk: SystemDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "file")
    assert disk.list_directory(tmp_path) == []


def test_directories_are_made_with_their_parents_and_their_entries_synced(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    disk.make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert {tmp_path, tmp_path / "a"} <= set(synced)
    disk.make_directory(tmp_path / "a" / "b")


def test_a_directory_that_is_perhaps_not_durable_is_not_there(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def sync(path: Path) -> None:
        synced.append(path)
        if path == tmp_path / "a" and synced.count(path) == 1:
            raise OSError(errno.EIO, "refused")

    monkeypatch.setattr(disk, "sync_directory", sync)
    with pytest.raises(OSError, match="refused"):
        disk.make_directory(tmp_path / "a" / "b" / "c")
    assert not (tmp_path / "a" / "b").exists()
    disk.make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert synced.count(tmp_path / "a") == 2


def test_a_directory_that_was_there_stays_when_its_sync_fails(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.make_directory(tmp_path / "a")

    def sync(path: Path) -> None:
        raise OSError(errno.EIO, "refused")

    monkeypatch.setattr(disk, "sync_directory", sync)
    with pytest.raises(OSError, match="refused"):
        disk.make_directory(tmp_path / "a")
    assert (tmp_path / "a").is_dir()


def test_a_missing_directory_is_empty(disk: SystemDisk, tmp_path: Path) -> None:
    assert disk.list_directory(tmp_path / "none") == []
    disk.remove_tree(tmp_path / "none")


def test_a_directory_goes_with_its_files(disk: SystemDisk, tmp_path: Path) -> None:
    directory = tmp_path / "d"
    disk.make_directory(directory)
    for name in ("b", "a"):
        disk.close(disk.open(directory / name, create=True))
    assert disk.list_directory(directory) == ["a", "b"]
    disk.remove_tree(directory)
    assert not directory.exists()


def test_files_that_go_while_a_directory_is_removed_are_no_error(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "list_directory", lambda path: ["gone"])
    disk.make_directory(tmp_path / "d")
    disk.remove_tree(tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_renaming_replaces_the_target(disk: SystemDisk, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.sync_directory(tmp_path)
    assert disk.list_directory(tmp_path) == ["b"]
    assert (tmp_path / "b").read_bytes() == b"new"
    disk.remove(tmp_path / "b")
    assert disk.list_directory(tmp_path) == []


def test_a_lock_keeps_other_processes_out_and_ends_with_its_file(
    disk: SystemDisk, tmp_path: Path
) -> None:
    path = tmp_path / "LOCK"
    lock = disk.lock(path)
    with pytest.raises(DirectoryLocked):
        disk.lock(path)
    assert take_lock(path) == 7
    disk.close(lock)
    assert take_lock(path) == 0
    disk.close(disk.lock(path))


def take_lock(path: Path) -> int:
    root = Path(__file__).parents[4]
    return subprocess.run([sys.executable, "-c", TAKE_LOCK, str(path)], cwd=root).returncode


def test_allocated_space_is_zeros_and_what_was_there_stays(
    disk: SystemDisk, tmp_path: Path
) -> None:
    file = disk.open(tmp_path / "file", create=True)
    disk.write(file, 0, [b"abc"])
    disk.allocate(file, 3, 5)
    assert disk.read(file, 0, 100) == b"abc\0\0\0\0\0"
    disk.allocate(file, 0, 4)
    disk.allocate(file, 8, 0)
    assert disk.size(file) == 8
    assert os.fstat(file).st_blocks > 0
    disk.close(file)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_has_no_room_says_so(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(file: int, position: int, size: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = disk.open(tmp_path / "file", create=True)
    with pytest.raises(OSError, match="refused") as refused:
        disk.allocate(file, 0, 10)
    assert is_full(refused.value) == (number != errno.EIO)
    disk.close(file)


def test_where_nothing_can_be_allocated_the_write_decides(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(file: int, position: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "unsupported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    file = disk.open(tmp_path / "file", create=True)
    disk.allocate(file, 0, 10)
    assert disk.size(file) == 0
    disk.close(file)


def test_space_is_that_of_the_file_system(disk: SystemDisk, tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert disk.total_bytes(tmp_path) == found.f_blocks * found.f_frsize
    assert 0 < disk.free_bytes(tmp_path) <= disk.total_bytes(tmp_path)


MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:20 / /data rw shared:5 - xfs /dev/vdb rw
24 23 0:21 / /data/with\040space rw - nfs4 server:/export rw
25 22 0:22 / /srv rw - ext4 /dev/vdc rw
26 25 0:23 / /srv rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/database/x", "ext4"),
        ("/data/x", "xfs"),
        ("/data/with space/x", "nfs4"),
        ("/srv/x", "tmpfs"),
    ],
)
def test_the_nearest_mount_above_a_path_says_its_file_system(path: str, kind: str) -> None:
    assert kind_of_mount(Path(path), MOUNTS.splitlines()) == kind
    assert kind_of_mount(Path("elsewhere"), MOUNTS.splitlines()) == ""


def test_the_file_system_of_a_path_is_found(disk: SystemDisk, tmp_path: Path) -> None:
    assert disk.file_system(Path("/proc/self")) == "proc"
    assert disk.file_system(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_directory_that_finds_no_room_can_be_made_later(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: Path, **options: object) -> None:
        raise OSError(number, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(OSError, match="refused") as refused:
            disk.make_directory(tmp_path / "a" / "b")
    assert isinstance(refused.value, DiskFull) == (number != errno.EIO)
    disk.make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The system opens no file while this has a number, and one more for each that is closed."""
    numbers: list[int] = []
    system_open, system_close = os.open, os.close
    closed: list[int] = []

    def limited_open(path: Path, flags: int, mode: int = 0o777) -> int:
        if numbers and not closed:
            raise OSError(numbers[0], "too many open files", str(path))
        if numbers:
            closed.pop()
        return system_open(path, flags, mode)

    def limited_close(file: int) -> None:
        closed.append(file)
        system_close(file)

    monkeypatch.setattr(os, "open", limited_open)
    monkeypatch.setattr(os, "close", limited_close)
    return numbers


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_file_that_cannot_be_opened_for_want_of_a_descriptor_is_a_full_disk(
    disk: SystemDisk, tmp_path: Path, few_files: list[int], number: int
) -> None:
    few_files.append(number)
    with pytest.raises(NoDescriptor) as refused:
        disk.open(tmp_path / "file", create=True)
    assert isinstance(refused.value, DiskFull)
    assert refused.value.errno == number
    few_files.clear()
    assert disk.list_directory(tmp_path) == []


def test_a_directory_is_synced_without_a_free_descriptor(
    disk: SystemDisk, tmp_path: Path, few_files: list[int]
) -> None:
    lock = disk.lock(tmp_path / "LOCK")  # the process owns a data directory, and keeps spare files
    few_files.append(errno.EMFILE)
    for _ in range(3):
        disk.sync_directory(tmp_path)
    few_files.clear()
    disk.close(lock)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "f2fs", ""])
def test_a_local_disk_is_not_doubted(kind: str) -> None:
    assert doubt(kind) is None


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("nfs4", "server"),
        ("cifs", "server"),
        ("fuse.sshfs", "program"),
        ("fuse", "program"),
        ("overlay", "container"),
        ("tmpfs", "memory"),
    ],
)
def test_what_may_not_keep_a_synced_write_is_doubted_with_the_reason(kind: str, word: str) -> None:
    assert word in str(doubt(kind))
