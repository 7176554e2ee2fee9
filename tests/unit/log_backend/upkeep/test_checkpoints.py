"""Flushes and checkpoints of a store: what is written and synced when, and which journal files go."""

from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    append,
    content,
    crash,
    durable,
    fill_journal_file,
    numbered,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.log_store import LogOptions


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


async def test_a_flush_writes_and_does_not_sync(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    checkpoints = store.checkpoints
    await durable(store, append(partition, 3))
    assert checkpoints.unflushed_bytes > 0
    await checkpoints.flush()
    assert checkpoints.unflushed_bytes == 0
    assert (disk.count("write", "*.log"), disk.count("sync", "*.log")) == (1, 0)
    await checkpoints.flush()
    assert disk.count("write", "*.log") == 1
    await store.aclose()


async def test_a_checkpoint_syncs_and_stores_what_is_settled(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    cursor = partition.open_cursor()
    await durable(store, append(partition, 3))
    cursor.settle(0, 2)
    await store.checkpoints.take()
    assert partition.synced_offset == 3
    restored = type(cursor)(0, None)
    restored.restore([(key, e.value) for key, e in dict(store.metadata.scan(b"cursors/")).items()])
    assert restored.low_water == 2
    synced = disk.count("sync", "*.log")
    await store.checkpoints.take()
    assert disk.count("sync", "*.log") == synced, "nothing has changed"
    await store.aclose()


async def test_a_full_file_goes_with_its_checkpoint_and_no_other(
    data: Path, disk: WatchedDisk
) -> None:
    store, (partition,) = start_store(data, disk=disk)
    arrived, released = disk.hold("write", "*.log")
    await fill_journal_file(store, partition)
    await until(arrived.is_set)
    assert not recycled(disk), "its batches are only in the journal"
    released.set()
    await until(lambda: recycled(disk))
    await store.aclose()


async def test_nobody_writes_over_files_that_are_kept(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    with store.checkpoints.keeping_files():
        with store.checkpoints.keeping_files():
            await fill_journal_file(store, partition)
            await until(lambda: partition.synced_offset)
            await store.checkpoints.take()
        assert not recycled(disk)
        assert store.journal.supply.held
    await until(lambda: recycled(disk))
    assert not store.journal.supply.held
    await store.aclose()


async def test_what_finds_no_room_is_written_when_there_is(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    checkpoints = store.checkpoints
    await durable(store, append(partition, 3))
    disk.capacity = 0
    await checkpoints.take()
    assert checkpoints.refused is not None
    assert (partition.synced_offset, disk.count("write", "*.log")) == (0, 0)
    left = await crash(store, data)
    disk.capacity = None
    checkpoints.go_on()
    await until(lambda: checkpoints.refused is None)
    assert disk.count("write", "*.log") == 1
    await checkpoints.take()  # what the refused one was to sync
    assert partition.synced_offset == 3
    await store.aclose()
    assert await content(left) == numbered(0, 1, 2)


async def test_what_a_refused_checkpoint_was_to_sync_the_next_one_does(
    data: Path, disk: WatchedDisk
) -> None:
    store, (written, refused) = start_store(data, disk=disk, queues=("a", "b"))
    await durable(store, append(written))
    await store.checkpoints.flush()
    await durable(store, append(refused))
    disk.capacity = 0
    await store.checkpoints.take()
    disk.capacity = None
    await store.checkpoints.take()
    assert (written.synced_offset, refused.synced_offset) == (1, 1)
    await store.aclose()


async def test_behind_a_failure_nothing_is_written(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    store.checkpoints.fail()
    await store.checkpoints.flush()
    await store.checkpoints.take()
    store.checkpoints.go_on()
    assert disk.count("write", "*.log") == 0
    left = await crash(store, data)
    await store.aclose()
    assert await content(left) == numbered(0, 1, 2)


async def test_a_flush_that_was_asked_for_twice_is_one(data: Path, disk: WatchedDisk) -> None:
    store, (partition,) = start_store(data, disk=disk)
    runs: list[None] = []
    run, store.checkpoints._run = store.checkpoints._run, lambda work: runs.append(run(work))
    await durable(store, append(partition, 3))
    store.checkpoints.flush_soon()
    store.checkpoints.flush_soon()
    await until(lambda: disk.count("write", "*.log"))
    assert len(runs) == 1
    await store.aclose()


async def test_it_flushes_from_time_to_time_until_it_is_stopped(
    data: Path, disk: WatchedDisk
) -> None:
    store, (partition,) = start_store(data, disk=disk, options=LogOptions(flush_seconds=0.01))
    append(partition)
    await until(lambda: disk.count("write", "*.log") == 1)
    append(partition)
    await until(lambda: disk.count("write", "*.log") == 2)
    await store.aclose()


async def test_what_is_closed_is_written_no_more(data: Path, disk: WatchedDisk) -> None:
    store, (gone, kept) = start_store(data, disk=disk, queues=("a", "b"))
    append(gone)
    await durable(store, append(kept))
    store.checkpoints.forget([gone])
    await store.checkpoints.take()
    assert (gone.synced_offset, kept.synced_offset) == (0, 1)
    await store.aclose()


async def test_what_a_start_has_not_flushed_is_behind_and_nothing_else(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 3))
    assert not partition.is_behind()  # it came behind the start
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left)
    transient = store.open_partition(2, "/", "transient", 0, durable=False)
    append(transient, 3)
    assert not transient.is_behind()  # no flush is due as long as there is room in memory
    assert partition.is_behind()
    await until(lambda: not partition.is_behind())
    await store.aclose()
