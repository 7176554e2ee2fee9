"""Entries that need no sync: `written` and `durable`, and what a crash of either kind leaves."""

import asyncio
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.journal_owner import (
    Owner,
    entry,
    offsets,
    overwrite,
    recovered,
    written_files,
)
from unit.log_backend.watched_disk import WatchedDisk
from unit.passing_time import pass_time

from routelog.log_backend.journal import disk_pace
from routelog.log_backend.journal import journal as journal_module
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_reader import JournalDamaged

pytestmark = pytest.mark.usefixtures("no_marks")


async def write(owner: Owner, number: int, size: int = 1, *, synced: bool = False) -> None:
    """One block for one entry."""
    position = owner.journal.append(entry(number, size), waited=True, synced=synced)
    await until(lambda: owner.journal.written >= position)


# Two positions


async def test_what_needs_no_sync_is_written_only(owner: Owner, disk: WatchedDisk) -> None:
    for number in range(3):
        await write(owner, number)
    assert disk.count("sync", "*.journal") == 0
    assert disk.count("write", "*.journal") == 3
    assert (owner.journal.written, owner.journal.durable) == (3, 0)
    progress = owner.journal.progress
    assert (progress.written, progress.durable, owner.durable) == (3, 0, [])


async def test_a_sync_covers_what_was_written_before(owner: Owner, disk: WatchedDisk) -> None:
    await write(owner, 0)
    await write(owner, 1)
    await write(owner, 2, synced=True)
    assert disk.count("sync", "*.journal") == 1
    assert (owner.journal.written, owner.journal.durable) == (3, 3)
    assert owner.durable == [3]


async def test_one_entry_that_needs_a_sync_is_enough_for_its_block(
    owner: Owner, disk: WatchedDisk
) -> None:
    owner.journal.append(entry(0), waited=True, synced=False)
    owner.journal.append(entry(1), waited=False, synced=True)
    position = owner.journal.append(entry(2), waited=False, synced=False)
    await until(lambda: owner.journal.written == position == 1)
    assert owner.journal.durable == 1
    assert disk.count("sync", "*.journal") == 1


async def test_a_sync_covers_earlier_files_too(owner: Owner, disk: WatchedDisk) -> None:
    for number in range(20):  # 16 pages are a file
        await write(owner, number)
    assert disk.count("sync", "*.journal") == 0
    await write(owner, 20, synced=True)
    events = disk.events  # a new file has another suffix while it is made
    synced = {path for kind, path in events if kind == "sync" and path.suffix == ".journal"}
    assert len(synced) == disk.count("sync", "*.journal") == 2
    assert owner.journal.durable == 21
    await write(owner, 21, synced=True)
    assert disk.count("sync", "*.journal") == 3


async def test_nothing_is_durable_before_the_earlier_file_is_synced_too(
    owner: Owner, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_pace, "QUICK_COMMITS_MIN", 1_000)  # all by the thread
    for number in range(20):
        await write(owner, number)
    gates = [disk.hold("sync", "*.journal"), disk.hold("sync", "*.journal")]
    owner.journal.append(entry(20), waited=True)
    for arrived, released in gates:
        await until(arrived.is_set)
        await pass_time(60)
        assert owner.durable == []
        released.set()
    await until(lambda: owner.durable == [21])


async def test_a_block_says_what_was_durable_before_it(owner: Owner, directory: Path) -> None:
    for number, synced in enumerate((False, True, False, False, True, False)):
        await write(owner, number, synced=synced)
    blocks = await recovered(directory)
    assert [block.committed for block in blocks] == [0, 0, 2, 2, 2, 5]
    assert {block.first for block in blocks} == {1}


async def test_an_idle_journal_vouches_for_a_synced_commit_only(
    owner: Owner, disk: WatchedDisk, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MARK_SECONDS", 0.05)
    await write(owner, 0, synced=True)
    await write(owner, 1)  # what stands behind it vouches for it already
    timer = owner.journal._mark_timer
    assert timer is not None
    passed = asyncio.Event()
    asyncio.get_running_loop().call_at(timer.when() + 0.001, passed.set)
    await passed.wait()
    assert (owner.journal.written, owner.journal.durable) == (2, 1)
    await write(owner, 2, synced=True)
    await until(lambda: owner.journal.durable == 4)
    assert disk.count("sync", "*.journal") == 3
    blocks = await recovered(directory)
    assert [len(block.entries) for block in blocks] == [1, 1, 1, 0]
    assert [block.committed for block in blocks] == [0, 1, 1, 3]


async def test_closing_syncs_what_is_only_written(directory: Path, disk: WatchedDisk) -> None:
    owner = Owner(directory, disk)
    owner.start()
    await write(owner, 0)
    assert disk.count("sync", "*.journal") == 0
    await owner.journal.aclose()
    assert disk.count("sync", "*.journal") == 1
    assert owner.failures == []


async def test_a_sync_that_fails_while_closing_is_reported(
    directory: Path, disk: WatchedDisk
) -> None:
    owner = Owner(directory, disk)
    owner.start()
    await write(owner, 0)
    disk.fail("sync", "*.journal")
    await owner.journal.aclose()
    await until(lambda: owner.failures)
    assert owner.durable == []


# Recovery


async def unsynced(directory: Path, synced: str) -> Path:
    """A file of blocks of one page each; `s` was synced when it was written, `w` was not."""
    owner = Owner(directory, WatchedDisk())
    owner.start()
    for number, kind in enumerate(synced):
        await write(owner, number, synced=kind == "s")
    await owner.journal.aclose()
    return written_files(directory)[0]


def lose(path: Path, *blocks: int) -> None:
    for block in blocks:
        overwrite(path, block * BLOCK_ALIGNMENT, bytes(512))


@pytest.mark.parametrize(
    ("synced", "lost", "left"),
    [
        ("www", (0,), 0),
        ("www", (1,), 1),
        ("www", (0, 1, 2), 0),
        ("swwww", (2,), 2),
        ("swwww", (1, 3), 1),
        ("swswww", (4,), 4),
        ("sssss", (4,), 4),
    ],
)
async def test_a_hole_in_what_was_never_synced_is_the_end(
    directory: Path, synced: str, lost: tuple[int, ...], left: int
) -> None:
    lose(await unsynced(directory, synced), *lost)
    assert offsets(await recovered(directory)) == list(range(left))


@pytest.mark.parametrize(
    ("synced", "lost"),
    [
        ("ss", (0,)),
        ("sw", (0,)),
        ("wsw", (0,)),
        ("wsww", (0, 2)),
        ("swwsw", (1,)),
        ("swwsw", (3,)),
        ("wwwwsw", (0, 1, 2)),
        # The block next to the hole does not say so, a later one does.
        ("swwsw", (1, 3)),
        ("wwswww", (0, 3)),
    ],
)
async def test_a_hole_that_a_later_block_calls_durable_is_damage(
    directory: Path, synced: str, lost: tuple[int, ...]
) -> None:
    path = await unsynced(directory, synced)
    lose(path, *lost)
    with pytest.raises(JournalDamaged) as raised:
        await recovered(directory)
    assert raised.value.path == path
    assert f"commit {lost[0] + 1} is missing" in str(raised.value)


@pytest.mark.parametrize("lost", [0, 1])
async def test_what_lies_behind_the_end_never_follows_what_comes_next(
    directory: Path, disk: WatchedDisk, lost: int
) -> None:
    path = await unsynced(directory, "wwww")
    lose(path, lost)
    owner = Owner(directory, disk, files_max=9)
    assert offsets(owner.start()) == list(range(lost))
    assert disk.count("sync", path.name) >= 1
    assert owner.journal.written == owner.journal.durable == lost
    await write(owner, 70)
    await write(owner, 71, synced=True)
    await owner.journal.aclose()
    assert offsets(await recovered(directory)) == [*range(lost), 70, 71]


async def test_what_lies_behind_the_end_in_later_files_is_dropped_too(
    directory: Path, disk: WatchedDisk
) -> None:
    path = await unsynced(directory, "w" * 40)
    assert len(written_files(directory)) == 3
    lose(path, 3)
    owner = Owner(directory, disk, files_max=9)
    assert offsets(owner.start()) == [0, 1, 2]
    await write(owner, 50, synced=True)
    await owner.journal.aclose()
    assert offsets(await recovered(directory)) == [0, 1, 2, 50]
