import os
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
    flushed,
    numbered,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.doors.disk import DirectoryLocked
from routelog.log_backend.journal import journal
from routelog.log_backend.log_store import LogOptions, LogStore


async def test_records_and_settlements_survive_a_clean_restart(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 5)
    partition.open_cursor().settle(0, 2)
    partition.open_cursor().settle(3, 4)
    await store.aclose()
    for _ in range(2):
        assert await content(data) == numbered(2, 4)


async def test_records_and_settlements_survive_a_crash_once_the_journal_has_them(
    data: Path,
) -> None:
    store, (partition,) = start_store(data)
    append(partition, 5)
    partition.open_cursor().settle(1, 3)
    await durable(store, append(partition))
    left = await crash(store, data)
    await store.aclose()
    for _ in range(3):
        assert await content(left) == numbered(0, 3, 4, 5)


async def test_offsets_go_on_after_a_restart(data: Path) -> None:
    for run in range(4):
        store, (partition,) = start_store(data)
        assert partition.next_offset == run * 3
        await durable(store, append(partition, 3))
        partition.open_cursor().settle(0, partition.next_offset - run % 2)
        partition.release()
        if run < 2:
            await flushed(store)
        await store.aclose()


async def test_offsets_of_settled_records_are_not_given_again_after_a_crash(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 3, persistent=False)
    append(partition, 2)
    partition.open_cursor().settle(0, 5)
    partition.release()
    append(partition, 2, persistent=False)
    partition.open_cursor().settle(5, 7)
    store.journal.wake_later()
    await until(lambda: not store.checkpoints.with_state and idle(store))
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left)
    assert partition.next_offset == 7
    assert await unsettled(partition) == []
    await store.aclose()


def idle(store: LogStore) -> bool:
    return not store.journal._committing and not store.journal.groups.first.count


async def test_transient_records_end_with_the_run_and_persistent_ones_do_not(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 2)
    append(partition, 2, persistent=False)
    append(partition, 1)
    await flushed(store)
    append(partition, 2, persistent=False)
    await durable(store, append(partition, 1))
    left = await crash(store, data)
    await store.aclose()
    assert await content(left) == numbered(0, 1, 4, 7)
    assert await content(data) == numbered(0, 1, 4, 7)


async def test_what_is_in_journal_and_segment_is_there_once(data: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition, 3)
    await durable(store, append(partition, 2))
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left)
    assert await unsettled(partition) == numbered(0, 1, 2, 3, 4)
    append(partition)
    await flushed(store)
    left = await crash(store, left, "again")
    await store.aclose()
    assert await content(left) == numbered(0, 1, 2, 3, 4, 5)


async def test_removed_segments_whose_settlement_was_lost_leave_no_phantoms(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MARK_SECONDS", 3600)  # the mark is no commit that could be held
    disk = WatchedDisk()
    options = LogOptions(journal_file_bytes=MIB, segment_bytes=300, flush_seconds=3600)
    store, (partition,) = start_store(data, options=options, disk=disk)
    for _ in range(6):
        position = append(partition, 4)
    await durable(store, position)
    await flushed(store)
    arrived, released = disk.hold("sync", "*.journal")
    append(partition)
    await until(arrived.is_set)
    first, second, *_ = (segment.path for segment in partition.segments)
    partition.open_cursor().settle(0, partition.segments[0].end_offset)
    partition.release()
    await until(lambda: not first.exists())
    left = data.parent / "crashed"
    copy_of(data, left)
    released.set()
    await store.aclose()
    assert (left / second.relative_to(data)).exists()
    store, (partition,) = start_store(left)
    found = await unsettled(partition)
    settled = partition.open_cursor().settled.count_from(0, partition.next_offset)
    assert partition.next_offset - settled == len(found)
    assert found[-1] == (24, b"24")
    await store.aclose()


async def test_a_data_directory_has_one_owner(data: Path) -> None:
    store, _ = start_store(data)
    with pytest.raises(DirectoryLocked):
        open_store(data)
    await store.aclose()
    assert await content(data) == []


async def test_nothing_stays_open_after_closing(data: Path) -> None:
    await content(data)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        store, (partition,) = start_store(data)
        for _ in range(20):
            position = partition.append(records([b"x" * 200_000]), waited=True)
            await durable(store, position)
        partition.open_cursor().settle(0, partition.next_offset)
        await store.aclose()
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_spilled_segments_of_an_earlier_run_are_removed(data: Path) -> None:
    store, _ = start_store(data, options=LogOptions(memory_tail_bytes=1000, flush_seconds=3600))
    spilled = store.open_partition(2, "/", "s", 0, durable=False)
    for _ in range(50):
        append(spilled, 10)
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    assert list((left / "spill").rglob("*.log"))
    await content(left)
    assert not list((left / "spill").rglob("*.log"))
