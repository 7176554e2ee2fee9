"""Backups into a folder, and data directories made of them."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    QUIET,
    append,
    content,
    durable,
    flushed,
    numbered,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.copies import backups as backups_module
from routelog.log_backend.copies.backup_target import BackupDamaged, BackupTarget, NoBackup
from routelog.log_backend.copies.backups import BackupRefused, Backups, BackupState
from routelog.log_backend.copies.restore import (
    RESTORING,
    NotEmpty,
    OnlyBackups,
    Restore,
    RestoreUnfinished,
)
from routelog.log_backend.doors.clock import Clock, SystemClock
from routelog.log_backend.doors.disk import Buffer, Disk, SystemDisk
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.remote.bucket import BadBucket, BucketFailed
from routelog.log_backend.remote.folder_bucket import FolderBucket

SMALL_SEGMENTS = replace(QUIET, segment_bytes=64 * 1024)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def backups_of(
    store: LogStore,
    *,
    bytes_per_second: int = 0,
    disk: Disk | None = None,
    clock: Clock | None = None,
    node: str = "node@here",
) -> Backups:
    return Backups(
        store.copies,
        disk or SystemDisk(),
        clock or SystemClock(),
        asyncio.get_running_loop(),
        node=node,
        version="1",
        remote_storage="",
        bytes_per_second=bytes_per_second,
    )


class FastClock(SystemClock):
    """A millisecond passes between two looks at the time, and no more."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> int:
        """See `Clock`."""
        self._looks += 1
        return self._looks * 1_000


class TornBucket(FolderBucket):
    """As in a bucket of S3, an object that is not complete gets its name, too.

    Attributes:
        tears: segments are not completed.
    """

    tears = False

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """See `Bucket`."""
        if not (self.tears and "segments" in name):
            return super().write(name, pieces, size)
        super().write(name, [b"torn"], 4)
        raise BucketFailed("the connection broke")


class StillClock(SystemClock):
    """All begins in the same second."""

    def now(self) -> int:
        """See `Clock`."""
        return 1_790_000_000_000_000


def opened(target: Path) -> BackupTarget:
    return BackupTarget(FolderBucket(SystemDisk(), target))


async def ended(backups: Backups) -> BackupState:
    await until(lambda: backups._task is None)
    state = backups.state()
    assert state is not None
    return state


async def made(backups: Backups, target: Path, name: str = "") -> BackupState:
    backups.start(f"file://{target}", name)
    state = await ended(backups)
    assert state.state == "done", state
    return state


def restored(target: Path, data: Path, name: str) -> Path:
    kept = opened(target)
    Restore(kept, kept.manifest(name), data, SystemDisk()).run()
    return data


def whole(target: Path) -> list[str]:
    """Names of the backups that can be read back."""
    kept = opened(target)
    return [each.header.name for each in kept.whole() if not any(kept.verify(each))]


def segments(target: Path) -> set[str]:
    """Names of the segments in it."""
    return {each.name for each in target.glob("segments/*")}


async def with_segments(data: Path, count: int = 8) -> tuple[LogStore, Backups]:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(count):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    return store, backups_of(store)


async def test_a_data_directory_of_a_backup_has_all_that_was_durable(
    data: Path, target: Path, tmp_path: Path
) -> None:
    store, (partition,) = start_store(data)
    append(partition, 3)
    await flushed(store)
    await durable(store, append(partition, 2))
    backups = backups_of(store)
    state = await made(backups, target, "first")
    append(partition, 4)
    await backups.aclose()
    await store.aclose()
    manifest = opened(target).manifest("first")
    assert manifest.header.position == state.position > 0
    assert state.bytes_done == state.bytes_total == manifest.size
    assert list(opened(target).verify(manifest)) == []
    again = restored(target, tmp_path / "again", "first")
    assert await content(again) == numbered(0, 1, 2, 3, 4)


async def test_records_that_several_queues_share_are_restored_in_each(
    data: Path, target: Path, tmp_path: Path
) -> None:
    queues = ("a", "b", "c")
    store, partitions = start_store(data, queues=queues)
    to_all = records([b"x" * 30_000])
    for each in partitions:
        position = each.append(to_all, waited=True)
    await durable(store, position)
    backups = backups_of(store)
    await made(backups, target, "first")
    await backups.aclose()
    await store.aclose()
    again = restored(target, tmp_path / "again", "first")
    store, partitions = start_store(again, queues=queues, epoch=9)
    assert [await unsettled(each) for each in partitions] == [[(0, b"x" * 30_000)]] * 3
    await store.aclose()


async def test_the_next_backup_copies_what_the_target_lacks(
    data: Path, target: Path, tmp_path: Path
) -> None:
    store, backups = await with_segments(data)
    first = await made(backups, target, "first")
    assert first.bytes_kept == 0
    written = {each.name: each.stat().st_mtime_ns for each in (target / "segments").iterdir()}
    assert len(written) >= 3
    await durable(store, append(store.partitions[1]))
    second = await made(backups, target, "second")
    assert second.bytes_kept == sum(
        each.size for each in opened(target).manifest("first").objects[1:]
    )
    assert {
        each.name: each.stat().st_mtime_ns for each in (target / "segments").iterdir()
    } == written
    await backups.aclose()
    await store.aclose()
    assert opened(target).names() == ["first", "second"]
    for name, count in (("first", 8), ("second", 9)):
        found = await content(restored(target, tmp_path / name, name))
        assert [offset for offset, _ in found] == list(range(count))


async def test_what_is_in_an_earlier_backup_and_gone_is_copied_again(
    data: Path, target: Path
) -> None:
    store, backups = await with_segments(data)
    await made(backups, target, "first")
    lost = next((target / "segments").iterdir())
    lost.write_bytes(b"cut")
    state = await made(backups, target, "second")
    assert 0 < state.bytes_kept < state.bytes_total
    assert whole(target) == ["first", "second"]
    await backups.aclose()
    await store.aclose()


async def test_compressed_segments_are_in_a_backup(
    data: Path, target: Path, tmp_path: Path
) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS, compression="zstd")
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    backups = backups_of(store)
    await made(backups, target, "before")
    await until(lambda: all(each.compressed_bytes for each in partition.segments[:-1]))
    await made(backups, target, "after")
    await backups.aclose()
    await store.aclose()
    paths = [
        each.path for stored in opened(target).manifest("after").objects for each in stored.files
    ]
    assert sum(path.endswith(".zlog") for path in paths) >= 3
    for name in ("before", "after"):
        found = await content(restored(target, tmp_path / name, name))
        assert found == [(offset, b"x" * 30_000) for offset in range(8)]


async def test_files_are_the_owners_alone(data: Path, target: Path, tmp_path: Path) -> None:
    import os

    from routelog.log_backend.doors.private_files import keep_private

    before = keep_private()
    try:
        store, backups = await with_segments(data)
        await made(backups, target, "first")
        again = restored(target, tmp_path / "again", "first")
        await backups.aclose()
        await store.aclose()
    finally:
        os.umask(before)
    for root in (target, again):
        for each in (root, *root.rglob("*")):
            assert stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600), each


async def test_a_folder_in_its_own_data_directory_is_refused(data: Path, tmp_path: Path) -> None:
    store, backups = await with_segments(data)
    (tmp_path / "link").symlink_to(data)
    for folder in (data, data / "backups", tmp_path / "link" / "backups"):
        with pytest.raises(BadBucket, match="lies inside the data directory"):
            backups.start(f"file://{folder}")
    assert backups.state() is None
    await backups.aclose()
    await store.aclose()
    assert not (data / "backups").exists()


async def test_only_one_at_a_time_and_no_name_twice(data: Path, target: Path) -> None:
    store, backups = await with_segments(data)
    backups.start(f"file://{target}", "first")
    with pytest.raises(BackupRefused, match="under way"):
        backups.start(f"file://{target}", "second")
    assert (await ended(backups)).state == "done"
    backups.start(f"file://{target}", "first")
    state = await ended(backups)
    assert (state.state, state.error) == ("failed", "there is a backup 'first' already")
    assert list(opened(target).verify(opened(target).manifest("first"))) == []
    for name in ("../up", ".hidden", "a/b", "x" * 101):
        with pytest.raises(BackupRefused, match="a name is"):
            backups.start(f"file://{target}", name)
    with pytest.raises(BadBucket):
        backups.start("http://here", "third")
    await backups.aclose()
    await store.aclose()


@pytest.mark.parametrize("how", ["cancelled", "left", "stopped"])
async def test_a_backup_that_ends_early_leaves_none_and_lets_go(
    data: Path, target: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, backups = await with_segments(data)
    await backups.aclose()
    backups = backups_of(store, bytes_per_second=100_000)  # some seconds
    backups.start(f"file://{target}", "first")
    await until(lambda: backups._writer is not None and backups._writer.bytes_done)
    assert any((data / "copies").iterdir())
    if how == "left":
        monkeypatch.setattr(backups_module, "LEASE_SECONDS", 0)
        backups.state()  # the last question
    elif how == "cancelled":
        assert backups.cancel()
    elif how == "stopped":
        await backups.aclose()
    state = await ended(backups)
    reasons = {
        "cancelled": "it was cancelled",
        "left": "its client has gone",
        "stopped": "the broker stops",
    }
    assert (state.state, state.error) == ("failed", reasons[how])
    assert opened(target).names() == []
    await until(lambda: not any((data / "copies").iterdir()))
    await durable(store, append(store.partitions[1]))
    await backups.aclose()
    await store.aclose()


async def test_backups_of_two_brokers_that_begin_in_one_second_are_both_there(
    tmp_path: Path, target: Path
) -> None:
    brokers = [await with_segments(tmp_path / name) for name in ("a", "b")]
    for store, _ in brokers:
        await made(backups_of(store, clock=StillClock()), target)
    assert len(opened(target).names()) == 2
    assert whole(target) == opened(target).names()
    for store, backups in brokers:
        await backups.aclose()
        await store.aclose()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_backup_that_fails_leaves_another_one_of_its_name_alone(
    tmp_path: Path, target: Path, is_cancelled: bool
) -> None:
    first, backups = await with_segments(tmp_path / "a")
    second, _ = await with_segments(tmp_path / "b")
    disk = WatchedDisk()
    arrived, released = disk.hold("allocate", "files*")
    late = backups_of(second, disk=disk)
    late.start(f"file://{target}", "nightly")
    await until(arrived.is_set)
    await made(backups, target, "nightly")
    if is_cancelled:
        late.cancel()
    released.set()
    state = await ended(late)
    reason = "it was cancelled" if is_cancelled else "there is a backup 'nightly' already"
    assert (state.state, state.error) == ("failed", reason)
    assert whole(target) == ["nightly"]
    assert len(list((target / "backups" / "nightly").iterdir())) == 2
    for store, each in ((first, backups), (second, late)):
        await each.aclose()
        await store.aclose()


async def with_equal_segments(one: Path, other: Path) -> tuple[LogStore, LogStore]:
    """Stores of a node, and of one that took a copy of it."""
    first, backups = await with_segments(one)
    await backups.aclose()
    await first.aclose()
    shutil.copytree(one, other)
    return (
        start_store(one, options=SMALL_SEGMENTS)[0],
        start_store(other, options=SMALL_SEGMENTS, epoch=2)[0],
    )


async def test_a_backup_that_fails_damages_none_with_the_same_segments(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = TornBucket(SystemDisk(), target)
    monkeypatch.setattr(backups_module, "open_bucket", lambda url, disk: bucket)
    stores = await with_equal_segments(tmp_path / "a", tmp_path / "b")
    first, second = backups_of(stores[0]), backups_of(stores[1], node="b")
    await made(first, target, "first")
    bucket.tears = True
    second.start(f"file://{target}", "second")
    await ended(second)
    assert "first" in whole(target)
    for store, backups in zip(stores, (first, second), strict=True):
        await backups.aclose()
        await store.aclose()


async def test_behind_a_backup_that_left_torn_segments_the_next_one_is_whole(
    data: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = TornBucket(SystemDisk(), target)
    monkeypatch.setattr(backups_module, "open_bucket", lambda url, disk: bucket)
    store, backups = await with_segments(data)
    bucket.tears = True
    backups.start(f"file://{target}", "first")
    assert (await ended(backups)).error == "the connection broke"
    bucket.tears = False
    await made(backups, target, "second")
    assert whole(target) == ["second"]
    named = {each.object for each in opened(target).manifest("second").objects}
    assert {f"segments/{each}" for each in segments(target)} < named, "nothing else is left"
    await backups.aclose()
    await store.aclose()


async def test_backups_of_the_same_segments_at_once_leave_each_other_alone(
    tmp_path: Path, target: Path
) -> None:
    stores = await with_equal_segments(tmp_path / "a", tmp_path / "b")
    disk = WatchedDisk()
    arrived, released = disk.hold("sync", f"{'[0-9a-f]' * 64}*")  # of the first segment
    first, second = backups_of(stores[0], disk=disk), backups_of(stores[1], node="b")
    first.start(f"file://{target}", "first")
    await until(arrived.is_set)
    await made(second, target, "second")
    released.set()
    assert (await ended(first)).error == ""
    assert whole(target) == ["first", "second"]
    for store, backups in zip(stores, (first, second), strict=True):
        await backups.aclose()
        await store.aclose()


async def test_a_full_target_fails_the_backup(data: Path, target: Path) -> None:
    store, backups = await with_segments(data)
    await backups.aclose()
    disk = WatchedDisk()
    disk.fail("allocate", "files-*.part", 28)
    backups = backups_of(store, disk=disk)
    backups.start(f"file://{target}", "first")
    state = await ended(backups)
    assert state.state == "failed"
    assert "made to fail" in state.error
    assert opened(target).names() == []
    await backups.aclose()
    await store.aclose()


def _flip(file: Path) -> None:
    bytes_ = bytearray(file.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    file.write_bytes(bytes_)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def first_of(target: Path, what: str) -> Path:
    return next(target.glob(what))


@pytest.mark.parametrize("harm", [_flip, _cut, Path.unlink])
@pytest.mark.parametrize("what", ["segments/*", "backups/first/files-*"])
async def test_damage_is_found_and_nothing_is_restored(
    data: Path, target: Path, tmp_path: Path, harm: Callable[[Path], None], what: str
) -> None:
    store, backups = await with_segments(data)
    await made(backups, target, "first")
    await backups.aclose()
    await store.aclose()
    harm(first_of(target, what))
    kept = opened(target)
    assert len(list(kept.verify(kept.manifest("first")))) == 1
    with pytest.raises(BackupDamaged):
        restored(target, tmp_path / "again", "first")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("harm", [_flip, _cut, Path.unlink])
async def test_a_damaged_manifest_is_no_backup(
    data: Path, target: Path, harm: Callable[[Path], None]
) -> None:
    store, backups = await with_segments(data)
    await made(backups, target, "first")
    await backups.aclose()
    await store.aclose()
    harm(target / "backups" / "first" / "manifest.jsonl")
    with pytest.raises((BackupDamaged, NoBackup)):
        opened(target).manifest("first")
    assert list(opened(target).whole()) == []
    with pytest.raises(NoBackup, match="no whole backup"):
        opened(target).last()


async def test_of_two_backups_of_a_second_the_later_one_is_the_last(
    data: Path, target: Path
) -> None:
    store, (partition,) = start_store(data)
    partition.append(records([b"one"]), waited=True)
    backups = backups_of(store, clock=FastClock())
    for name in ("one", "two"):
        await made(backups, target, name)
    await backups.aclose()
    await store.aclose()
    assert opened(target).last().header.name == "two"


async def test_a_directory_that_is_not_empty_is_left_alone(
    data: Path, target: Path, tmp_path: Path
) -> None:
    store, backups = await with_segments(data)
    await made(backups, target, "first")
    await backups.aclose()
    await store.aclose()
    with pytest.raises(NotEmpty):
        restored(target, data, "first")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(NotEmpty):
        restored(target, tmp_path / "mine", "first")
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["letter"]


async def test_a_restore_that_was_killed_is_not_started_from(data: Path) -> None:
    SystemDisk().make_directory(data)
    SystemDisk().close(SystemDisk().open(data / RESTORING, create=True))
    with pytest.raises(RestoreUnfinished):
        open_store(data)


def paths_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def test_a_folder_of_backups_is_not_started_from(data: Path, target: Path) -> None:
    store, backups = await with_segments(data)
    await made(backups, target, "first")
    await backups.aclose()
    await store.aclose()
    before = paths_below(target)
    with pytest.raises(OnlyBackups, match="routelog restore"):
        open_store(target)
    assert paths_below(target) == before


async def test_a_data_directory_may_have_a_folder_of_backups(data: Path) -> None:
    (data / "backups").mkdir(parents=True)
    (data / "backups" / "letter").write_text("dear")
    store, backups = await with_segments(data)
    await backups.aclose()
    await store.aclose()
    (data / "backups" / "first").mkdir()
    (data / "backups" / "first" / "manifest.jsonl").write_text("")
    await open_store(data).aclose()
