import asyncio
import threading
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    append,
    content,
    copy_of,
    crash,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.journal.journal import JournalFailed
from routelog.log_backend.metadata.metadata import MetadataUnavailable
from routelog.log_backend.segments.partition_file import encode_number


async def test_a_deleted_partition_leaves_nothing(data: Path) -> None:
    store, (partition, kept) = start_store(data, queues=("q", "kept"))
    await durable(store, append(partition, 3))
    await durable(store, append(kept, 3))
    await store.checkpoints.take()
    store.metadata.apply(store.close_partitions(partition))
    store.remove_files(partition)
    await until(lambda: not list(store.metadata.scan(b"tombstones/")))
    assert not partition.directory.exists()
    assert not [key for key, _ in store.metadata.scan(b"cursors/") if key[15] == 1]
    await store.aclose()
    store = open_store(data)
    again = store.open_partition(2, "/", "kept", 0, durable=True)
    store.recover()
    store.start(2)
    assert await unsettled(again) == numbered(0, 1, 2)
    assert not list(store.metadata.scan(b"tombstones/"))
    await store.aclose()


async def test_a_deletion_is_finished_after_a_crash(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    await store.checkpoints.take()
    arrived, released = disk.hold("remove_tree", "q-0")
    store.metadata.apply(store.close_partitions(partition))
    store.remove_files(partition)
    await until(arrived.is_set)
    left = data.parent / "crashed"
    copy_of(data, left)
    released.set()
    await store.aclose()
    directory = left / partition.directory.relative_to(data)
    assert directory.exists()
    store = open_store(left)
    store.recover()
    store.start(2)
    await until(lambda: not directory.exists())
    await until(lambda: not list(store.metadata.scan(b"tombstones/")))
    await store.aclose()


@pytest.mark.parametrize("in_segment", [False, True])
async def test_a_new_partition_of_the_same_name_does_not_see_the_old(
    data: Path, in_segment: bool
) -> None:
    store, (old,) = start_store(data)
    append(old, 5)
    if in_segment:
        await flushed(store)
    store.metadata.apply(store.close_partitions(old))
    store.remove_files(old)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    assert new.next_offset == 0
    await durable(store, append(new, 2))
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    for directory in (left, data):
        store = open_store(directory)
        new = store.open_partition(2, "/", "q", 0, durable=True)
        store.recover()
        store.start(2)
        assert await unsettled(new) == numbered(0, 1)
        await store.aclose()


async def test_a_partition_can_be_made_again_while_the_old_one_is_being_removed(
    data: Path,
) -> None:
    disk = WatchedDisk()
    store, (old,) = start_store(data, disk=disk)
    append(old, 5)
    await flushed(store)
    arrived, released = disk.hold("remove_tree", "q-0")
    store.metadata.apply(store.close_partitions(old))
    store.remove_files(old)
    await until(arrived.is_set)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    await durable(store, append(new, 2))
    released.set()
    await flushed(store)
    assert (new.directory / "PARTITION").read_bytes() == encode_number(2)
    assert await unsettled(new) == numbered(0, 1)
    await store.aclose()


async def test_files_of_another_partition_are_removed(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 5)
    await store.aclose()
    assert list(partition.directory.glob("*.log"))
    store = open_store(data)
    other = store.open_partition(2, "/", "q", 0, durable=True)
    store.recover()
    store.start(2)
    assert (other.next_offset, other.segments) == (0, [])
    await until(lambda: not list(partition.directory.glob("*.log")))
    await store.aclose()


async def test_a_deletion_that_a_crash_takes_back_has_removed_nothing(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 3))
    await store.checkpoints.take()
    changes = store.close_partitions(partition)
    left = await crash(store, data)
    assert await content(left) == numbered(0, 1, 2)
    store.metadata.apply(changes)
    store.remove_files(partition)
    await until(lambda: not partition.directory.exists())
    await store.aclose()


async def test_a_new_partition_of_the_same_name_takes_nothing_from_an_undone_deletion(
    data: Path,
) -> None:
    store, (old,) = start_store(data)
    await durable(store, append(old, 3))
    await store.checkpoints.take()
    store.close_partitions(old)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    assert (new.next_offset, new.segments) == (0, [])
    left = await crash(store, data)
    await store.aclose()
    assert await content(left) == numbered(0, 1, 2)


async def test_a_deletion_that_took_long_leaves_the_files_of_a_new_partition_of_its_name(
    data: Path,
) -> None:
    store, (old,) = start_store(data)
    await durable(store, append(old, 3))
    await store.checkpoints.take()
    changes = store.close_partitions(old)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    await durable(store, append(new, 2))
    await store.checkpoints.take()
    store.metadata.apply(changes)
    store.remove_files(old)
    await until(lambda: not list(store.metadata.scan(b"tombstones/")))
    left = await crash(store, data)
    await store.aclose()
    store = open_store(left)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    store.recover()
    store.start(2)
    assert await unsettled(new) == numbered(0, 1)
    assert not new.is_damaged
    await store.aclose()


async def test_files_that_could_not_be_removed_are_not_taken_for_those_of_the_next_partition(
    data: Path,
) -> None:
    disk = WatchedDisk()
    store, (old,) = start_store(data, disk=disk)
    append(old, 5)
    await flushed(store)
    disk.fail("remove_tree", "q-0")
    store.metadata.apply(store.close_partitions(old))
    store.remove_files(old)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    await until(lambda: disk.failed)
    disk.repair()
    new.skip_to(2)
    append(new, 2)
    await flushed(store)
    await store.aclose()
    store = open_store(data)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    store.recover()
    store.start(2)
    assert await unsettled(new) == [(2, b"2"), (3, b"3")]
    await store.aclose()


async def test_a_snapshot_under_way_while_a_partition_is_deleted_does_not_stay(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition, 3)
    arrived, released = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        assert released.wait(60)

    await flushed(store)
    partition.open_cursor().settle(0, 1)
    checkpoint = asyncio.ensure_future(store.checkpoints.take())
    hold = disk.hold("sync", "*.log")
    await until(hold[0].is_set)
    store._flusher.do(wait)  # between the segments and the snapshots that were taken of them
    hold[1].set()
    await until(arrived.is_set)
    store.metadata.apply(store.close_partitions(partition))
    store.remove_files(partition)
    released.set()
    await checkpoint
    await until(lambda: not partition.directory.exists())
    await store.aclose()
    store = open_store(data)
    assert not list(store.metadata.scan(b"cursors/"))
    assert not list(store.metadata.scan(b"tombstones/"))
    store.recover()
    store.start(2)
    await store.aclose()


async def test_the_removal_of_a_partition_leaves_the_tombstone_of_its_successor(data: Path) -> None:
    store, (old,) = start_store(data)
    append(old, 3)
    await flushed(store)
    released = threading.Event()
    store._flusher.do(lambda: released.wait(60) or None)
    store.metadata.apply(store.close_partitions(old))
    store.remove_files(old)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    store.metadata.apply(store.close_partitions(new))
    released.set()
    await until(lambda: not old.directory.exists())
    await store.aclose()
    store = open_store(data)
    assert [entry.value for _, entry in store.metadata.scan(b"tombstones/")] == [b"2"]
    store.recover()
    store.start(2)
    assert not list(store.metadata.scan(b"tombstones/"))
    await store.aclose()


async def test_the_journal_keeps_what_a_deletion_may_still_give_back(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition, kept) = start_store(data, queues=("q", "kept"), disk=disk)
    await durable(store, append(partition, 3))
    changes = store.close_partitions(partition)
    await fill_journal_file(store, kept)
    await store.checkpoints.take()
    left = await crash(store, data)
    assert not recycled(disk)
    assert await content(left) == numbered(0, 1, 2)
    store.metadata.apply(changes)
    store.remove_files(partition)
    await until(lambda: recycled(disk))
    await store.aclose()


async def test_a_deletion_that_begins_later_keeps_no_journal_file_back(data: Path) -> None:
    disk = WatchedDisk()
    store, (first, second, kept) = start_store(data, queues=("q", "r", "kept"), disk=disk)
    append(first, 3)
    changes = store.close_partitions(first)
    await fill_journal_file(store, kept)
    await store.checkpoints.take()
    store.close_partitions(second)
    store.metadata.apply(changes)
    store.remove_files(first)
    await until(lambda: recycled(disk))
    await store.aclose()


async def test_a_deletion_that_fails_stops_the_node_and_keeps_its_journal(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition, kept) = start_store(data, queues=("q", "kept"), disk=disk)
    await durable(store, append(partition, 3))
    store.close_partitions(partition)
    await fill_journal_file(store, kept)
    await store.checkpoints.take()
    store.deletion_failed(MetadataUnavailable("made to fail"))
    with pytest.raises(JournalFailed, match="made to fail"):
        append(kept)
    await store.aclose()
    assert not recycled(disk)
    assert await content(data) == numbered(0, 1, 2)
