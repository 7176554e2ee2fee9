"""Passes over logs that are written, read, cut, copied and deleted meanwhile."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.log_backend.compacted_log import (
    AT_ONCE,
    COMPACT,
    TINY,
    Stored,
    UnsyncedDisk,
    folded,
    idle,
    names,
    passed,
    publish,
    read_from,
    start_compacted,
)
from unit.log_backend.log_records import TIME
from unit.log_backend.open_store import crash, flushed
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.clock import SystemClock
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.log_directory import is_compacted
from routelog.log_backend.segments.retention import Compaction, Retention
from routelog.log_backend.segments.segment_file import SegmentDamaged
from routelog.log_backend.upkeep import compaction_progress, log_compactor
from routelog.log_backend.upkeep.compaction_process import CompactionProcess

PAD = b" " * 200


@pytest.fixture
def disk() -> WatchedDisk:
    return UnsyncedDisk()


def fill(partition: PartitionLog, rounds: int, keys: int = 5) -> list[Stored]:
    """Give each of some keys so many values, a batch a round."""
    stored: list[Stored] = []
    for number in range(rounds):
        body = b"%d" % number + PAD
        stored += publish(partition, *((f"key {key}", body) for key in range(keys)))
    return stored


def join_up_to(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have passes make one segment of several while it has so many bytes at most."""
    for module in (compaction_progress, log_compactor):
        monkeypatch.setattr(module, "COMPACTED_SEGMENT_BYTES", size)


async def test_the_last_value_of_each_key_stays_where_it_was(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    await passed(store)
    assert store.compactor.passes == 1
    left = await read_from(partition, 0)
    assert set(left) < set(stored)
    sealed = [each for each in left if each.offset < partition.segments[-1].base_offset]
    assert len({each.key for each in sealed}) == len(sealed) == 5
    for offset in range(len(stored)):
        found = await read_from(partition, offset)
        assert found == [each for each in left if each.offset >= offset]
        assert folded(found) == folded(stored[offset:])
    await store.aclose()


async def test_a_compacted_log_is_the_same_after_a_restart(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 10)
    await passed(store)
    left, files = await read_from(partition, 0), names(partition)
    assert any(name.endswith(".1.log") for name in files)
    first, end = partition.first_offset, partition.next_offset
    await store.aclose()
    store, partition = start_compacted(data, disk, epoch=2)
    await idle(store)
    assert await read_from(partition, 0) == left
    assert (partition.first_offset, partition.next_offset) == (first, end) == (0, 50)
    assert names(partition) == files
    assert store.compactor.passes == 0
    assert not (data / "compacting").exists() or not list((data / "compacting").iterdir())
    await store.aclose()


async def test_a_log_whose_older_part_is_in_remote_storage_is_not_compacted(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    partition.skip_to(10)  # as a disk that has let go of what was copied
    partition.has_copies = True
    fill(partition, 10)
    await passed(store)
    assert store.compactor.passes == 0
    assert "in remote storage" in partition.compaction_failure
    await store.aclose()


async def test_passes_follow_when_half_of_the_bytes_are_new(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = [each for key in range(60) for each in publish(partition, (f"key {key}", PAD))]
    await passed(store)
    assert store.compactor.passes == 1
    stored += fill(partition, 4)
    await passed(store)
    assert store.compactor.passes == 1
    for passes in range(2, 5):
        while store.compactor.passes < passes:
            stored += fill(partition, 1)
            await passed(store)
        assert folded(await read_from(partition, 0)) == folded(stored)
    assert len(partition.segments) < 20
    await store.aclose()


async def test_a_deletion_stays_until_it_is_old_enough(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    store.compactor._clock = clock = MovedClock()
    stored = publish(partition, ("gone", b"value" + PAD), ("stays", b"value" + PAD))
    deletion = publish(partition, ("gone", b""))
    stored += deletion + fill(partition, 10)
    await passed(store)
    assert (await read_from(partition, 0))[:2] == [stored[1], *deletion]

    # A reader that is slower than a pass gets it, too.
    stored += fill(partition, 20)
    await passed(store)
    assert store.compactor.passes == 2
    assert deletion[0] in await read_from(partition, 0)

    clock.ahead = 3600.0
    stored += fill(partition, 20)
    await passed(store)
    assert store.compactor.passes == 3
    left = await read_from(partition, 0)
    assert b"gone" not in {each.key for each in left}
    assert folded(left) == folded(stored)
    await store.aclose()


class MovedClock(SystemClock):
    """A clock that is ahead of the system's, by seconds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> int:
        return super().now() + int(self.ahead * 1_000_000)

    @property
    def monotonic(self) -> Callable[[], float]:  # type: ignore[override]
        return lambda: time.monotonic() + self.ahead


async def test_a_deletion_never_goes_with_the_pass_that_takes_its_values(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk, retention=AT_ONCE)
    publish(partition, ("gone", b"value" + PAD))
    (deletion,) = publish(partition, ("gone", b""))
    fill(partition, 10)
    await passed(store)
    assert deletion in await read_from(partition, 0)
    fill(partition, 20)
    await passed(store)
    assert deletion not in await read_from(partition, 0)
    await store.aclose()


async def test_young_messages_stay(data: Path, disk: WatchedDisk) -> None:
    rule = Retention(is_stream=True, compaction=Compaction(age_min=3_600_000_000))
    store, partition = start_compacted(data, disk, retention=rule)
    stored = fill(partition, 10)
    await passed(store)
    assert await read_from(partition, 0) == stored
    store.compactor._clock = clock = MovedClock()
    clock.ahead = 3600.0
    store.compactor.look(partition)
    await idle(store)
    assert len(await read_from(partition, 0)) < len(stored)
    await store.aclose()


async def test_the_newest_segment_ends_after_an_hour(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk, options=replace(TINY, segment_bytes=1_000_000))
    fill(partition, 4)
    await passed(store)
    assert len(partition.segments) == 1
    store.clock = clock = WallClock()
    fill(partition, 1)
    await passed(store)
    assert len(partition.segments) == 1
    clock.time += 3_600_000_000
    fill(partition, 1)
    await passed(store)
    assert len(partition.segments) == 2
    assert len(await read_from(partition, 0)) == 10  # it has become due at once
    await store.aclose()


class WallClock(SystemClock):
    """A clock that begins when records of tests were received."""

    def __init__(self) -> None:
        self.time = TIME

    def now(self) -> int:
        return self.time


async def test_a_reader_goes_on_across_a_pass(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    first = await read_from(partition, 0)
    assert first == stored  # and loaded pieces of the old files stay in memory
    half = stored[len(stored) // 2].offset
    released.set()
    await idle(store)
    assert store.compactor.passes == 1
    rest = await read_from(partition, half)
    assert folded([each for each in first if each.offset < half] + rest) == folded(stored)
    await store.aclose()


async def test_a_read_of_a_file_that_went_meanwhile_is_done_again(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    opening, opened = disk.hold("open", f"{0:020d}.log")
    reading = asyncio.create_task(read_from(partition, 0))
    await asyncio.to_thread(opening.wait, 30)
    released.set()
    await idle(store)
    opened.set()
    assert folded(await reading) == folded(stored)
    assert partition.read_error is None
    assert not partition.is_damaged
    await store.aclose()


async def test_damage_stops_a_pass_and_nothing_changes(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk, retention=Retention(is_stream=True))
    fill(partition, 10)
    await passed(store)
    files = names(partition)
    path = partition.segments[1].path
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    partition.retain(COMPACT)
    store.compactor.look(partition)
    await idle(store)
    assert (store.compactor.passes, store.compactor.failures) == (0, 1)
    assert "fails its checksum" in partition.compaction_failure
    assert names(partition) == files
    await store.aclose()


async def test_damage_in_a_compacted_segment_is_quarantined(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 10)
    await passed(store)
    path = partition.segments[0].path
    assert path.name.endswith(".1.log")
    await store.aclose()
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    store, partition = start_compacted(data, disk, epoch=2)
    assert partition.damage.found[0].file == path.name
    assert partition.blocked_from <= 45
    await store.aclose()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    ("operation", "files"),
    [
        ("allocate", "here.log"),
        ("write", "here.log"),
        ("sync", "here.index"),
        ("rename", "here.timeindex"),
        ("rename", "here.log"),
    ],
)
async def test_a_pass_that_fails_changes_nothing_and_is_tried_again(
    data: Path,
    disk: WatchedDisk,
    operation: str,
    files: str,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    disk.fail(operation, files, number)
    await passed(store)
    assert (store.compactor.passes, store.compactor.failures) == (0, 1)
    assert "made to fail" in partition.compaction_failure
    assert await read_from(partition, 0) == stored
    assert not [name for name in names(partition) if ".1." in name]
    assert not list((data / "compacting").iterdir())
    disk.repair()
    store.compactor.look(partition)
    await idle(store)
    assert store.compactor.passes == 0  # not yet
    monkeypatch.setattr(store.compactor._logs[partition], "retry_at", 0.0)
    store.compactor.look(partition)
    await idle(store)
    assert store.compactor.passes == 1
    assert partition.compaction_failure == ""
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()


async def test_a_disk_without_room_keeps_a_pass_from_beginning(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    disk.capacity = 12 * 1024 * 1024
    await passed(store)
    assert "needed" in partition.compaction_failure
    assert await read_from(partition, 0) == stored
    await store.aclose()


async def test_a_name_that_may_stay_is_left_to_the_next_start(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    disk.fail("sync_directory", partition.directory.name)
    disk.fail("remove", "*.1.log")
    released.set()
    await idle(store)
    assert await read_from(partition, 0) == stored
    assert store.compactor._logs[partition].is_stuck
    disk.repair()
    left = await crash(store, data)
    await store.aclose()
    store, partition = start_compacted(left, disk, epoch=2)
    await idle(store)
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()


async def test_a_new_segment_that_cannot_be_taken_back_hides_nothing(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    arrived, released = disk.hold("rename", "here.log")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    store.compactor.stop()
    disk.fail("remove", "*.1.log")
    released.set()
    await idle(store)
    disk.repair()
    await store.aclose()
    store, partition = start_compacted(data, disk, epoch=2)
    await idle(store)
    assert not partition.is_damaged
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()


async def test_a_new_segment_that_is_taken_back_goes_before_its_index(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 10)
    arrived, released = disk.hold("rename", "here.log")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    store.compactor.stop()
    released.set()
    await idle(store)
    files = [path.suffix for event, path in disk.events if event == "remove" and ".1." in path.name]
    assert files == [".log", ".index", ".timeindex"]
    await store.aclose()


async def test_old_large_segments_are_compacted(
    data: Path, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_up_to(100, monkeypatch)
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    stored += [each for key in range(60) for each in publish(partition, (f"key {key}", PAD))]
    await passed(store)
    assert (store.compactor.passes, store.compactor.failures) == (1, 0)
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()


async def test_a_queue_may_be_deleted_during_a_pass(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 10)
    arrived, released = disk.hold("open", "here.log")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    store.metadata.apply(store.close_partitions(partition))
    store.remove_files(partition)
    released.set()
    await idle(store)
    assert not partition.directory.exists()
    assert store.compactor.failures == 0
    await store.aclose()


async def test_retention_may_take_segments_during_a_pass(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    partition.retain(replace(COMPACT, bytes_max=partition.segments[-1].size + 1))
    partition.expire()
    first = partition.first_offset
    assert first > 0
    released.set()
    await idle(store)
    assert store.compactor.passes == 0
    assert store.compactor.failures == 0
    assert names(partition) == sorted(each.path.name.lstrip("0") for each in partition.segments)
    assert await read_from(partition, first) == [each for each in stored if each.offset >= first]
    await store.aclose()


async def test_a_segment_that_retention_takes_from_a_pass_is_no_failure(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk, retention=Retention(is_stream=True))
    fill(partition, 10)
    await passed(store)
    arrived, released = disk.hold("open", f"{5:020d}.log")
    partition.retain(COMPACT)
    store.compactor.look(partition)
    await asyncio.to_thread(arrived.wait, 30)
    partition.retain(replace(COMPACT, bytes_max=partition.segments[-1].size + 1))
    partition.expire()
    await asyncio.get_running_loop().run_in_executor(store._flusher, str)
    assert not (partition.directory / f"{5:020d}.log").exists()
    released.set()
    await idle(store)
    assert (store.compactor.passes, store.compactor.failures) == (0, 0)
    assert partition.compaction_failure == ""
    assert store.compactor._logs[partition].retry_at > 0.0  # not at once
    await store.aclose()


@pytest.mark.parametrize("operation", ["here.index", "here.log"])
async def test_a_rule_that_is_removed_during_a_pass_is_not_carried_out(
    data: Path, disk: WatchedDisk, operation: str
) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 10)
    opening = (
        operation == "here.index"
    )  # the pass writes it, or the flusher's thread gives it its name
    arrived, released = disk.hold("open" if opening else "rename", operation)
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    store.change_partition(partition, Retention(is_stream=True), None)
    released.set()
    await idle(store)
    assert await read_from(partition, 0) == stored
    assert not [name for name in names(partition) if ".1." in name]
    assert (store.compactor.passes, store.compactor.failures) == (0, 0)
    await store.aclose()


async def test_damage_that_is_found_during_a_pass_stops_it(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 10)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    files = [each.path.name.lstrip("0") for each in partition.segments]
    segment = partition.segments[1]
    partition.quarantine_segment(segment, SegmentDamaged(segment.path, 0, "bad sector"))
    released.set()
    await idle(store)
    assert names(partition) == sorted(files)
    assert (store.compactor.passes, store.compactor.failures) == (0, 0)
    await store.aclose()


async def test_compression_goes_on_with_compacted_segments(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk, compression="zstd")
    stored = fill(partition, 10)
    await passed(store)
    assert any(name.endswith(".1.zlog") for name in names(partition))
    assert folded(await read_from(partition, 0)) == folded(stored)
    stored += fill(partition, 30)
    await passed(store)
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()
    store, partition = start_compacted(data, disk, epoch=2, compression="zstd")
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()


async def test_a_pass_goes_on_when_its_segment_is_compressed(
    data: Path, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_up_to(8_000, monkeypatch)
    store, partition = start_compacted(data, disk, compression="zstd")
    for key in range(200):
        publish(partition, (f"key {key}", PAD))
    await passed(store)
    placed = [
        path.suffix
        for event, path in disk.events
        if event == "rename" and is_compacted(path) and path.suffix in (".log", ".zlog")
    ]
    assert placed == [".log", ".zlog"] * (len(placed) // 2)
    assert len(placed) > 4
    await store.aclose()


async def test_a_pass_needs_room_for_a_segment_that_grows(
    data: Path, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_up_to(1, monkeypatch)
    store, partition = start_compacted(data, disk)
    needed: list[int] = []
    store.compactor._check_space = needed.append
    for number in range(60):
        publish(partition, *((f"{number} {key}" if key % 2 else "", b"") for key in range(40)))
    await flushed(store)
    before = max(each.size for each in partition.sealed_segments())
    await idle(store)
    after = max(each.size for each in partition.sealed_segments())
    assert before < after < 3 * before == needed[0]
    await store.aclose()


async def test_the_program_compacts_as_a_pass_in_this_process(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    store.compactor.begin = CompactionProcess.start
    stored = fill(partition, 10)
    await passed(store)
    assert (store.compactor.passes, partition.compaction_failure) == (1, "")
    left = await read_from(partition, 0)
    assert len(left) < len(stored)
    assert folded(left) == folded(stored)
    await store.aclose()


async def test_the_program_says_why_it_fails(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    store.compactor.begin = CompactionProcess.start
    fill(partition, 10)
    (data / "compacting").write_bytes(b"no folder")
    await passed(store)
    assert store.compactor.failures == 1
    assert "compacting" in partition.compaction_failure
    await store.aclose()


async def test_a_stop_ends_the_program(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    store.compactor.begin = CompactionProcess.start
    stored = fill(partition, 10)
    await flushed(store)
    assert store.compactor._working
    await store.aclose()
    assert store.compactor.failures == 0
    store, partition = start_compacted(data, disk, epoch=2)
    await idle(store)
    assert folded(await read_from(partition, 0)) == folded(stored)
    await store.aclose()
