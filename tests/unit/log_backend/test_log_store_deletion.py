from pathlib import Path

import pytest
from unit.log_backend.open_store import (
    append,
    copy_of,
    crash,
    durable,
    numbered,
    open_store,
    start_store,
    unsettled,
    until,
)
from unit.log_backend.watched_disk import WatchedDisk

from log_backend.partition_file import encode_number


async def test_a_deleted_partition_leaves_nothing(data: Path) -> None:
    store, (partition, kept) = start_store(data, queues=("q", "kept"))
    append(partition, 3)
    append(kept, 3)
    await store._checkpoint(None)
    changes = store.close_partition(partition)
    store.metadata.apply(changes)
    await until(lambda: not partition.directory.exists())
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
    append(partition, 3)
    await store._checkpoint(None)
    arrived, released = disk.hold("remove_tree", "q-0")
    changes = store.close_partition(partition)
    store.metadata.apply(changes)
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


@pytest.mark.parametrize("flushed", [False, True])
async def test_a_new_partition_of_the_same_name_does_not_see_the_old(
    data: Path, flushed: bool
) -> None:
    store, (old,) = start_store(data)
    append(old, 5)
    if flushed:
        await store.flush()
    store.metadata.apply(store.close_partition(old))
    new = store.open_partition(2, "/", "q", 0, durable=True)
    assert new.next_offset == 0
    await durable(store, append(new, 2))
    await store.flush()
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
    await store.flush()
    arrived, released = disk.hold("remove_tree", "q-0")
    store.close_partition(old)
    await until(arrived.is_set)
    new = store.open_partition(2, "/", "q", 0, durable=True)
    await durable(store, append(new, 2))
    released.set()
    await store.flush()
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
