import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import pytest
from support.waiting import until
from unit.log_backend.journal_owner import (
    FILE_BYTES,
    Owner,
    entry,
    offsets,
    overwrite,
    recovered,
    written_files,
)
from unit.log_backend.open_store import MIB
from unit.log_backend.watched_disk import WatchedDisk
from unit.passing_time import pass_time

from routelog.log_backend.journal.journal import JournalFailed
from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    JournalEntry,
    Settlement,
    decode_block,
)
from routelog.log_backend.journal.journal_files import JournalFiles
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.journal.journal_reader import JournalDamaged

pytestmark = pytest.mark.usefixtures("no_marks")


async def commit(owner: Owner, change: JournalEntry) -> None:
    position = owner.journal.append(change, waited=True)
    await until(lambda: owner.journal.durable >= position)


# Committing


async def test_what_is_there_to_collect_during_a_commit_is_in_the_next(owner: Owner) -> None:
    await commit(owner, entry(0))
    await until(lambda: not owner.journal.supply._new)  # when a file is ready, it commits as well
    arrived, released = owner.disk.hold("sync", "*.journal")
    owner.journal.append(entry(1), waited=True)
    await until(arrived.is_set)
    owner.to_collect.append(entry(2))
    owner.journal.wake_later()
    released.set()
    await until(lambda: owner.journal.durable == 3)
    assert owner.to_collect == []


async def test_who_waits_for_what_is_to_be_collected_is_called_when_it_is_synced(
    owner: Owner, directory: Path
) -> None:
    called: list[int] = []
    owner.journal.append(entry(0), waited=True, synced=False)
    owner.to_collect.append(entry(1))
    owner.journal.wake_later()
    owner.journal.when_committed(lambda: called.append(owner.journal.durable))
    assert called == []
    await until(lambda: called)
    found = [block.position for block in await recovered(directory) if 1 in offsets([block])]
    assert found[0] <= called[0]


async def test_what_is_there_to_collect_before_the_start_waits_for_it(directory: Path) -> None:
    owner = Owner(directory, WatchedDisk())
    assert list(owner.journal.recover()) == []
    owner.to_collect.append(entry(0))
    owner.journal.wake_later()
    await pass_time(60)  # a start that is refused goes on for a while
    assert owner.to_collect
    owner.journal.start(1)
    await until(lambda: owner.journal.durable == 1)
    await owner.journal.aclose()


async def test_a_fault_of_ours_while_it_gathers_stops_it_with_the_reason(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await commit(owner, entry(0))
    owner.to_collect = cast(Any, None)
    owner.journal.append(entry(1), waited=True)
    await until(lambda: owner.failures)  # nobody waits for ever
    with pytest.raises(JournalFailed, match="cannot be written"):
        owner.journal.append(entry(2), waited=True)
    assert "while the journal gathered" in caplog.text


async def test_entries_are_durable_in_order_and_recovered(owner: Owner, directory: Path) -> None:
    positions = [owner.journal.append(entry(number), waited=True) for number in range(5)]
    await until(lambda: owner.journal.durable >= positions[-1])
    for number in range(5, 40):
        positions.append(owner.journal.append(entry(number), waited=True))
        await asyncio.sleep(0)
    await until(lambda: owner.journal.durable >= positions[-1])
    assert positions == sorted(positions)
    assert owner.durable == sorted(set(owner.durable))
    blocks = await recovered(directory)
    assert offsets(blocks) == list(range(40))
    assert [block.position for block in blocks] == list(range(1, len(blocks) + 1))
    assert [block.committed for block in blocks] == list(range(len(blocks)))


async def test_what_gathers_while_the_disk_is_busy_shares_a_sync(owner: Owner) -> None:
    arrived, released = owner.disk.hold("sync", "*.journal")
    owner.journal.append(entry(0), waited=True)
    await until(arrived.is_set)
    before = owner.disk.count("sync", "*.journal")
    positions = {owner.journal.append(entry(number), waited=True) for number in range(1, 100)}
    assert len(positions) == 1
    assert owner.durable == []
    released.set()
    await until(lambda: owner.journal.durable == max(positions))
    assert owner.disk.count("sync", "*.journal") == before + 2


async def test_nothing_is_called_durable_before_its_sync_has_ended(owner: Owner) -> None:
    arrived, released = owner.disk.hold("sync", "*.journal")
    position = owner.journal.append(entry(0), waited=True)
    await until(arrived.is_set)
    await pass_time(60)
    assert owner.journal.durable < position
    assert owner.durable == []
    released.set()
    await until(lambda: owner.journal.durable == position)


async def test_what_nobody_waits_for_is_committed_soon(owner: Owner) -> None:
    position = owner.journal.append(entry(0), waited=False)
    await until(lambda: owner.journal.durable == position)


async def test_each_commit_collects(owner: Owner, directory: Path) -> None:
    owner.to_collect.append(JournalEntry(4, Settlement(0, [(1, 2)])))
    owner.journal.wake_later()
    await until(lambda: owner.journal.durable == 1)
    owner.to_collect.append(JournalEntry(4, Settlement(0, [(7, 9)])))
    owner.journal.append(entry(0), waited=True)
    await until(lambda: owner.journal.durable == 2)
    first, second = await recovered(directory)
    assert [each.partition for each in first.entries] == [4]
    assert [each.partition for each in second.entries] == [1, 4]


async def test_what_wants_to_be_collected_during_a_commit_is_collected_after_it(
    owner: Owner, disk: WatchedDisk
) -> None:
    arrived, released = disk.hold("sync", "*.journal")
    owner.journal.append(entry(0), waited=True)
    await until(arrived.is_set)
    owner.to_collect = [JournalEntry(1, Settlement(0, [(0, 1)]))]
    owner.journal.wake_later()
    released.set()
    await until(lambda: owner.durable == [1, 2])


async def test_a_commit_is_cut_into_blocks_of_bounded_size(
    owner: Owner, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.log_backend.journal.journal_groups.COMMIT_BYTES_MAX", 10_000)
    positions = [owner.journal.append(entry(number, 3000), waited=True) for number in range(10)]
    assert len(set(positions)) == 4
    await until(lambda: owner.journal.durable == positions[-1])
    assert offsets(await recovered(directory)) == list(range(10))


async def test_pressure_comes_at_the_limit_and_goes_at_half(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.log_backend.journal.journal_groups.PENDING_BYTES_HIGH", 10_000)
    arrived, released = owner.disk.hold("sync", "*.journal")
    owner.journal.append(entry(0), waited=True)
    await until(arrived.is_set)
    position = 0
    for number in range(1, 5):
        assert owner.pressures == []
        position = owner.journal.append(entry(number, 3000), waited=True)
    assert owner.pressures == [True]
    released.set()
    await until(lambda: owner.journal.durable == position)
    assert owner.pressures == [True, False]


# Files


async def test_files_are_recycled_under_new_names(owner: Owner, directory: Path) -> None:
    for number in range(200):
        await commit(owner, entry(number, 3000))
        while len(owner.full) > 1:
            owner.journal.recycle(owner.full.pop(0))
    assert owner.disk.count("fill", "*.new") <= 4
    assert owner.disk.count("rename", "*.journal") >= 12
    found = offsets(await recovered(directory))
    assert found == list(range(200 - len(found), 200))
    assert 16 <= len(found) <= 64


async def test_no_file_is_prepared_beyond_the_limit(directory: Path, disk: WatchedDisk) -> None:
    owner = Owner(directory, disk, files_max=2)
    owner.start()
    position = 0
    while len(owner.full) < 1 or owner.journal.durable == position:
        position = owner.journal.append(entry(position, 3000), waited=True)
        await asyncio.sleep(0.01)
    stuck_at = owner.journal.durable
    assert len(disk.list_directory(directory)) == 2
    owner.journal.recycle(owner.full.pop())
    await until(lambda: owner.journal.durable == position > stuck_at)
    assert len(disk.list_directory(directory)) == 2
    await owner.journal.aclose()


async def test_a_block_larger_than_a_file_has_one_for_itself(owner: Owner, directory: Path) -> None:
    for number, size in enumerate((10, 3 * FILE_BYTES, 10)):
        await commit(owner, entry(number, size))
    assert offsets(await recovered(directory)) == [0, 1, 2]
    assert len(owner.full) == 2


async def test_a_new_file_is_whole_and_synced_before_it_is_used(owner: Owner) -> None:
    await commit(owner, entry(0))
    # A file system that does not take zeros past its cache gets them as a write, too.
    kinds = [kind for kind, _ in owner.disk.events]
    filled = kinds.index("fill")
    assert set(kinds[:filled]) <= {"allocate", "write"}
    made = ["write", "sync", "rename", "sync_directory"]
    assert kinds[filled + 1 : filled + 5] == made


async def test_closing_commits_what_is_pending(directory: Path, disk: WatchedDisk) -> None:
    owner = Owner(directory, disk)
    owner.start()
    for number in range(30):
        owner.journal.append(entry(number, 1000), waited=False)
    await owner.journal.aclose()
    assert offsets(await recovered(directory)) == list(range(30))


async def test_a_file_that_comes_back_after_closing_is_closed(
    directory: Path, disk: WatchedDisk
) -> None:
    first = Owner(directory, disk)
    first.start()
    await commit(first, entry(0))
    await first.journal.aclose()
    owner = Owner(directory, disk)
    owner.start()
    await owner.journal.aclose()
    owner.journal.recycle(owner.full[0])
    file = owner.full[0].file
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.size(file)


# Failure


@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_failed_commit_is_final(
    disk: WatchedDisk, operation: str, number: int, directory: Path
) -> None:
    owner = Owner(directory, disk)
    owner.start()
    position = owner.journal.append(entry(0), waited=True)
    await until(lambda: owner.journal.durable == position)
    owner.disk.fail(operation, "*.journal", number)
    owner.journal.append(entry(1), waited=True)
    await until(lambda: owner.failures)
    owner.disk.repair()
    with pytest.raises(JournalFailed):
        owner.journal.append(entry(2), waited=True)
    await pass_time(60)
    await owner.journal.aclose()  # its thread has done all that it will
    assert owner.journal.durable == position
    assert owner.durable == [position]
    assert len(owner.failures) == 1
    assert owner.disk.failed == 1
    assert 2 not in offsets(await recovered(directory))


@pytest.mark.parametrize("operation", ["fill", "rename"])
async def test_a_file_that_cannot_be_prepared_is_a_failure(
    directory: Path, disk: WatchedDisk, operation: str
) -> None:
    disk.fail(operation, "*", errno.ENOSPC)
    owner = Owner(directory, disk)
    owner.start()
    owner.journal.append(entry(0), waited=True)
    await until(lambda: owner.failures)
    assert owner.durable == []
    with pytest.raises(JournalFailed):
        owner.journal.append(entry(1), waited=True)
    await owner.journal.aclose()


async def test_a_file_that_cannot_be_recycled_stays_with_all_that_follow_it(
    directory: Path, disk: WatchedDisk
) -> None:
    owner = Owner(directory, disk)
    owner.start()
    for number in range(3):
        await commit(owner, entry(number, FILE_BYTES))
    await until(lambda: len(owner.full) == 2)
    disk.fail("rename", owner.full[0].path.name)
    for file in owner.full:
        owner.journal.recycle(file)
    await until(lambda: owner.failures)
    disk.repair()
    await owner.journal.aclose()
    assert offsets(await recovered(directory)) == [0, 1, 2]


async def test_a_journal_that_is_stopped_accepts_nothing(owner: Owner) -> None:
    owner.journal.stop(OSError(errno.EIO, "a segment"))
    with pytest.raises(JournalFailed, match="a segment"):
        owner.journal.append(entry(0), waited=True)
    assert len(owner.failures) == 1


# Recovery


async def three_blocks(directory: Path) -> Path:
    """A file with three blocks of one page each; its path."""
    owner = Owner(directory, WatchedDisk())
    owner.start()
    for number in range(3):
        await commit(owner, entry(number))
    await owner.journal.aclose()
    return written_files(directory)[0]


def files_of(directory: Path) -> JournalFiles:
    return JournalFiles(directory, WatchedDisk())


@pytest.mark.parametrize("kept", range(0, 512, 64))
async def test_a_torn_last_block_is_the_end(directory: Path, kept: int) -> None:
    path = await three_blocks(directory)
    overwrite(path, 2 * BLOCK_ALIGNMENT + kept // 4, bytes(BLOCK_ALIGNMENT - kept // 4))
    assert offsets(await recovered(directory)) == [0, 1]


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("at", [0, 4, 8, 16, 24, 32, 36, 60, 100])
async def test_damage_before_a_later_block_is_reported(
    directory: Path, block: int, at: int
) -> None:
    path = await three_blocks(directory)
    place = block * BLOCK_ALIGNMENT + at
    overwrite(path, place, bytes([path.read_bytes()[place] ^ 0x10]))
    with pytest.raises(JournalDamaged) as raised:
        await recovered(directory)
    assert raised.value.path == path


async def test_a_missing_file_in_the_middle_is_reported(directory: Path) -> None:
    owner = Owner(directory, WatchedDisk())
    owner.start()
    for number in range(45):
        await commit(owner, entry(number, 3000))
    await owner.journal.aclose()
    written_files(directory)[1].unlink()
    with pytest.raises(JournalDamaged):
        await recovered(directory)


async def test_positions_go_on_after_a_restart(directory: Path, disk: WatchedDisk) -> None:
    await three_blocks(directory)
    for run in range(3):
        owner = Owner(directory, disk, files_max=9)
        blocks = owner.start()
        assert [block.position for block in blocks] == list(range(1, 4 + run))
        assert owner.journal.append(entry(3 + run), waited=True) == 4 + run
        await owner.journal.aclose()
    assert offsets(await recovered(directory)) == list(range(6))


async def test_files_of_earlier_runs_are_synced_and_given_back(
    directory: Path, disk: WatchedDisk
) -> None:
    path = await three_blocks(directory)
    owner = Owner(directory, disk)
    owner.start()
    assert disk.count("sync", path.name) == 1
    assert path in [file.path for file in owner.full]
    for file in owner.full:
        owner.journal.recycle(file)
    await until(lambda: not path.exists())
    position = owner.journal.append(entry(7), waited=True)
    await until(lambda: owner.journal.durable == position)
    await owner.journal.aclose()
    assert offsets(await recovered(directory)) == [7]


async def test_a_file_that_an_earlier_run_did_not_finish_is_removed(directory: Path) -> None:
    (directory / "00000000000000000009.new").write_bytes(b"x" * 100)
    await three_blocks(directory)
    assert not (directory / "00000000000000000009.new").exists()


async def test_an_empty_journal_recovers_nothing(directory: Path) -> None:
    assert await recovered(directory) == []
    disk = WatchedDisk()
    disk.close(JournalFiles(directory, disk).new(1, FILE_BYTES).file)
    (directory / "00000000000000000002.new").write_bytes(bytes(100))
    assert await recovered(directory) == []


async def test_what_a_recycled_file_held_before_is_not_recovered(directory: Path) -> None:
    path = await three_blocks(directory)
    again = path.rename(directory / path.name.replace("0001-", "0009-"))
    assert await recovered(directory) == []
    again.rename(directory / f"{path.name[:-24]}{1:016x}.journal")
    assert await recovered(directory) == []


async def test_blocks_lie_at_whole_pages(directory: Path) -> None:
    path = await three_blocks(directory)
    content = bytearray(path.read_bytes())
    (mark,) = (each for each in files_of(directory).marks() if each.number == 1)
    assert files_of(directory).path(mark) == path
    assert len(content) < MIB
    starts = [
        at
        for at in range(0, len(content), BLOCK_ALIGNMENT)
        if decode_block(content, at, mark) is not None
    ]
    assert starts == [0, BLOCK_ALIGNMENT, 2 * BLOCK_ALIGNMENT]


def test_what_comes_before_the_start_is_refused() -> None:
    groups = JournalGroups(lambda waited: None, lambda pressed: None)
    with pytest.raises(RuntimeError):
        groups.append(JournalEntry(4, Settlement(0, [(1, 2)])), False, True)
