"""Copies of a running store: what a start from one finds, and what ends one."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    QUIET,
    append,
    content,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    open_store,
    start_store,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.copies.data_copy import CopyFailed, DataCopy
from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_files import JournalFiles, write_end
from routelog.log_backend.journal.journal_reader import JournalReader
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.metadata.metadata import Change
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.upkeep.flush_plan import FlushPlan

SMALL_SEGMENTS = replace(QUIET, segment_bytes=64 * 1024)


def materialized(copy: DataCopy, target: Path) -> Path:
    """A data directory of the files of a copy."""
    disk = SystemDisk()
    for each in copy.files:
        path = target / each.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(copy.read(each, 0, each.size))
        if each.padded:
            file = disk.open(path)
            disk.truncate(file, each.padded)
            write_end(disk, file, each.padded)
            disk.close(file)
    return target


async def taken(store: LogStore) -> DataCopy:
    copy = store.copies.begin()
    await copy.taken
    return copy


def held(data: Path) -> list[str]:
    folder = data / "copies"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


async def test_a_start_from_a_copy_finds_segments_and_journal(data: Path, tmp_path: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 3)
    await flushed(store)
    position = append(partition, 2)
    await durable(store, position)
    copy = await taken(store)
    assert copy.position >= position
    append(partition, 5)  # behind it
    restored = materialized(copy, tmp_path / "restored")
    copy.end()
    await store.aclose()
    assert held(data) == []
    assert await content(restored) == numbered(0, 1, 2, 3, 4)


async def test_what_is_removed_after_the_copy_is_still_in_it(data: Path, tmp_path: Path) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    assert len(partition.segments) > 2
    copy = await taken(store)
    partition.open_cursor().settle(0, 8)
    partition.release()
    await until(lambda: not list(partition.directory.glob("00000000000000000000.*")))
    restored = materialized(copy, tmp_path / "restored")
    copy.end()
    await store.aclose()
    found = await content(restored)
    assert [offset for offset, _ in found] == list(range(8))


async def test_segments_that_are_planned_and_not_written_yet_are_in_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    append(partition)
    await flushed(store)
    planned = asyncio.Event()
    take, sync = store.checkpoints.take, FlushPlan.sync

    async def begin_a_flush() -> None:
        await take()
        monkeypatch.setattr(FlushPlan, "sync", pause)
        for _ in range(8):
            position = partition.append(records([b"x" * 30_000]), waited=True)
        await durable(store, position)
        flushes.append(asyncio.create_task(store.checkpoints.flush()))
        await planned.wait()

    async def pause(plan: FlushPlan, partitions: Iterable[PartitionLog]) -> None:
        planned.set()
        for _ in range(4):  # who links files meanwhile has done so in this thread
            await asyncio.get_running_loop().run_in_executor(store._flusher, str)
        await sync(plan, partitions)

    flushes: list[asyncio.Task[None]] = []
    monkeypatch.setattr(store.checkpoints, "take", begin_a_flush)
    copy = await taken(store)
    monkeypatch.undo()
    assert len(partition.segments) > 3
    restored = materialized(copy, tmp_path / "restored")
    await asyncio.gather(*flushes)
    await store.aclose()
    assert [offset for offset, _ in await content(restored)] == list(range(9))


async def test_sealed_segments_are_the_same_in_the_next_copy(data: Path) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    first = await taken(store)
    sealed = {
        each.path: bytes(first.read(each, 0, each.size)) for each in first.files if each.is_sealed
    }
    append(partition)
    await flushed(store)
    second = await taken(store)
    again = {
        each.path: bytes(second.read(each, 0, each.size)) for each in second.files if each.is_sealed
    }
    assert len(sealed) >= 9  # with their indexes
    assert again == sealed
    await store.aclose()


async def test_a_copy_ends_at_what_was_durable(data: Path, tmp_path: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    await until(lambda: store.journal.durable)  # or the copy may end before there is a block
    copy = store.copies.begin()
    count = 1
    while not copy.taken.done():
        append(partition)
        count += 1
        await asyncio.sleep(0)
    await copy.taken
    restored = materialized(copy, tmp_path / "restored")
    await store.aclose()
    reader = JournalReader(JournalFiles(restored / "journal", SystemDisk()))
    assert [each.position for each in reader.blocks()][-1] == copy.position
    found = await content(restored)
    assert found == numbered(*range(len(found)))
    assert 0 < len(found) <= count


async def test_journal_files_are_not_written_over_while_they_are_copied(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    arrived, released = disk.hold("open", "*.journal")  # by the copy: the journal's own are open
    copy = store.copies.begin()
    await until(arrived.is_set)
    for _ in range(4):
        await fill_journal_file(store, partition)
    await until(lambda: store.journal.supply.held >= 2)
    assert not recycled(disk)
    released.set()
    await copy.taken
    await until(lambda: recycled(disk) and not store.journal.supply.held)
    await store.aclose()


async def test_deleted_topology_is_not_in_a_later_copy(data: Path, tmp_path: Path) -> None:
    store, (partition, other) = start_store(data, queues=("q", "other"))
    append(partition)
    append(other)
    await flushed(store)
    store.metadata_writer.submit([Change(b"queue/q", b"there")])
    changes = store.close_partitions(partition)
    deleted = store.metadata_writer.submit([*changes, Change(b"queue/q", None)])
    await deleted
    store.remove_files(partition)
    copy = await taken(store)
    names = {each.path for each in copy.files}
    assert not any(name.startswith("logs/%2F/q-0/") for name in names)
    restored = materialized(copy, tmp_path / "restored")
    await store.aclose()
    again = open_store(restored)
    again.recover_metadata()
    assert again.metadata.get(b"queue/q") is None
    await again.aclose()


async def test_a_copy_that_ends_early_lets_go_of_everything(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    copy = store.copies.begin()
    await asyncio.sleep(0)
    copy.fail("the client has gone")
    with pytest.raises(CopyFailed, match="the client has gone"):
        await copy.taken
    await until(lambda: not held(data))
    assert not store.checkpoints.lock.locked()
    append(partition)
    again = await taken(store)
    again.end()
    await store.aclose()


async def test_a_low_disk_ends_copies_and_publishes_go_on(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = 64 * MIB
    options = replace(QUIET, disk_reserve_bytes=MIB)
    store, (partition,) = start_store(data, disk=disk, options=options)
    append(partition)
    copy = await taken(store)
    some = copy.files[0]
    disk.others = disk.free_bytes(data) - MIB // 2
    await until(lambda: copy.failure)
    assert "the disk is low" in copy.failure
    await until(lambda: not held(data))
    with pytest.raises(CopyFailed, match="the disk is low"):
        copy.read(some, 0, 1)
    with pytest.raises(CopyFailed, match="the disk is low"):
        await store.copies.begin().taken
    disk.others = 0
    await until(lambda: not store.space.low)
    await durable(store, append(partition))
    await store.aclose()


@pytest.mark.parametrize(
    ("operation", "names", "number"),
    [
        ("link", "*", errno.EPERM),
        ("allocate", "*.journal", errno.ENOSPC),
        ("open", "*.journal", errno.EIO),
    ],
)
async def test_a_disk_that_refuses_ends_the_copy_and_nothing_else(
    data: Path, operation: str, names: str, number: int
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition)
    await flushed(store)
    disk.fail(operation, names, number)
    with pytest.raises(CopyFailed, match="made to fail"):
        await store.copies.begin().taken
    disk.repair()
    await until(lambda: not held(data))
    await durable(store, append(partition))
    copy = await taken(store)
    copy.end()
    await store.aclose()


async def test_a_stop_ends_what_is_being_copied(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    copies = [store.copies.begin(), store.copies.begin()]
    await asyncio.sleep(0)
    await store.aclose()
    assert all(each.failure == "the broker stops" for each in copies)
    assert held(data) == []
    with pytest.raises(CopyFailed, match="the broker stops"):
        await store.copies.begin().taken


async def test_a_start_removes_what_a_killed_run_held(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    await taken(store)
    await store.aclose()
    for name in ("7", "7-metadata"):
        (data / "copies" / name).mkdir(parents=True)
        (data / "copies" / name / "1").write_bytes(b"1")
    store, _ = start_store(data, epoch=2)
    assert held(data) == []
    await store.aclose()


async def test_retention_may_remove_all_that_a_copy_holds(data: Path, tmp_path: Path) -> None:
    store, (partition,) = start_store(
        data, options=SMALL_SEGMENTS, retention=Retention(is_stream=True, bytes_max=64 * 1024)
    )
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    copy = await taken(store)
    first = partition.first_offset
    for _ in range(8):
        partition.append(records([b"y" * 30_000]), waited=True)
    await flushed(store)
    partition.expire()
    assert partition.first_offset > first
    restored = materialized(copy, tmp_path / "restored")
    copy.end()
    await store.aclose()
    found = await content(restored)
    assert {body[:1] for _, body in found} == {b"x"}
