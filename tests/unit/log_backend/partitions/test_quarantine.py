"""Damage quarantines its partition: what lies before is read, nothing behind it, and appends go on."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    Bodies,
    append,
    crash,
    durable,
    flushed,
    numbered,
    start_store,
    unsettled,
)

from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.damage import Damage, load_damage
from routelog.log_backend.segments.retention import Retention

SMALL_SEGMENTS = LogOptions(journal_file_bytes=MIB, segment_bytes=400, flush_seconds=3600)


async def readable(partition: PartitionLog) -> Bodies:
    """What is handed out before the damage, in order."""
    cursor = partition.open_cursor()
    found = []
    offset = cursor.low_water
    while offset < min(partition.next_offset, partition.blocked_from):
        batch = partition.read(offset)
        if batch is None:
            if not partition.needs_load(offset):
                break
            loaded = asyncio.Event()
            partition.load(offset, loaded.set)
            async with asyncio.timeout(60):
                await loaded.wait()
            continue
        found.append((offset, batch.records.body(offset - batch.base_offset)))
        offset = cursor.settled.unsettled_from(offset + 1)
    return found


async def segments(data: Path, *, count: int = 6) -> list[Path]:
    """A partition of several segments, cleanly stopped; two batches of four records each."""
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(count * 2):
        append(partition, 4)
        await flushed(store)
    await store.aclose()
    return sorted((data / "logs").rglob("*.log"))


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:  # written anew, it would wait for the disk
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes((byte ^ 1,)))


@pytest.mark.parametrize("damage", ["cut", "header", "removed", "renamed", "emptied"])
async def test_a_damaged_sealed_segment_quarantines_its_partition_at_the_start(
    data: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    paths = await segments(data)
    assert len(paths) == 4
    path = paths[2]
    base = int(path.stem)
    before = path.read_bytes()
    if damage == "cut":
        path.write_bytes(before[:-1])
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "header":
        flip(path, 20)
        path.with_suffix(".index").unlink()
    elif damage == "removed":
        path.unlink()
    else:
        path.rename(path.with_stem(f"{base + 1:020d}"))
    left = {each: each.read_bytes() for each in (data / "logs").rglob("*.log")}
    store, (partition, other) = start_store(data, queues=("q", "other"), epoch=2)
    first = partition.blocked_from
    assert base <= first < int(paths[3].stem)
    assert await readable(partition) == numbered(*range(first))
    assert "quarantined: " in caplog.text
    assert path.name in caplog.text or paths[1].name in caplog.text
    next_offset = partition.next_offset
    assert next_offset == 48
    await durable(store, append(partition, 2))
    await durable(store, append(other, 1))
    await flushed(store)
    await store.aclose()
    del left[paths[-1]]  # it is well, so it goes on
    assert {each: each.read_bytes() for each in left} == left
    # It stays so, and the offsets go on.
    store, (partition, other) = start_store(data, queues=("q", "other"), epoch=3)
    assert (partition.blocked_from, partition.next_offset) == (first, next_offset + 2)
    assert await readable(partition) == numbered(*range(first))
    assert await unsettled(other) == numbered(0)
    await store.aclose()


async def test_a_cut_newest_segment_quarantines_although_a_new_one_follows(data: Path) -> None:
    paths = await segments(data)
    path = paths[-1]
    content = path.read_bytes()
    path.write_bytes(content[:0])
    for run in range(3):
        store, (partition,) = start_store(data, epoch=2 + run)
        assert partition.blocked_from == int(path.stem)
        assert partition.next_offset == 48 + run
        assert await readable(partition) == numbered(*range(int(path.stem)))
        await durable(store, append(partition, 1))
        await flushed(store)
        await store.aclose()
        assert path.read_bytes() == b""


async def test_a_payload_that_is_damaged_quarantines_when_it_is_read(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = await segments(data)
    path = paths[2]
    size = path.stat().st_size
    flip(path, size - 3)
    store, (partition,) = start_store(data, epoch=2)
    assert partition.damage.found == []
    found = await readable(partition)
    first = partition.blocked_from
    assert found == numbered(*range(first))
    (damage,) = partition.damage.found
    assert int(path.stem) <= first < damage.end <= int(paths[3].stem)
    assert (damage.file, damage.reason) == (path.name, "the payload fails its checksum")
    assert "quarantined: " in caplog.text
    assert not partition.needs_load(first)
    await store.aclose()
    store, (partition,) = start_store(data, epoch=3)
    assert partition.blocked_from == first
    await store.aclose()


async def test_a_damaged_partition_file_hands_out_nothing_and_deletes_nothing(data: Path) -> None:
    paths = await segments(data)
    owner = paths[0].with_name("PARTITION")
    for content in (b"", owner.read_bytes()[:-1], None):
        if content is None:
            owner.unlink()
        else:
            owner.write_bytes(content)
        store, (partition,) = start_store(data, epoch=2)
        assert partition.blocked_from == 0
        assert await readable(partition) == []
        assert all(path.exists() for path in paths)
        await store.aclose()


async def test_files_of_another_partition_are_still_removed(data: Path) -> None:
    paths = await segments(data)
    store, (_, partition) = start_store(data, queues=("z", "q"), epoch=2)
    await until(lambda: not paths[0].exists())
    assert partition.blocked_from > partition.next_offset
    await store.aclose()


async def test_damaged_index_files_are_built_again_with_a_warning(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = await segments(data)
    index = paths[1].with_suffix(".index")
    times = paths[2].with_suffix(".timeindex")
    before = index.read_bytes(), times.read_bytes()
    flip(index, 41)
    times.unlink()
    store, (partition,) = start_store(data, epoch=2)
    assert (index.read_bytes(), times.read_bytes()) == before
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert await unsettled(partition) == numbered(*range(48))
    await store.aclose()


async def test_damage_of_what_everybody_has_settled_blocks_nobody(data: Path) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(8):
        append(partition, 4)
    await flushed(store)
    base = partition.segments[0].base_offset
    partition.quarantine(Damage("x", 0, "a test", base, base + 4))
    assert partition.blocked_from == base
    partition.open_cursor().settle(base, base + 4)
    partition.release()
    assert partition.blocked_from > partition.next_offset
    await store.aclose()
    store, (partition,) = start_store(data, epoch=2)
    assert load_damage(store.metadata, 1).found == []
    await store.aclose()


async def test_a_read_error_blocks_until_the_restart_only(data: Path) -> None:
    await segments(data)
    store, (partition,) = start_store(data, epoch=2)
    path = partition.segments[1].path
    path.rename(path.with_suffix(".away"))
    assert len(await readable(partition)) == partition.segments[1].base_offset
    path.with_suffix(".away").rename(path)
    await store.aclose()
    store, (partition,) = start_store(data, epoch=3)
    assert len(await unsettled(partition)) == 48
    await store.aclose()


async def test_a_log_that_is_kept_stays_blocked_where_it_is_damaged(data: Path) -> None:
    keep = Retention(settled_age=10**15)
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS, retention=keep)
    for _ in range(8):
        append(partition, 4)
    await flushed(store)
    partition.open_cursor().settle(0, 32)
    partition.quarantine(Damage("x", 0, "a test", 4, 8))
    partition.release()
    assert partition.blocked_from == 4
    await store.aclose()


async def test_records_of_a_quarantined_partition_are_not_settled_by_recovery(data: Path) -> None:
    paths = await segments(data)
    flip(paths[2], 20)
    paths[2].with_suffix(".index").unlink()
    store, (partition,) = start_store(data, epoch=2)
    await durable(store, append(partition, 1))
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left, epoch=3)
    assert partition.open_cursor().low_water == 0
    assert partition.open_cursor().settled.count_from(0, 100) == 0
    partition.append(records([b"x"]))
    await store.aclose()


async def test_a_compressed_segment_whose_successor_was_torn_away_is_not_written_again(
    data: Path,
) -> None:
    compressing = replace(SMALL_SEGMENTS, compression="zstd")
    store, (partition,) = start_store(data, options=compressing)
    for _ in range(6):
        append(partition, 4)
        await flushed(store)
    await until(lambda: len(list((data / "logs").rglob("*.zlog"))) == 1)
    left = await crash(store, data)
    await store.aclose()
    newest = sorted((left / "logs").rglob("*.log"))[-1]
    newest.write_bytes(newest.read_bytes()[:40])
    for run in range(3):
        store, (partition,) = start_store(left, options=SMALL_SEGMENTS, epoch=2 + run)
        assert partition.blocked_from > partition.next_offset == 24 + 4 * run
        assert await unsettled(partition) == numbered(*range(24 + 4 * run))
        append(partition, 4)
        await flushed(store)
        await store.aclose()


@pytest.mark.parametrize("indexed", [False, True])
async def test_a_damaged_segment_is_not_taken_for_older_than_it_is(
    data: Path, indexed: bool
) -> None:
    young = Retention(is_stream=True, age_max=3_600_000_000)
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS, retention=young)
    for _ in range(8):
        partition.append(records([b"x"] * 4, time=store.now()))
        await flushed(store)
    await store.aclose()
    path = sorted((data / "logs").rglob("*.log"))[0]
    flip(path, 20)
    if not indexed:
        path.with_suffix(".index").unlink()
    store, (partition,) = start_store(data, epoch=2, options=SMALL_SEGMENTS, retention=young)
    assert partition.blocked_from == 0
    partition.expire()
    assert partition.segments[0].path == path
    assert path.exists()
    await store.aclose()
