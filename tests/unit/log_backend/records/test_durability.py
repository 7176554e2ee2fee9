"""What each level of the dial costs, and what it leaves after a stop, a crash and a failure."""

from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    flushed,
    numbered,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.journal.journal import JournalFailed
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.records.durability import Durability

MEMORY, OS, DISK = Durability


def start(data: Path, level: Durability, epoch: int = 1) -> tuple[LogStore, PartitionLog]:
    store, (partition,) = start_store(data, durabilities=[level], epoch=epoch)
    return store, partition


async def test_the_level_decides_what_a_position_means(data: Path) -> None:
    disk = WatchedDisk()
    levels = [MEMORY, OS, DISK]
    store, partitions = start_store(data, disk=disk, queues="mod", durabilities=levels)
    memory, os, synced = partitions
    assert [each.durability for each in partitions] == levels
    assert append(memory) == 0
    position = append(os)
    await until(lambda: store.journal.written == position == 1)
    assert (store.journal.durable, disk.count("sync", "*.journal")) == (0, 0)
    position = append(synced)
    await until(lambda: store.journal.durable == position == 2)
    await store.aclose()


async def test_a_partition_that_is_not_durable_promises_memory(data: Path) -> None:
    store, _ = start_store(data)
    other = store.open_partition(2, "/", "other", 0, durable=False, durability=DISK)
    assert other.durability is MEMORY
    assert append(other) == 0
    await store.aclose()


@pytest.mark.parametrize("level", Durability)
async def test_a_clean_stop_keeps_messages_and_settlements(data: Path, level: Durability) -> None:
    store, partition = start(data, level)
    append(partition, 4)
    append(partition, 2)
    partition.open_cursor().settle(0, 1)
    partition.open_cursor().settle(2, 5)
    await store.aclose()
    store, partition = start(data, level, 2)
    assert await unsettled(partition) == numbered(1, 5)
    assert partition.next_offset == 6
    await store.aclose()


@pytest.mark.parametrize("level", [OS, DISK])
async def test_what_was_confirmed_survives_a_crash(data: Path, level: Durability) -> None:
    store, partition = start(data, level)
    position = append(partition, 3)
    await until(lambda: store.journal.written >= position)
    left = await crash(store, data)
    await store.aclose()
    store, partition = start(left, level, 2)
    assert await unsettled(partition) == numbered(0, 1, 2)
    await store.aclose()


@pytest.mark.parametrize("level", [MEMORY, OS])
async def test_settlements_are_written_and_not_synced(data: Path, level: Durability) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk, durabilities=[level])
    position = append(partition, 3)
    await until(lambda: store.journal.written == position)
    await flushed(store)
    partition.open_cursor().settle(0, 2)
    await until(lambda: store.journal.written > position)
    assert disk.count("sync", "*.journal") == 0
    left = await crash(store, data)
    await store.aclose()
    store, partition = start(left, level, 2)
    assert await unsettled(partition) == numbered(2)
    await store.aclose()


async def test_memory_loses_in_a_crash_what_no_segment_has(data: Path) -> None:
    store, partition = start(data, MEMORY)
    append(partition, 3)
    await flushed(store)
    append(partition, 2)
    left = await crash(store, data)
    await store.aclose()
    store, partition = start(left, MEMORY, 2)
    assert await unsettled(partition) == numbered(0, 1, 2)
    assert partition.next_offset == 3
    await store.aclose()


async def test_an_offset_that_a_settlement_names_is_not_given_again_after_a_crash(
    data: Path,
) -> None:
    store, partition = start(data, MEMORY)
    append(partition, 10)
    partition.open_cursor().settle(3, 7)
    await until(lambda: store.journal.written)
    left = await crash(store, data)
    await store.aclose()
    store, partition = start(left, MEMORY, 2)
    assert await unsettled(partition) == []
    assert partition.next_offset == 7
    append(partition, 2)
    assert await unsettled(partition) == numbered(7, 8)
    await store.aclose()
    store, partition = start(left, MEMORY, 3)
    assert await unsettled(partition) == numbered(7, 8)
    await store.aclose()


@pytest.mark.parametrize("before", Durability)
@pytest.mark.parametrize("after", Durability)
async def test_a_queue_may_come_back_with_another_level(
    data: Path, before: Durability, after: Durability
) -> None:
    store, partition = start(data, before)
    append(partition, 2)
    await store.aclose()
    store, partition = start(data, after, 2)
    position = append(partition, 2)
    if after is not MEMORY:
        await until(lambda: store.journal.written >= position)
    left = await crash(store, data)
    await store.aclose()
    store, partition = start(left, DISK, 3)
    found = await unsettled(partition)
    # The checkpoint that follows a start may have written what MEMORY does not promise.
    assert found == numbered(0, 1, 2, 3) or (after is MEMORY and found == numbered(0, 1))
    await store.aclose()


async def test_transient_records_end_with_the_run_at_every_level(data: Path) -> None:
    levels = [MEMORY, OS, DISK]
    store, partitions = start_store(data, queues="mod", durabilities=levels)
    for partition in partitions:
        assert append(partition, 2, persistent=False) == 0
        append(partition)
    await store.aclose()
    store, partitions = start_store(data, queues="mod", durabilities=levels, epoch=2)
    for partition in partitions:
        assert await unsettled(partition) == numbered(2)
    await store.aclose()


@pytest.mark.parametrize("level", Durability)
async def test_no_level_accepts_anything_when_the_disk_has_failed(
    data: Path, level: Durability
) -> None:
    disk = WatchedDisk()
    queues = {"queues": ("q", "other"), "durabilities": [level, DISK]}
    store, (partition, other) = start_store(data, disk=disk, **queues)
    await durable(store, append(other))
    failures: list[Exception] = []
    store.on_failure = failures.append
    disk.fail("sync", "*.journal")
    append(other)
    await until(lambda: failures)
    before = partition.next_offset
    with pytest.raises(JournalFailed):
        append(partition)
    assert partition.next_offset == before
    partition.append(records([b"transient"], persistent=False))
    assert partition.next_offset == before + 1
    await store.aclose()
