import asyncio
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    append,
    content,
    crash,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk, last_rename, recycled

from routelog.log_backend.log_store import LogOptions


async def test_full_journal_files_are_recycled_and_nothing_is_lost(data: Path) -> None:
    disk = WatchedDisk()
    options = LogOptions(journal_file_bytes=MIB, journal_files_max=3, flush_seconds=0.01)
    store, (partition,) = start_store(data, options=options, disk=disk)
    for number in range(300):
        position = partition.append(records([b"%d " % number + b"x" * 20_000]), waited=True)
        if number % 10 == 0:
            await durable(store, position)
    await durable(store, position)
    assert disk.count("fill", "*.new") <= 3
    assert disk.count("rename", "*.journal") > 4
    left = await crash(store, data)
    await store.aclose()
    found = await content(left)
    assert [(offset, int(body[:6].split()[0])) for offset, body in found] == [
        (number, number) for number in range(300)
    ]


async def test_a_checkpoint_syncs_segments_before_the_journal_file_goes(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    await fill_journal_file(store, partition)
    await until(lambda: recycled(disk))
    synced = disk.events.index(("sync", partition.segments[0].path))
    wrote = disk.events.index(("write", partition.segments[0].path))
    entry_synced = disk.events.index(("sync_directory", partition.directory), wrote)
    assert wrote < synced < last_rename(disk)
    assert wrote < entry_synced < last_rename(disk)
    assert partition.synced_offset >= 3
    await store.aclose()


async def test_what_is_appended_during_a_checkpoint_is_in_the_next(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition))
    arrived, released = disk.hold("write", "*.log")
    first = asyncio.ensure_future(store.checkpoints.take())
    await until(arrived.is_set)
    await durable(store, append(partition))
    released.set()
    await first
    await flushed(store)
    before = disk.count("sync", "*.log")
    await store.checkpoints.take()
    assert disk.count("sync", "*.log") > before
    assert partition.synced_offset == 2
    await store.aclose()


async def test_what_is_settled_during_a_checkpoint_is_in_the_next(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 9)
    cursor = partition.open_cursor()
    await durable(store, append(partition))
    cursor.settle(1, 2)  # not in the journal yet, and its cursor has said so
    await store.checkpoints.take()
    cursor.settle(3, 4)
    await store.checkpoints.take()
    image = dict(store.metadata.scan(b"cursors/"))
    restored = type(cursor)(0, None)
    restored.restore([(key, entry.value) for key, entry in image.items()])
    assert 3 in restored.settled
    await store.aclose()


async def test_a_segment_that_a_killed_process_left_is_synced_before_its_journal_goes(
    data: Path,
) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 3))
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    disk = WatchedDisk()
    store, (partition,) = start_store(left, disk=disk)
    renamed = disk.count("rename", "*.journal")  # one that was made ahead
    await until(lambda: disk.count("rename", "*.journal") > renamed)
    (path,) = [segment.path for segment in partition.segments]
    assert ("sync", path) in disk.events[: last_rename(disk)]
    await store.aclose()


async def test_a_sealed_segment_is_synced_before_the_next_is_there(data: Path) -> None:
    disk = WatchedDisk()
    options = LogOptions(journal_file_bytes=MIB, segment_bytes=1000, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options, disk=disk)
    for _ in range(30):
        append(partition, 5)
    await flushed(store)
    first, second, *_ = (segment.path for segment in partition.segments)
    synced = disk.events.index(("sync", first))
    assert synced < disk.events.index(("write", second))
    await store.aclose()


async def test_a_directory_says_whose_it_is_before_it_holds_a_segment(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition)
    await flushed(store)
    number_file = partition.directory / "PARTITION"
    order = [
        disk.events.index(("sync", number_file)),
        disk.events.index(("write", partition.segments[0].path)),
    ]
    assert order == sorted(order)
    await store.aclose()


@pytest.mark.parametrize("left_behind", ["directory", "empty number"])
async def test_a_crash_while_the_directory_is_made_costs_nothing(
    data: Path, left_behind: str
) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 2))
    left = await crash(store, data)
    directory = left / partition.directory.relative_to(data)
    await store.aclose()
    directory.mkdir(parents=True)
    if left_behind == "empty number":
        (directory / "PARTITION").touch()
    store, (partition,) = start_store(left)
    await flushed(store)
    again = await crash(store, left, "again")
    await store.aclose()
    assert await content(again) == numbered(0, 1)
