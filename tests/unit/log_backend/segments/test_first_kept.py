"""The oldest segment of a log is missed when it is gone, and only then."""

from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.open_store import (
    SMALL,
    append,
    crash,
    durable,
    flushed,
    numbered,
    start_store,
    unsettled,
)
from unit.log_backend.partitions.test_quarantine import readable
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.first_kept import (
    expected_bases,
    first_kept_change,
    load_first_kept,
)

SEGMENTS = LogOptions(
    journal_file_bytes=SMALL.journal_file_bytes, segment_bytes=512, flush_seconds=3600
)


def test_what_is_stored_is_read_back_and_deleted(tmp_path: Path) -> None:
    metadata = MetadataStore.open(tmp_path)
    metadata.apply([first_kept_change(7, 1 << 40)])
    assert [key for key, _ in metadata.scan(b"kept/")] == [b"kept/" + bytes(7) + b"\x07"]
    assert load_first_kept(metadata, 7) == 1 << 40
    assert load_first_kept(metadata, 8) is None
    metadata.apply([first_kept_change(7, None)])
    assert load_first_kept(metadata, 7) is None
    metadata.close()


def test_the_first_segment_is_expected_though_it_is_gone() -> None:
    assert expected_bases([], None) == []
    assert expected_bases([5, 9], None) == [5, 9]
    assert expected_bases([5, 9], 5) == [5, 9]
    assert expected_bases([3, 5], 5) == [5]  # one that was to be removed is still there
    assert expected_bases([1, 3], 5) == [5]
    assert expected_bases([5, 9], 3) == [3, 5, 9]
    assert expected_bases([], 3) == [3]


async def filled(data: Path) -> tuple[LogStore, PartitionLog]:
    """A store whose partition has several segments, all synced."""
    store, (partition,) = start_store(data, options=SEGMENTS)
    for _ in range(24):
        await durable(store, append(partition, 2))
    await store.checkpoints.take()
    assert len(partition.segments) > 3
    return store, partition


async def test_the_oldest_segment_is_missed_with_its_offsets(data: Path) -> None:
    store, partition = await filled(data)
    second = partition.segments[1].base_offset
    await store.aclose()
    partition.segments[0].path.unlink()
    store, (partition,) = start_store(data, options=SEGMENTS, epoch=2)
    (damage,) = partition.damage.found
    assert (damage.file, damage.first, damage.end) == (f"{0:020d}.log", 0, second)
    assert damage.reason == "the file is missing"
    assert await readable(partition) == []
    # It ends as every quarantine does: when the records concerned are settled.
    partition.open_cursor().settle(0, second)
    partition.release()
    assert await unsettled(partition) == numbered(*range(second, 48))
    await store.aclose()
    store, (partition,) = start_store(data, options=SEGMENTS, epoch=3)
    assert partition.damage.found == []
    await store.aclose()


async def test_an_only_segment_is_missed(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 5))
    await store.aclose()
    for path in partition.directory.iterdir():
        path.unlink()
    store, (partition,) = start_store(data, epoch=2)
    (damage,) = partition.damage.found
    assert (damage.first, damage.end) == (0, 5)
    # Publishes go on behind it, over restarts.
    await durable(store, append(partition, 2))
    await store.aclose()
    store, (partition,) = start_store(data, epoch=3)
    assert [each.first for each in partition.damage.found] == [0]
    assert partition.next_offset == 7
    await store.aclose()


async def brought_back(data: Path) -> tuple[Path, list[Path], int]:
    """A copy of the data of a store that let its oldest segments go, as a power cut may leave them.

    Returns:
        It, the files of the segment that is there again, and where the log begins.
    """
    store, partition = await filled(data)
    first, _, third = (segment.base_offset for segment in partition.segments[:3])
    saved = {path.name: path.read_bytes() for path in partition.directory.glob(f"{first:020d}.*")}
    assert len(saved) == 3
    partition.open_cursor().settle(0, third)
    partition.release()
    oldest = data / f"logs/%2F/q-0/{third:020d}.log"
    await until(lambda: min(partition.directory.glob("*.log")) == oldest)
    left = await crash(store, data)
    await store.aclose()
    directory = left / "logs/%2F/q-0"
    for name, content in saved.items():
        (directory / name).write_bytes(content)
    return left, [directory / name for name in saved], third


async def test_what_a_power_cut_brings_back_of_what_was_let_go_goes_again(data: Path) -> None:
    left, files, begin = await brought_back(data)
    store, (partition,) = start_store(left, options=SEGMENTS, epoch=2)
    assert partition.damage.found == []
    assert partition.first_offset == begin
    assert await unsettled(partition) == numbered(*range(begin, 48))
    assert not any(path.exists() for path in files)
    await store.aclose()


async def test_what_was_let_go_and_cannot_be_removed_waits_for_the_next_start(
    data: Path, disk: WatchedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    left, files, begin = await brought_back(data)
    (needless,) = (path for path in files if path.suffix == ".log")
    disk.fail("remove", needless.name)
    store, (partition,) = start_store(left, options=SEGMENTS, epoch=2, disk=disk)
    assert f"{needless}: a segment that nobody needs is still there" in caplog.text
    assert [path for path in files if path.exists()] == [needless]
    assert partition.damage.found == []
    assert partition.first_offset == begin
    assert await unsettled(partition) == numbered(*range(begin, 48))
    await durable(store, append(partition, 2))
    await store.aclose()
    store, (partition,) = start_store(left, options=SEGMENTS, epoch=3)
    assert not needless.exists()
    assert await unsettled(partition) == numbered(*range(begin, 50))
    await store.aclose()


async def test_what_was_let_go_is_not_missed(data: Path) -> None:
    store, partition = await filled(data)
    third = partition.segments[2].base_offset
    partition.open_cursor().settle(0, third)
    partition.release()
    oldest = data / f"logs/%2F/q-0/{third:020d}.log"
    await until(lambda: min(partition.directory.glob("*.log")) == oldest)
    killed = await crash(store, data, "some-left")
    partition.open_cursor().settle(third, 48)
    partition.remove_settled_segments()
    await until(lambda: not list(partition.directory.glob("*.log")))
    emptied = await crash(store, data, "none-left")
    await store.aclose()
    for left, first in (killed, third), (emptied, None), (data, None):
        store, (partition,) = start_store(left, options=SEGMENTS, epoch=2)
        assert partition.first_kept == first
        assert partition.damage.found == []
        await store.aclose()


async def test_a_segment_that_no_checkpoint_covers_is_not_promised(data: Path) -> None:
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 5))
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    (segment,) = left.glob("logs/*/*/*.log")
    segment.unlink()  # as a power cut may
    store, (partition,) = start_store(left, epoch=2)
    assert partition.damage.found == []
    assert await unsettled(partition) == numbered(*range(5))
    await store.aclose()
