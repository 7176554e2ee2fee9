"""A journal file that is gone as a whole is missed, whichever it is."""

import errno
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    append,
    copy_of,
    crash,
    durable,
    fill_journal_file,
    open_store,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_chain import Mark
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_reader import JournalDamaged
from routelog.log_backend.metadata.metadata import Change, MetadataCorrupt, MetadataStore
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata
from routelog.log_backend.tools.log_verification import check_journal


def test_files_from_the_first_to_the_last_are_missed(tmp_path: Path) -> None:
    metadata = MetadataStore.open(tmp_path)
    extent = JournalExtent(metadata)
    assert (extent.last, extent.missing([])) == (0, [])
    extent.named(1)
    extent.named(4)
    assert extent.missing([2, 4]) == [1, 3]
    metadata.apply([JournalExtent.begins_with(4, Mark(16, 2, 99))])
    assert extent.beginning == (4, Mark(16, 2, 99))
    assert extent.missing([]) == [4]
    assert extent.missing([4, 5]) == []
    metadata.apply([JournalExtent.begins_with(5, Mark(19, 2, 7))])
    assert extent.missing([]) == []  # the next one has no name yet
    metadata.apply(JournalExtent.only(9, Mark(2, 1, 5)))
    assert (extent.last, extent.missing([8]), extent.beginning) == (9, [9], (9, Mark(2, 1, 5)))
    metadata.close()


def test_the_beginning_that_another_version_wrote_is_named(tmp_path: Path) -> None:
    metadata = MetadataStore.open(tmp_path)
    metadata.apply([Change(b"journal/first", bytes(16))])
    with pytest.raises(MetadataCorrupt, match="has 16 bytes, not 28: another version"):
        _ = JournalExtent(metadata).beginning
    metadata.close()


async def aged(data: Path) -> Path:
    """What a killed broker leaves whose journal has gone round."""
    store, (partition,) = start_store(data)
    for _ in range(5):
        await fill_journal_file(store, partition)
        await until(lambda: not store._background.tasks)
    await durable(store, append(partition))
    left = await crash(store, data)
    await store.aclose()
    return left


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_each_file_is_missed_and_named(data: Path, which: int) -> None:
    left = await aged(data)
    journals = sorted((left / "journal").glob("*.journal"))
    assert len(journals) >= 2
    journals[which].unlink()
    store = open_store(left)
    with pytest.raises(JournalDamaged, match=f"{journals[which].name[:20]}.*the file is missing"):
        store.recover()
    store.metadata.close()
    store._disk.close(store._lock)


async def test_a_journal_that_the_metadata_do_not_know_stops_the_start(data: Path) -> None:
    left = await aged(data)
    for path in (left / "metadata").iterdir():
        path.unlink()
    store = open_store(left)
    with pytest.raises(JournalDamaged, match="the metadata know nothing of this file"):
        store.recover()
    store.metadata.close()
    store._disk.close(store._lock)


async def test_a_file_that_found_no_room_leaves_no_gap(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition))
    await until(lambda: store.journal.supply._new is None)
    disk.fail("allocate", "*.new", errno.ENOSPC)
    await fill_journal_file(store, partition)
    await until(lambda: disk.failed and recycled(disk))
    disk.repair()
    store.journal.go_on()
    await fill_journal_file(store, partition)
    await until(lambda: not store._background.tasks)
    left = await crash(store, data)
    await store.aclose()
    numbers = sorted(int(path.name[:20]) for path in (left / "journal").glob("*.journal"))
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    store, _ = start_store(left, epoch=2)
    await store.aclose()


@pytest.mark.parametrize("rounds", [0, 5])
async def test_a_first_file_that_has_lost_all_its_blocks_is_missed(data: Path, rounds: int) -> None:
    store, (partition,) = start_store(data)
    for _ in range(rounds):
        await fill_journal_file(store, partition)
        await until(lambda: not store._background.tasks)
    async with store.checkpoints.lock:  # no checkpoint
        for _ in range(3):
            await fill_journal_file(store, partition)
        left = copy_of(data, data.parent / "left")
    await store.aclose()
    first = min(path for path in (left / "journal").glob("*.journal") if is_needed(left, path))
    content = first.read_bytes()
    first.write_bytes(bytes(len(content) - BLOCK_ALIGNMENT) + content[-BLOCK_ALIGNMENT:])
    store = open_store(left)
    with pytest.raises(JournalDamaged, match=rf"{first.name}.*at byte 0: commit \d+ is missing"):
        store.recover()
    store.metadata.close()
    store._disk.close(store._lock)
    with open_metadata(left, SystemDisk(), read_only=True) as metadata:
        checks = list(check_journal(DataDirectory(left, SystemDisk(), metadata, {})))
    found = [
        reason for check in checks for severity, _, reason, _ in check.found if severity == "damage"
    ]
    assert len(found) == 1
    assert "missing" in found[0]


def is_needed(data: Path, path: Path) -> bool:
    """Whether a journal file holds what is nowhere else."""
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        return int(path.name[:20]) >= JournalExtent(metadata).beginning.number


async def test_positions_go_on_where_no_block_is_left(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition))
    await store.aclose()
    left, positions = data, list[int]()
    for epoch in (2, 3):
        store, _ = start_store(left, epoch=epoch)
        positions.append(store.journal.groups.last.position)
        running = store
        await until(lambda: not running._background.tasks)  # all files are given back  # noqa: B023
        following = await crash(store, left, f"left-{epoch}")
        await store.aclose()
        left = following
    assert positions[1] >= positions[0] > 1
