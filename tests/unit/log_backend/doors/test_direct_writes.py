import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from routelog.log_backend import SystemDisk
from routelog.log_backend.doors.direct_writes import (
    DIRECT_BYTES_MAX,
    DIRECT_BYTES_MIN,
    PAGE_BYTES,
    ZEROS_BYTES,
    DirectWrites,
)

FILE_BYTES = 2 * DIRECT_BYTES_MAX


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"z" * FILE_BYTES)
    return path


@pytest.fixture
def file(path: Path) -> Iterator[int]:
    disk = SystemDisk()
    file = disk.open(path)
    yield file
    disk.close(file)


def pieces(size: int) -> list[bytes | bytearray | memoryview]:
    """Of odd lengths, so many bytes in all."""
    octets = os.urandom(size)
    return [octets[:7], bytearray(octets[7:5_000]), memoryview(octets)[5_000:], b""]


def test_what_is_written_past_the_cache_is_read_through_it(path: Path, file: int) -> None:
    disk = SystemDisk()
    os.pread(file, FILE_BYTES, 0)  # the cache has all of it
    expected = bytearray(path.read_bytes())
    for size in (DIRECT_BYTES_MIN, 5 * PAGE_BYTES + DIRECT_BYTES_MIN, DIRECT_BYTES_MAX):
        for position in (0, PAGE_BYTES, DIRECT_BYTES_MAX - PAGE_BYTES):
            content = pieces(size)
            disk.write_synced(file, position, content)
            expected[position : position + size] = b"".join(content)
            assert path.read_bytes() == expected


@pytest.mark.parametrize(
    ("position", "size"),
    [
        (0, DIRECT_BYTES_MIN - PAGE_BYTES),
        (0, DIRECT_BYTES_MAX + PAGE_BYTES),
        (1, DIRECT_BYTES_MIN),
        (0, DIRECT_BYTES_MIN + 1),
    ],
)
def test_what_does_not_fit_is_left_to_the_cache(file: int, position: int, size: int) -> None:
    assert not DirectWrites().write_synced(file, position, [bytes(size)], size)
    assert os.pread(file, 10, position) == b"z" * 10


def test_a_file_system_that_takes_none_is_asked_once(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, asked = DirectWrites(), list[int]()

    def refused(*_: object) -> int:
        asked.append(1)
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(os, "open", refused)
    for _ in range(2):
        assert not writes.write_synced(file, 0, [bytes(DIRECT_BYTES_MIN)], DIRECT_BYTES_MIN)
    assert len(asked) == 1
    writes.close(file)
    assert not writes._files


def test_a_file_system_that_opens_such_files_and_writes_none_is_asked_once(
    path: Path, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, asked = DirectWrites(), list[int]()

    def refused(*_: object) -> int:
        asked.append(1)
        raise OSError(errno.EINVAL, "other places")

    monkeypatch.setattr(os, "pwritev", refused)
    for _ in range(2):
        assert not writes.write_synced(file, 0, [bytes(DIRECT_BYTES_MIN)], DIRECT_BYTES_MIN)
    assert len(asked) <= 1
    assert writes._files == {file: None}


@pytest.mark.parametrize("size", [0, 7, PAGE_BYTES, ZEROS_BYTES + 2 * PAGE_BYTES + 5])
def test_zeros_are_written_past_the_cache_and_the_rest_through_it(
    path: Path, file: int, size: int
) -> None:
    assert DirectWrites().write_zeros(file, size) == size - size % PAGE_BYTES
    disk = SystemDisk()
    disk.write(file, 0, [b"y" * size])
    disk.fill_with_zeros(file, size)
    assert path.read_bytes() == bytes(size) + b"z" * (FILE_BYTES - size)


def test_zeros_are_left_to_the_cache_where_the_file_system_takes_no_others(
    path: Path, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, size = DirectWrites(), 2 * ZEROS_BYTES

    def refused(*_: object) -> int:
        raise OSError(errno.EINVAL, "other places")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refused)
        assert writes.write_zeros(file, size) == 0
        assert writes._files == {file: None}
        patched.setattr(SystemDisk, "_direct", writes)
        SystemDisk().fill_with_zeros(file, size)
    assert path.read_bytes() == bytes(size) + b"z" * (FILE_BYTES - size)


def test_a_write_of_zeros_that_fails_is_an_error(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", failed)
        with pytest.raises(OSError, match="broken"):
            DirectWrites().write_zeros(file, PAGE_BYTES)


def test_a_descriptor_that_is_used_again_is_the_new_files(tmp_path: Path) -> None:
    disk, found = SystemDisk(), []
    for name in ("first", "second"):
        file = disk.open(tmp_path / name, create=True)
        disk.fill_with_zeros(file, FILE_BYTES)
        disk.write_synced(file, 0, [name.encode() * DIRECT_BYTES_MIN])
        disk.write_synced(file, 0, [name[-1:].encode() * DIRECT_BYTES_MIN])
        found.append(file)
        disk.close(file)
    assert found[0] == found[1]
    for name in ("first", "second"):
        begin = (tmp_path / name).read_bytes()[:DIRECT_BYTES_MIN]
        assert begin == name[-1:].encode() * DIRECT_BYTES_MIN
