import asyncio
import errno
from contextlib import suppress
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    append,
    content,
    copy_of,
    crash,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.journal.journal import JournalFailed
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.metadata.metadata import MetadataUnavailable
from routelog.log_backend.partitions.cursor import UNJOURNALED_MAX
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention

SCATTERED_MAX = 20_000


async def test_a_segment_that_cannot_be_written_stops_the_node(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    failures: list[Exception] = []
    store.on_failure = failures.append
    await durable(store, append(partition, 3))
    disk.fail("write", "*.log")
    await flushed(store)
    assert len(failures) == 1
    disk.repair()
    with pytest.raises(JournalFailed):
        append(partition)
    await flushed(store)
    assert disk.failed == 1
    assert await unsettled(partition) == numbered(0, 1, 2)
    left = await crash(store, data)
    await store.aclose()
    assert await content(left) == numbered(0, 1, 2)
    assert await content(data) == numbered(0, 1, 2)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_segment_that_cannot_be_synced_keeps_its_journal(data: Path, number: int) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    disk.fail("sync", "*.log", number)
    await store.checkpoints.take()
    disk.repair()
    await store.checkpoints.take()
    assert disk.failed == 1
    assert not recycled(disk)
    assert partition.synced_offset == 0
    await store.aclose()
    for path in (data / "logs").rglob("*.log"):
        path.write_bytes(b"")  # as if the pages had been dropped
    assert await content(data) == numbered(0, 1, 2)


async def test_a_snapshot_that_cannot_be_stored_stops_the_node_and_keeps_the_journal(
    data: Path,
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    failures: list[Exception] = []
    store.on_failure = failures.append

    def fail() -> None:
        raise MetadataUnavailable("made to fail")

    await durable(store, append(partition, 3))
    await until(lambda: store.journal.supply._new is None)
    store.metadata.sync = fail  # type: ignore[method-assign]
    with suppress(JournalFailed):
        await fill_journal_file(store, partition)
    await until(lambda: failures)
    assert not recycled(disk)
    with pytest.raises(JournalFailed):
        append(partition)
    await store.aclose()


async def test_a_failed_journal_is_reported_once(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    failures: list[Exception] = []
    store.on_failure = failures.append
    disk.fail("sync", "*.journal")
    append(partition)
    await until(lambda: failures)
    with pytest.raises(JournalFailed):
        append(partition)
    await flushed(store)
    await store.aclose()
    assert len(failures) == 1


async def test_a_cold_read_of_a_segment_that_is_being_written_sees_what_is_there(
    data: Path,
) -> None:
    disk = WatchedDisk()
    options = LogOptions(
        journal_file_bytes=MIB, memory_tail_bytes=20_000, flush_seconds=3600, segment_bytes=MIB
    )
    store, (partition,) = start_store(data, options=options, disk=disk)
    for number in range(40):
        partition.append(records([b"%d " % number + b"x" * 1000]))
    await flushed(store)
    assert partition.needs_load(0)
    arrived, released = disk.hold("write", "*.log")
    await durable(store, partition.append(records([b"40 "]), waited=True))
    flush = asyncio.ensure_future(store.checkpoints.flush())
    await until(arrived.is_set)
    found = await unsettled(partition)
    assert [int(body.split()[0]) for _, body in found] == list(range(41))
    released.set()
    await flush
    assert len(await unsettled(partition)) == 41
    await store.aclose()


async def test_pressure_rises_with_memory_and_falls_when_a_partition_goes(data: Path) -> None:
    store, (partition,) = start_store(
        data, options=LogOptions(memory_tail_bytes=10_000, flush_seconds=3600)
    )
    pressures: list[frozenset[str]] = []
    store.pressures.on_change = pressures.append
    for _ in range(25):
        partition.append(records([b"x" * 1000]))
    assert pressures == [{"memory"}]
    await until(lambda: len(pressures) == 2)
    assert pressures == [{"memory"}, set()]
    for _ in range(25):
        partition.append(records([b"x" * 1000]))
    store.close_partitions(partition)
    await until(lambda: len(pressures) == 4)
    await store.aclose()


async def test_a_fault_of_ours_in_the_flusher_stops_the_node_like_one_of_the_disk(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)

    def fail(*arguments: object) -> None:
        raise ValueError("made to fail")

    await durable(store, append(partition, 3))
    monkeypatch.setattr(store.checkpoints._writer, "write", fail)
    await flushed(store)
    monkeypatch.undo()
    with pytest.raises(JournalFailed):
        append(partition)
    await store.checkpoints.take()
    assert not recycled(disk)
    assert partition.synced_offset == 0
    await store.aclose()
    assert await content(data) == numbered(0, 1, 2)


@pytest.mark.parametrize("step", ["plan_flush", "flushed", "evict"])
async def test_a_fault_of_ours_on_the_loop_stops_the_node_and_keeps_its_journal(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    store.memory.tail_bytes_max = 0  # something is to be evicted

    def fail(*arguments: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(PartitionLog, step, fail)
    await store.checkpoints.take()
    with pytest.raises(JournalFailed, match="made to fail"):
        append(partition)
    assert "ValueError: made to fail" in caplog.text
    monkeypatch.undo()
    await store.aclose()
    assert not recycled(disk)
    assert await content(data) == numbered(0, 1, 2)


async def test_a_snapshot_that_fails_for_any_reason_stops_the_node(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (partition,) = start_store(data)

    def fail(*arguments: object, **keywords: object) -> None:
        raise ValueError("made to fail")

    await durable(store, append(partition, 3))
    monkeypatch.setattr(store.metadata, "apply_each", fail)
    await store.checkpoints.take()
    monkeypatch.undo()
    with pytest.raises(JournalFailed):
        append(partition)
    await store.aclose()
    assert await content(data) == numbered(0, 1, 2)


async def test_a_read_of_a_segment_that_retention_removes_meanwhile_goes_on_behind_it(
    data: Path,
) -> None:
    disk = WatchedDisk()
    options = LogOptions(
        journal_file_bytes=MIB, memory_tail_bytes=5_000, segment_bytes=5_000, flush_seconds=3600
    )
    retention = Retention(is_stream=True, bytes_max=20_000)
    store, (partition,) = start_store(data, options=options, disk=disk, retention=retention)
    for number in range(10):
        partition.append(records([b"%d " % number + b"x" * 1_500]))
    await flushed(store)
    arrived, released = disk.hold("open", "*.log")
    loaded = asyncio.Event()
    partition.load(0, loaded.set)
    await until(arrived.is_set)
    segment = partition.segments[0]
    partition.open_cursor().settle(0, segment.end_offset)
    partition.release()
    await until(lambda: disk.count("remove", segment.path.name))
    released.set()
    await loaded.wait()
    assert partition.needs_load(0)
    loaded.clear()
    partition.load(0, loaded.set)
    await loaded.wait()
    batch = partition.read(0)
    assert batch is not None
    assert batch.base_offset == segment.end_offset
    await store.aclose()


async def test_no_segment_begins_behind_one_that_could_not_be_removed(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    await flushed(store)
    (left,) = (data / "logs").rglob("*.log")
    disk.fail("remove", left.name)
    partition.open_cursor().settle(0, 3)
    partition.remove_settled_segments()
    await until(lambda: disk.failed)
    assert left.exists()
    disk.repair()
    await durable(store, append(partition, 2))
    await flushed(store)
    assert not left.exists()
    assert await unsettled(partition) == numbered(3, 4)
    await store.aclose()
    assert await content(data) == numbered(3, 4)


async def test_a_segment_that_can_never_be_removed_stops_the_node_before_the_next_begins(
    data: Path,
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, 3))
    await flushed(store)
    (left,) = (data / "logs").rglob("*.log")
    disk.fail("remove", left.name)
    partition.open_cursor().settle(0, 3)
    partition.remove_settled_segments()
    await durable(store, append(partition, 2))
    await flushed(store)
    with pytest.raises(JournalFailed, match="remove made to fail"):
        append(partition)
    assert list((data / "logs").rglob("*.log")) == [left]
    disk.repair()
    await store.aclose()
    left.write_bytes(b"")  # as if the power had failed, too: it was never synced
    assert await content(data) == numbered(3, 4)


async def test_segments_behind_one_that_cannot_be_removed_stay_with_it(data: Path) -> None:
    disk = WatchedDisk()
    options = LogOptions(journal_file_bytes=MIB, segment_bytes=2_000, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options, disk=disk)
    for number in range(4):
        partition.append(records([b"%d" % number + b"x" * 1_500]))
    await flushed(store)
    first, *others = sorted((data / "logs").rglob("*.log"))
    disk.fail("remove", first.name)
    partition.open_cursor().settle(0, 4)
    partition.remove_settled_segments()
    await until(lambda: disk.failed)
    await crash(store, data)
    assert all(each.exists() for each in [first, *others])
    disk.repair()
    append(partition)
    await flushed(store)
    assert not any(each.exists() for each in [first, *others])
    await store.aclose()


async def test_a_hole_in_a_sealed_segment_is_settled_also_when_its_settlement_was_lost(
    data: Path,
) -> None:
    disk = WatchedDisk()
    options = LogOptions(journal_file_bytes=MIB, segment_bytes=5_000, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options, disk=disk)
    for number in range(8):
        position = partition.append(records([b"%d" % number + b"x" * 1_500]), waited=True)
    await durable(store, position)
    arrived, released = disk.hold("write", "*.journal")
    append(partition)  # what is settled behind it is not in its commit
    await until(arrived.is_set)
    partition.open_cursor().settle(1, 2)
    await store.checkpoints.flush()
    assert len(partition.segments) > 1
    assert partition.segments[0].end_offset > 2
    left = copy_of(data, data.parent / "crashed")
    released.set()
    await store.aclose()
    store, (partition,) = start_store(left, options=options, epoch=2)
    assert partition.open_cursor().settled.unsettled_from(1) == 2
    assert [offset for offset, _ in await unsettled(partition)][:7] == [0, 2, 3, 4, 5, 6, 7]
    await store.aclose()


async def test_acks_take_little_memory_while_the_disk_stands_still(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    await durable(store, append(partition, SCATTERED_MAX))
    arrived, released = disk.hold("write", "*.journal")
    append(partition)
    await until(arrived.is_set)
    cursor = partition.open_cursor()
    for offset in range(1, SCATTERED_MAX, 2):
        cursor.settle(offset, offset + 1)
        assert len(cursor._acked or ()) <= UNJOURNALED_MAX
    released.set()
    await until(lambda: cursor._acked is None)
    await durable(store, append(partition))
    left = await crash(store, data)
    await store.aclose()
    assert [offset for offset, _ in await content(left)] == [
        *range(0, SCATTERED_MAX, 2),
        SCATTERED_MAX,
        SCATTERED_MAX + 1,
    ]
