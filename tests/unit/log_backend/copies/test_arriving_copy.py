"""A copy takes the place of the data, whenever the process is killed or the power is cut."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routelog.log_backend.copies.arriving_copy import ArrivingCopy, take_copied
from routelog.log_backend.copies.data_writer import NotBelow
from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_files import JournalFiles

OLD = {
    "metadata/CURRENT": b"old",
    "journal/1.journal": b"old",
    "logs/v/q-0/1.log": b"old",
}
NEW = {
    "metadata/CURRENT": b"new",
    "metadata/7.sst": b"new",
    "journal/9.journal": b"new",
    "logs/v/r-0/1.log": b"new",
}
OWN = {"incarnation": b"5", "promise": b"7", "LOCK": b""}  # what no copy takes the place of


class DyingDisk(SystemDisk):
    """Dies before its n-th call; with the power, what was renamed and not synced is undone.

    Renames are kept or lost in their order, each as a whole: so does every file system with a journal.
    """

    def __init__(self, calls_left: int) -> None:
        self.calls_left = calls_left
        self.unsynced: list[tuple[Path, Path]] = []

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        super().rename(source, target)
        self.unsynced.append((source, target))

    def sync_directory(self, path: Path) -> None:
        """See `Disk`."""
        super().sync_directory(path)
        self.unsynced = [each for each in self.unsynced if path not in (x.parent for x in each)]

    def cut_power(self) -> None:
        for source, target in reversed(self.unsynced):
            target.rename(source)


def _dying(name: str) -> Callable[..., Any]:
    def call(self: DyingDisk, *args: Any, **kwargs: Any) -> Any:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    original = getattr(DyingDisk, name)
    return call


for _name, _ in inspect.getmembers(Disk, inspect.isfunction):
    if not _name.startswith("_"):
        setattr(DyingDisk, _name, _dying(_name))


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def found(folder: Path) -> dict[str, bytes]:
    return {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
    }


def arrive(data: Path, disk: Disk, files: dict[str, bytes] = NEW) -> None:
    copy = ArrivingCopy(data, disk)
    copy.begin()
    for name, content in files.items():
        copy.write(name, [content])
    copy.complete()
    copy.keep()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    write(data, OLD | OWN)
    return data


def aside(number: int, files: dict[str, bytes] = OLD) -> dict[str, bytes]:
    return {f"aside/{number}/{name}": content for name, content in files.items()}


def test_the_next_start_takes_a_copy_and_keeps_what_was_there_aside(data: Path) -> None:
    assert not take_copied(data, SystemDisk())
    assert found(data) == OLD | OWN
    arrive(data, SystemDisk())
    assert take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(1)
    assert not take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(1)


def test_only_the_newest_is_kept_aside(data: Path) -> None:
    for _ in range(2):
        arrive(data, SystemDisk())
        take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(2, NEW)


def test_a_directory_without_data_takes_a_copy(tmp_path: Path) -> None:
    arrive(tmp_path, SystemDisk())
    assert take_copied(tmp_path, SystemDisk())
    assert found(tmp_path) == NEW
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal", "logs", "metadata"]


def test_an_empty_copy_leaves_nothing_of_what_was_there(data: Path) -> None:
    only = {"metadata/CURRENT": b"new"}
    arrive(data, SystemDisk(), only)
    take_copied(data, SystemDisk())
    assert found(data) == only | OWN | aside(1)
    assert (data / "logs").is_dir()


JOURNAL = f"journal/{7:020d}-{8:016x}.journal"
EMPTY = {"metadata/CURRENT": b"empty", JOURNAL: bytes(2 * BLOCK_ALIGNMENT) + b"size"}


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_what_was_given_up_stays_aside_behind_the_copy_for_the_empty_store(
    data: Path, tmp_path: Path, power: bool
) -> None:
    arrive(data, SystemDisk(), EMPTY)
    take_copied(data, SystemDisk())
    arrive(data, SystemDisk())
    for calls in range(500):
        each = tmp_path / str(calls)
        write(each, found(data))
        disk = DyingDisk(calls)
        try:
            assert take_copied(each, disk)
        except KeyboardInterrupt:
            if power:
                disk.cut_power()
            take_copied(each, SystemDisk())
            assert found(each) == NEW | OWN | aside(1), calls
        else:
            assert found(each) == NEW | OWN | aside(1)
            return
    raise AssertionError("it has no end")


@pytest.mark.parametrize("name", [JOURNAL, "logs/v/q-0/1.log"])
def test_a_store_with_anything_in_it_goes_aside(data: Path, name: str) -> None:
    some = EMPTY | {name: b"damaged"}
    arrive(data, SystemDisk(), some)
    take_copied(data, SystemDisk())
    arrive(data, SystemDisk())
    take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(2, some)


def test_a_journal_that_cannot_be_read_goes_aside(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    some = EMPTY | {JOURNAL: b"damaged"}
    arrive(data, SystemDisk(), some)
    take_copied(data, SystemDisk())
    arrive(data, SystemDisk())
    monkeypatch.setattr(JournalFiles, "read_begin", failing)
    take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(2, some)


def test_a_copy_that_is_not_whole_is_removed_at_start(data: Path) -> None:
    write(data / "copy.new", NEW)
    assert not take_copied(data, SystemDisk())
    assert found(data) == OLD | OWN
    assert not (data / "copy.new").exists()


def test_a_copy_that_is_abandoned_or_begun_again_leaves_nothing(data: Path) -> None:
    copy = ArrivingCopy(data, SystemDisk())
    copy.begin()
    copy.write("logs/v/q-0/1.log", [b"1"])
    with pytest.raises(NotBelow):
        copy.write("../incarnation", [b"1"])
    copy.abandon()
    assert found(data) == OLD | OWN
    write(data / "copy.new", {"logs/left": b"1"})
    arrive(data, SystemDisk())
    take_copied(data, SystemDisk())
    assert found(data) == NEW | OWN | aside(1)


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("before", [0, 1], ids=["the first copy", "another copy"])
def test_a_start_that_dies_before_any_call_is_continued(
    data: Path, tmp_path: Path, power: bool, before: int
) -> None:
    if before:
        write(data, {"aside/1/journal/1.journal": b"older"})
    arrive(data, SystemDisk())
    for calls in range(500):
        each = tmp_path / str(calls)
        write(each, found(data))
        disk = DyingDisk(calls)
        try:
            assert take_copied(each, disk)
        except KeyboardInterrupt:
            if power:
                disk.cut_power()
            assert {name: found(each)[name] for name in OWN} == OWN
            take_copied(each, SystemDisk())
            assert found(each) == NEW | OWN | aside(1 + before), calls
            assert not (each / "copied").exists()
        else:
            assert calls > 30
            return
    raise AssertionError("it has no end")


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_copy_is_whole_or_not_there(data: Path, tmp_path: Path, power: bool) -> None:
    for calls in range(500):
        each = tmp_path / str(calls)
        write(each, found(data))
        disk = DyingDisk(calls)
        try:
            arrive(each, disk)
        except KeyboardInterrupt:
            if power:
                disk.cut_power()
            is_whole = (each / "copied").exists()
            assert take_copied(each, SystemDisk()) == is_whole
            assert found(each) == (NEW | OWN | aside(1) if is_whole else OLD | OWN), calls
        else:
            assert calls > 30
            return
    raise AssertionError("it has no end")


def test_a_damaged_node_begins_anew_with_nothing_and_keeps_what_it_had_aside(data: Path) -> None:
    copy = ArrivingCopy(data, SystemDisk())
    copy.complete_empty()
    copy.keep()
    assert take_copied(data, SystemDisk())
    assert found(data) == OWN | aside(1)
    for part in ("metadata", "journal", "logs"):
        assert list((data / part).iterdir()) == []
