"""A log that is emptied and filled again goes on in its file; one that nobody uses loses it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep import emptied_logs
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.readable_logs import LogPartition

MIB = 1024 * 1024
LOG = LogPartition("/", "q", 0)
LOOKS = LogOptions(journal_file_bytes=MIB, flush_seconds=3600, emptied_seconds=0.02)


def files(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "logs").rglob("*.log"))


def empty(partition: PartitionLog) -> None:
    partition.open_cursor().settle(0, partition.next_offset)
    partition.release()


async def filled(store: LogStore, partition: PartitionLog, count: int = 3) -> None:
    await durable(store, append(partition, count))
    await flushed(store)


async def test_a_log_that_is_emptied_and_filled_again_goes_on_in_its_file(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await filled(store, partition)
    made = files(data)
    for _ in range(5):
        empty(partition)
        await filled(store, partition)
    assert files(data) == made
    assert await unsettled(partition) == numbered(15, 16, 17)
    left = await crash(store, data)
    await store.aclose()
    for found in left, data:
        again, (opened,) = start_store(found, epoch=2)
        assert await unsettled(opened) == numbered(15, 16, 17)
        assert opened.damage.found == []
        await again.aclose()


async def test_a_log_that_stays_empty_loses_its_file_and_one_in_use_does_not(data: Path) -> None:
    # No look comes before one of them is used again, also on a busy machine.
    options = replace(LOOKS, emptied_seconds=0.5)
    store, (idle, used) = start_store(data, options=options, queues=("idle", "used"))
    for partition in (idle, used):
        await filled(store, partition)
    (kept,) = used.directory.glob("*.log")
    empty(idle)
    while list(idle.directory.glob("*.log")):
        append(used)
        empty(used)
        await asyncio.sleep(0.02)
    assert kept.exists()
    await until(lambda: not kept.exists())
    assert (idle.segments, used.segments) == ([], [])
    assert not store._emptied._next_offsets
    await filled(store, used)
    assert files(data) == [f"{used.next_offset - 3:020d}.log"]
    await store.aclose()


async def test_a_log_that_is_filled_again_and_stays_so_keeps_its_file(data: Path) -> None:
    store, (partition,) = start_store(data, options=LOOKS)
    await filled(store, partition)
    empty(partition)
    await filled(store, partition)
    await until(lambda: not store._emptied._next_offsets)
    assert partition.segments
    assert await unsettled(partition) == numbered(3, 4, 5)
    empty(partition)
    await until(lambda: not files(data))
    await store.aclose()


async def test_a_large_segment_goes_at_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, (partition,) = start_store(data)
    await filled(store, partition)
    monkeypatch.setattr(emptied_logs, "KEPT_BYTES_MAX", partition.segments[0].size)
    empty(partition)
    assert partition.segments
    await filled(store, partition, 1)
    empty(partition)
    assert not partition.segments
    await until(lambda: not files(data))
    await store.aclose()


async def test_sealed_segments_of_an_emptied_log_go_at_once(data: Path) -> None:
    options = LogOptions(journal_file_bytes=MIB, segment_bytes=2_000, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options)
    for _ in range(4):
        partition.append(records([b"x" * 1_500]))
    await flushed(store)
    newest = partition.segments[-1]
    empty(partition)
    assert partition.segments == [newest]
    await until(lambda: files(data) == [newest.path.name])
    await store.aclose()


async def test_a_low_disk_gets_all_of_it_back_at_once(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = 64 * MIB
    store, partitions = start_store(data, disk=disk, queues=("kept", "emptied later"))
    for partition in partitions:
        await filled(store, partition)
    empty(partitions[0])
    disk.others = 60 * MIB
    await until(lambda: not partitions[0].segments)
    empty(partitions[1])
    assert not partitions[1].segments
    await until(lambda: not files(data))
    disk.others = 0
    await until(lambda: not store.pressures.reasons)
    await filled(store, partitions[0])
    await until(lambda: not store._emptied._none_stays)
    empty(partitions[0])
    assert partitions[0].segments
    await store.aclose()


async def test_a_stop_leaves_no_file_in_which_nothing_is_needed(data: Path) -> None:
    store, (partition,) = start_store(data)
    await filled(store, partition)
    empty(partition)
    assert files(data)
    await store.aclose()
    assert not files(data)


async def test_what_a_crash_leaves_of_an_emptied_log_goes_later(data: Path) -> None:
    store, (partition, other) = start_store(data, queues=("q", "other"))
    await filled(store, partition)
    empty(partition)
    await durable(store, append(other))  # and the settlements with it
    left = await crash(store, data)
    await store.aclose()
    assert files(left)
    again, (opened, _) = start_store(left, options=LOOKS, queues=("q", "other"), epoch=2)
    assert opened.low_water() == 3
    await until(lambda: not list(opened.directory.glob("*.log")))
    await again.aclose()


async def test_a_log_with_a_retention_keeps_no_longer_than_that_says(data: Path) -> None:
    store, (partition,) = start_store(data, retention=Retention())
    await filled(store, partition)
    empty(partition)
    assert not partition.segments
    await store.aclose()


async def test_a_damaged_segment_is_not_kept(data: Path) -> None:
    store, (partition,) = start_store(data)
    await filled(store, partition)
    partition.segments[-1].damaged = True
    empty(partition)
    assert not partition.segments
    await store.aclose()


async def test_a_log_that_is_closed_is_forgotten(data: Path) -> None:
    store, (partition,) = start_store(data, options=LOOKS)
    await filled(store, partition)
    empty(partition)
    assert partition in store._emptied._next_offsets
    store.close_partitions(partition)
    assert partition not in store._emptied._next_offsets
    await store.aclose()


async def test_nothing_is_removed_while_it_is_written(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await filled(store, partition)
    empty(partition)
    await durable(store, append(partition))
    arrived, released = disk.hold("write", "*.log")
    flushing = asyncio.ensure_future(store.checkpoints.flush())
    await until(arrived.is_set)
    assert not partition.remove_settled_segments()
    released.set()
    await flushing
    empty(partition)
    assert partition.remove_settled_segments()
    assert not partition.segments
    await store.aclose()


async def test_a_checkpoint_syncs_no_segment_in_which_nothing_is_needed(data: Path) -> None:
    disk = WatchedDisk()
    store, (emptied, full) = start_store(data, disk=disk, queues=("emptied", "full"))
    for partition in (emptied, full):
        await filled(store, partition)
    empty(emptied)
    await store.checkpoints.take()
    assert (emptied.synced_offset, full.synced_offset) == (0, 3)
    assert emptied.first_kept is None
    # What is needed later is synced with the whole file.
    await filled(store, emptied, 2)
    await store.checkpoints.take()
    assert emptied.synced_offset == 5
    left = await crash(store, data)
    await store.aclose()
    again, (opened, _) = start_store(left, epoch=2, queues=("emptied", "full"))
    assert await unsettled(opened) == numbered(3, 4)
    await again.aclose()


async def test_an_unsynced_segment_of_an_emptied_log_that_a_power_cut_takes_is_not_missed(
    data: Path,
) -> None:
    store, (emptied, other) = start_store(data, queues=("emptied", "other"))
    await filled(store, emptied)
    empty(emptied)
    await fill_journal_file(store, other)
    await until(lambda: not store.checkpoints._full_files)
    await store.checkpoints.take()
    for name, harm in (
        ("gone", Path.unlink),
        ("empty", lambda path: path.write_bytes(b"")),
        ("torn", lambda path: path.write_bytes(path.read_bytes()[:-8])),
    ):
        left = await crash(store, data, name)
        (found,) = (left / "logs").rglob("*emptied-0/*.log")
        harm(found)
        again, (opened, _) = start_store(left, epoch=2, queues=("emptied", "other"))
        assert opened.damage.found == []
        assert opened.next_offset == 3
        assert await unsettled(opened) == []
        await filled(again, opened)
        assert await unsettled(opened) == numbered(3, 4, 5)
        await again.aclose()
    await store.aclose()


async def test_a_reader_of_the_files_sees_a_log_grow_while_it_is_emptied(data: Path) -> None:
    store, (partition,) = start_store(data)
    logs = LogDirectory(data)
    seen: list[tuple[int, int]] = []
    for turn in range(4):
        if turn == 2:
            partition.append(records([b"settled before it is written"]))
            empty(partition)
        if turn == 3:
            assert partition.remove_settled_segments()
            await until(lambda: not files(data))
            assert [each.end for each in logs.extents(LOG)] == [0]
        await filled(store, partition)
        (extent,) = logs.extents(LOG)
        seen.append((extent.start, extent.end))
        empty(partition)
    assert seen == [(0, 3), (0, 6), (0, 10), (10, 13)]
    (kept,) = logs.extents(LOG)
    assert logs.cut(kept, 10**6).end == 13
    await store.aclose()
