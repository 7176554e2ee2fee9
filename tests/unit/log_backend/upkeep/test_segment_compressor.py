"""Sealed segments change their form while the log is written, read, cut and deleted."""

from __future__ import annotations

import asyncio
import errno
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, Bodies, crash, flushed, start_store, unsettled
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.ballast import METADATA_BYTES
from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention

# Segments of about three batches; everything on the disk is read from it.
TINY = LogOptions(
    journal_file_bytes=MIB, segment_bytes=16_000, memory_tail_bytes=1, flush_seconds=3600
)
STREAM = Retention(is_stream=True)


@pytest.fixture(params=["zstd", "lz4"])
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec's name."""
    name: str = request.param
    return name


def fill(partition: PartitionLog, batches: int = 12, *, noise: bool = False) -> Bodies:
    """Append batches of about 5 KB; what is in the log then."""
    first = partition.next_offset
    choice = random.Random(first)
    for offset in range(first, first + batches):
        partition.append(records([_body(offset, choice if noise else None)]))
    return [(offset, _body(offset)) for offset in range(partition.next_offset)]


def _body(offset: int, noise: random.Random | None = None) -> bytes:
    return noise.randbytes(5_000) if noise else b"message %d " % offset * 400


def files(partition: PartitionLog) -> dict[str, list[str]]:
    """Stems of the files of a partition, by suffix."""
    found: dict[str, list[str]] = {}
    for path in sorted(partition.directory.iterdir()):
        found.setdefault(path.suffix, []).append(path.stem)
    return found


async def idle(store: LogStore) -> None:
    """Nothing is compressed, flushed or removed any more."""
    await until(lambda: not store._background.tasks)
    await asyncio.sleep(0)
    await asyncio.get_running_loop().run_in_executor(store._flusher, str)


async def stopped(store: LogStore) -> None:
    """End without compressing what waits for it."""
    store._compressor.stop()
    await idle(store)
    await store.aclose()


async def test_sealed_segments_are_compressed_and_read_as_before(data: Path, codec: str) -> None:
    store, (partition,) = start_store(data, options=TINY, compression=codec)
    expected = fill(partition)
    await flushed(store)
    await idle(store)
    found = files(partition)
    assert len(found[".zlog"]) == len(partition.segments) - 1 >= 3
    assert found[".log"] == [f"{partition.segments[-1].base_offset:020d}"]
    assert not (data / "compressing").exists()
    for segment in partition.segments[:-1]:
        size = segment.path.with_suffix(".zlog").stat().st_size
        assert size == segment.compressed_bytes == segment.file_bytes < segment.size / 5
    assert await unsettled(partition) == expected
    await store.aclose()

    store, (partition,) = start_store(data, options=TINY, compression=codec, epoch=2)
    assert [s.compressed_bytes is not None for s in partition.segments][-2:] == [True, False]
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_without_compression_nothing_is_compressed(data: Path) -> None:
    store, partitions = start_store(data, options=TINY, queues=("a", "b"))
    for partition in partitions:
        fill(partition)
    await flushed(store)
    await idle(store)
    assert all(".zlog" not in files(partition) for partition in partitions)
    await store.aclose()


async def test_a_partition_that_does_not_say_takes_the_default(data: Path) -> None:
    options = replace(TINY, compression="lz4")
    store, (told_nothing,) = start_store(data, options=options)
    told_none = store.open_partition(2, "/", "none", 0, durable=True, compression="none")
    for partition in (told_nothing, told_none):
        fill(partition)
    await flushed(store)
    await idle(store)
    assert ".zlog" in files(told_nothing)
    assert ".zlog" not in files(told_none)
    await store.aclose()


async def test_what_was_sealed_before_a_restart_is_compressed_after_it(data: Path) -> None:
    store, (partition,) = start_store(data, options=TINY)
    expected = fill(partition)
    await stopped(store)
    assert ".zlog" not in files(partition)
    store, (partition,) = start_store(data, options=TINY, compression="zstd", epoch=2)
    await idle(store)
    assert len(files(partition)[".zlog"]) == len(partition.segments) - 1
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_compressed_segments_without_indexes_are_found_by_their_headers(data: Path) -> None:
    store, (partition,) = start_store(data, options=TINY, compression="zstd")
    expected = fill(partition)
    await flushed(store)
    await idle(store)
    left = await crash(store, data)
    await store.aclose()
    for path in (left / "logs").rglob("*index"):
        path.unlink()
    store, (partition,) = start_store(left, options=TINY, compression="zstd", epoch=2)
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_settled_segments_go_in_either_form(data: Path) -> None:
    store, (partition,) = start_store(data, options=TINY, compression="zstd")
    fill(partition)
    await flushed(store)
    await idle(store)
    partition.open_cursor().settle(0, partition.segments[-1].base_offset)
    partition.release()
    await idle(store)
    assert len(partition.segments) == 1
    assert set(files(partition)) == {"", ".log"}
    await store.aclose()


async def test_segments_removed_while_they_are_compressed_do_not_come_back(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk, compression="zstd")
    arrived, released = disk.hold("sync", "compressing")
    fill(partition)
    await flushed(store)
    await until(arrived.is_set)
    partition.open_cursor().settle(0, partition.segments[-1].base_offset)
    partition.release()
    released.set()
    await idle(store)
    assert set(files(partition)) == {"", ".log"}
    assert disk.count("rename", "*.zlog") == 0
    await store.aclose()


async def test_segments_removed_behind_their_change_of_form_do_not_come_back(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk, compression="zstd")
    arrived, released = disk.hold("rename", "compressing")
    fill(partition)
    await flushed(store)
    await until(arrived.is_set)
    partition.open_cursor().settle(0, partition.segments[-1].base_offset)
    partition.release()
    released.set()
    await idle(store)
    assert disk.count("rename", "*.zlog") == 1
    assert set(files(partition)) == {"", ".log"}
    await store.aclose()


@pytest.mark.parametrize("operation", ["write", "rename"])
async def test_a_partition_deleted_while_it_is_compressed_is_gone(
    data: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk, compression="zstd")
    arrived, released = disk.hold(operation, "compressing")
    fill(partition)
    await flushed(store)
    await until(arrived.is_set)
    store.metadata.apply(store.close_partitions(partition), synced=False)
    store.remove_files(partition)
    released.set()
    await idle(store)
    assert not partition.directory.exists()
    successor = store.open_partition(2, "/", "q", 0, durable=True, compression="zstd")
    expected = fill(successor)
    await flushed(store)
    await idle(store)
    assert await unsettled(successor) == expected
    await store.aclose()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_read_under_way_goes_on_in_the_form_it_has_opened(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk)
    expected = fill(partition)
    await flushed(store)
    arrived, released = disk.hold("read", f"{0:020d}.log")
    loaded = asyncio.Event()
    partition.load(0, loaded.set)
    await until(arrived.is_set)
    partition.compression = "zstd"
    store._compressor.look(partition)
    await until(lambda: disk.count("remove", f"{0:020d}.log"))
    released.set()
    await asyncio.wait_for(loaded.wait(), 60)
    batch = partition.read(0)
    assert batch is not None
    assert batch.records.body(0) == expected[0][1]
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_a_stop_does_not_wait_for_compression_to_end(data: Path) -> None:
    disk = WatchedDisk()
    options = replace(TINY, segment_bytes=MIB)
    store, (partition,) = start_store(data, options=options, disk=disk, compression="zstd")
    arrived, released = disk.hold("write", "compressing")
    expected = fill(partition, MIB // 4_000)
    await flushed(store)
    await until(arrived.is_set)
    closing = asyncio.ensure_future(store.aclose())
    await until(store._compressor._stopping.is_set)
    released.set()
    await asyncio.wait_for(closing, 60)
    assert disk.count("write", "compressing") == 1 < len(partition.segments[0].blocks())
    assert not (data / "compressing").exists()
    assert len(files(partition)[".log"]) == len(partition.segments) == 2

    store, (partition,) = start_store(data, options=options, compression="none", epoch=2)
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_a_scratch_file_that_a_crash_left_is_removed(data: Path) -> None:
    store, _ = start_store(data, options=TINY)
    scratch = store._compressor._scratch
    await store.aclose()
    scratch.write_bytes(b"half a segment")
    store, _ = start_store(data, options=TINY, epoch=2)
    assert not scratch.exists()
    await store.aclose()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    ("operation", "names"),
    [
        ("open", "compressing"),
        ("truncate", "compressing"),
        ("write", "compressing"),
        ("sync", "compressing"),
        ("rename", "compressing"),
        ("sync_directory", "q-0"),
        ("remove", "*.log"),
    ],
)
async def test_what_fails_costs_space_and_nothing_else(
    data: Path, operation: str, names: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk)
    expected = fill(partition)
    await flushed(store)
    partition.compression = "zstd"
    disk.fail(operation, names, number)
    store._compressor.look(partition)
    await until(lambda: disk.failed == len(partition.segments) - 1)
    await idle(store)
    disk.repair()
    assert "is not compressed" in caplog.text
    assert not (data / "compressing").exists()
    assert store._failure is None
    assert len(files(partition)[".log"]) == len(partition.segments)
    assert await unsettled(partition) == expected
    store._compressor.look(partition)
    assert not store._background.tasks, "tried again"
    await store.aclose()

    store, (partition,) = start_store(data, options=TINY, compression="zstd", epoch=2)
    await idle(store)
    assert len(files(partition)[".log"]) == 1
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_noise_stays_as_it_is_and_is_not_tried_again(data: Path, codec: str) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk, compression=codec)
    fill(partition, noise=True)
    await flushed(store)
    await idle(store)
    tried = disk.count("truncate", "compressing")
    assert tried == len(partition.segments) - 1
    assert ".zlog" not in files(partition)
    assert not (data / "compressing").exists()
    store._compressor.look(partition)
    await idle(store)
    assert disk.count("truncate", "compressing") == tried
    await store.aclose()


async def test_a_cut_segment_is_left_for_its_readers_to_complain_about(data: Path) -> None:
    store, (partition,) = start_store(data, options=TINY)
    fill(partition)
    await flushed(store)
    path = partition.segments[0].path
    path.write_bytes(path.read_bytes()[:-1])
    partition.compression = "zstd"
    store._compressor.look(partition)
    await idle(store)
    assert path.exists()
    assert len(files(partition)[".zlog"]) == len(partition.segments) - 2
    await store.aclose()


async def test_a_checkpoint_passes_over_what_was_compressed_meanwhile(data: Path) -> None:
    store, (partition,) = start_store(data, options=TINY, compression="zstd")
    expected = fill(partition)
    await flushed(store)
    await idle(store)
    assert all(segment.unsynced for segment in partition.segments)
    await store.checkpoints.take()
    assert store._failure is None
    assert not any(segment.unsynced for segment in partition.segments)
    assert set(files(partition)[".log"]) == {f"{partition.segments[-1].base_offset:020d}"}
    assert await unsettled(partition) == expected
    await store.aclose()


async def test_the_limit_of_a_stream_counts_what_the_disk_holds(data: Path) -> None:
    limit = Retention(is_stream=True, bytes_max=40_000)
    kept = {}
    for compression in ("none", "zstd"):
        store, (partition,) = start_store(
            data / compression, options=TINY, retention=STREAM, compression=compression
        )
        fill(partition, 30)
        await flushed(store)
        await idle(store)
        partition.retention = limit
        partition.expire()
        kept[compression] = partition.next_offset - partition.first_offset
        await store.aclose()
    assert kept["none"] < 10
    assert kept["zstd"] == 30


async def test_partitions_take_turns(data: Path) -> None:
    disk = WatchedDisk()
    store, partitions = start_store(
        data, options=TINY, disk=disk, queues=("a", "b"), compression="lz4"
    )
    for partition in partitions:
        fill(partition)
    await flushed(store)
    await idle(store)
    renamed = [path.parent.name for operation, path in disk.events if operation == "rename"]
    renamed = [name for name in renamed if name in ("a-0", "b-0")]
    assert len(renamed) >= 6
    assert all(one != other for one, other in zip(renamed[::2], renamed[1::2], strict=True))
    await store.aclose()


async def test_what_spills_from_a_queue_that_is_not_durable_is_compressed_too(data: Path) -> None:
    store, _ = start_store(data, options=TINY)
    spilling = store.open_partition(2, "/", "s", 0, durable=False, compression="zstd")
    expected = fill(spilling)
    await flushed(store)
    await idle(store)
    assert len(files(spilling)[".zlog"]) == len(spilling.segments) - 1 >= 3
    assert await unsettled(spilling) == expected
    await store.aclose()
    store, _ = start_store(data, options=TINY, epoch=2)
    assert not spilling.directory.exists()
    await store.aclose()


async def test_nothing_is_compressed_when_the_disk_has_failed(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, options=TINY, disk=disk)
    fill(partition)
    await flushed(store)
    disk.fail("write", "*.log")
    fill(partition, 1)
    await flushed(store)
    assert store._failure is not None
    disk.repair()
    partition.compression = "zstd"
    partition._flushing = False
    store._compressor.look(partition)
    await idle(store)
    assert disk.count("write", "compressing") == 0
    await store.aclose()


async def test_compression_leaves_the_last_space_to_what_cannot_wait(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = 64 * MIB
    store, (partition,) = start_store(data, options=TINY, disk=disk)
    fill(partition)
    await flushed(store)
    partition.compression = "zstd"
    # It is not counted when it is given its name
    await until(lambda: not store.journal.supply.making)
    disk.others = disk.free_bytes(data) - METADATA_BYTES - 1_000
    store._compressor.look(partition)
    await idle(store)
    assert disk.count("open", "compressing") == disk.count("truncate", "compressing") == 0
    assert ".zlog" not in files(partition)
    disk.others = 0
    store._compressor.look(partition)
    await idle(store)
    assert len(files(partition)[".zlog"]) == len(partition.segments) - 1
    await store.aclose()
