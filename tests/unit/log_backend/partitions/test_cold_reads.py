"""Cold reads that the system refuses: tried again while it is short of files, told to who asked otherwise."""

import asyncio
import errno
import logging
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, flushed, numbered, start_store, unsettled
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions import cold_reads
from routelog.log_backend.partitions.partition_log import PartitionLog

OPTIONS = LogOptions(journal_file_bytes=MIB, flush_seconds=3600)


async def on_disk(data: Path, disk: WatchedDisk) -> tuple[LogStore, PartitionLog]:
    """A partition whose three records are in a segment only."""
    store, (partition,) = start_store(data, options=OPTIONS, disk=disk)
    partition.append(records([b"0", b"1", b"2"]))
    await flushed(store)
    partition.evict(MIB)
    assert partition.needs_load(0)
    return store, partition


async def load(partition: PartitionLog) -> None:
    loaded = asyncio.Event()
    partition.load(0, loaded.set)
    async with asyncio.timeout(60):
        await loaded.wait()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_read_without_a_free_descriptor_is_tried_again(
    data: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    disk.fail("open", "*.log", number)
    loading = asyncio.ensure_future(load(partition))
    await until(lambda: disk.failed == 2)
    disk.repair()
    await loading
    assert await unsettled(partition) == numbered(0, 1, 2)
    assert partition.read_error is None
    assert "a cold read is tried again" in caplog.text
    await store.aclose()


async def test_it_is_tried_so_often_and_then_told(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_reads, "RETRY_SECONDS", (0.001, 0.001))
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    disk.fail("open", "*.log", errno.EMFILE)
    await load(partition)
    assert disk.failed == 3
    assert isinstance(partition.read_error, OSError)
    await store.aclose()


async def test_who_waits_for_a_read_is_told_when_the_log_is_closed(data: Path) -> None:
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    loading = asyncio.ensure_future(load(partition))
    await asyncio.sleep(0)
    store.close_partitions(partition)
    await loading
    assert partition.read(0) is None
    assert not partition.needs_load(0)
    await store.aclose()


async def test_what_the_disk_did_not_give_is_read_when_somebody_asks_again(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    disk.fail("read", "*.log")
    with caplog.at_level(logging.ERROR):
        await load(partition)
    assert disk.failed == 1
    assert "cannot be read: [Errno 5]" in caplog.text
    assert partition.damage.found == []
    assert partition.read(0) is None
    assert not partition.needs_load(0)
    disk.repair()
    partition.read_again()
    assert await unsettled(partition) == numbered(0, 1, 2)
    await store.aclose()


async def test_what_was_settled_meanwhile_stands_in_nobodys_way(data: Path) -> None:
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    disk.fail("read", "*.log")
    await load(partition)
    partition.append(records([b"3"]))
    assert partition.read(3) is None
    partition.open_cursor().settle(0, 3)
    partition.release()
    assert await unsettled(partition) == numbered(3)
    await store.aclose()


async def test_a_store_that_closes_tries_nothing_again(data: Path) -> None:
    disk = WatchedDisk()
    store, partition = await on_disk(data, disk)
    disk.fail("open", "*.log", errno.EMFILE)
    partition.load(0, lambda: pytest.fail("it is closed"))
    await until(lambda: disk.failed)
    disk.repair()
    await store.aclose()
    assert disk.failed == 1
