import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import bodies_of, records
from unit.log_backend.open_store import (
    QUIET,
    crash,
    durable,
    flushed,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend.log_store import LogOptions, LogStore
from routelog.log_backend.partitions.log_end import PartitionClosed
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.retention import Retention

HOUR = 3_600_000_000

OPTIONS = LogOptions(
    journal_file_bytes=QUIET.journal_file_bytes,
    segment_bytes=4096,
    memory_tail_bytes=10_000,
    flush_seconds=3600,
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LogStore]:
    store, _ = start_store(tmp_path / "data", options=OPTIONS)
    yield store
    await store.aclose()


@pytest.fixture
def partition(store: LogStore) -> PartitionLog:
    return store.partitions[1]


def append(
    partition: PartitionLog, count: int = 1, size: int = 0, *, persistent: bool = True
) -> None:
    first = partition.next_offset
    bodies = [b"%d" % offset + b"x" * size for offset in range(first, first + count)]
    partition.append(records(bodies, persistent=persistent))


def bodies_at(partition: PartitionLog, offset: int) -> list[bytes]:
    batch = partition.read(offset)
    return [] if batch is None else bodies_of(batch)


def settle(partition: PartitionLog, first: int, end: int) -> None:
    partition.open_cursor().settle(first, end)
    partition.release()


async def test_offsets_follow_each_other_and_are_readable_at_once(partition: PartitionLog) -> None:
    append(partition, 3)
    append(partition, 2)
    assert partition.next_offset == 5
    assert bodies_at(partition, 1) == [b"0", b"1", b"2"]
    assert bodies_at(partition, 4) == [b"3", b"4"]
    assert partition.read(5) is None
    assert not partition.needs_load(5)


async def test_only_persistent_records_of_durable_partitions_get_a_position(
    store: LogStore, partition: PartitionLog
) -> None:
    transient = store.open_partition(2, "/", "transient", 0, durable=False)
    assert partition.append(records([b""])) > 0
    assert partition.append(records([b""], persistent=False)) == 0
    assert transient.append(records([b""])) == 0


async def test_batches_carry_the_leader_epoch(store: LogStore, partition: PartitionLog) -> None:
    append(partition)
    store.intake.leader_epoch = 7
    append(partition)
    epochs = [batch.leader_epoch for batch in map(partition.read, (0, 1)) if batch is not None]
    assert epochs == [1, 7]


async def test_one_payload_may_be_in_several_partitions(
    store: LogStore, partition: PartitionLog
) -> None:
    other = store.open_partition(2, "/", "other", 0, durable=True)
    append(other, 3)
    shared = records([b"shared"])
    partition.append(shared)
    other.append(shared)
    await flushed(store)
    assert bodies_at(partition, 0) == bodies_at(other, 3) == [b"shared"]


async def test_a_closed_partition_takes_nothing(store: LogStore, partition: PartitionLog) -> None:
    append(partition, 3)
    store.close_partitions(partition)
    with pytest.raises(PartitionClosed):
        append(partition)
    assert partition.read(0) is None
    assert partition.tail_bytes() == 0
    partition.load(0, lambda: pytest.fail("it is closed"))
    await flushed(store)


# Settling


async def test_what_all_cursors_have_settled_leaves_memory(partition: PartitionLog) -> None:
    for _ in range(4):
        append(partition, 2)
    second = partition.open_cursor(1)
    settle(partition, 0, 6)
    assert partition.low_water() == 0
    assert bodies_at(partition, 0) == [b"0", b"1"]
    second.settle(0, 5)
    partition.release()
    assert partition.low_water() == 5
    assert bodies_at(partition, 0) == [b"4", b"5"]


async def test_what_was_settled_before_the_flush_is_never_written(
    store: LogStore, partition: PartitionLog
) -> None:
    for _ in range(4):
        append(partition, 2)
    settle(partition, 2, 6)
    settle(partition, 7, 8)
    await flushed(store)
    (segment,) = partition.segments
    size = records([b"0", b"1"]).batch_bytes
    assert segment.path.stat().st_size == 2 * size
    assert partition.next_offset == 8
    settle(partition, 0, 8)
    append(partition, 2)
    settle(partition, 8, 10)
    await flushed(store)
    assert segment.path.stat().st_size == 2 * size


async def test_settled_segments_are_deleted_with_their_indexes(
    store: LogStore, partition: PartitionLog
) -> None:
    for _ in range(10):
        append(partition, 2, 500)
    await flushed(store)
    assert len(partition.segments) > 2
    first, last = partition.segments[0], partition.segments[-1]
    settle(partition, 0, first.end_offset - 1)
    await flushed(store)
    assert first.path.exists()
    settle(partition, 0, last.base_offset)
    append(partition)
    await flushed(store)
    names = {path.name for path in partition.directory.iterdir()}
    assert names == {last.path.name, "PARTITION"}


async def test_segments_stay_for_their_retention(tmp_path: Path) -> None:
    hour = 3_600_000_000
    store, (partition,) = start_store(tmp_path / "kept", retention=Retention(hour))
    now = store.now()
    for age in (2 * hour, hour // 2):
        partition.append(records([b"x"], time=now - age))
        settle(partition, 0, partition.next_offset)
    await flushed(store)
    assert len(partition.segments) == 1  # of two records, and the last is young
    assert partition.needs_load(0)
    assert len(await store.load(partition.segments[0], 0)) == 2
    partition.segments[0].written_at = None  # as after a restart
    partition.release()
    assert len(partition.segments) == 1
    partition.retention = Retention(hour // 4)
    partition.release()
    assert partition.segments == []
    await store.aclose()


async def grow_by_a_wrong_clock(data: Path, *ages_in_hours: float) -> tuple[LogStore, PartitionLog]:
    """A stream of one-hour retention, a segment a record, whose clock was slow by so much."""
    options = LogOptions(flush_seconds=3600, segment_bytes=64)
    store, (partition,) = start_store(
        data, options=options, retention=Retention(is_stream=True, age_max=HOUR)
    )
    for age in ages_in_hours:
        time = store.now() - round(age * HOUR)
        position = partition.append(records([b"x" * 200], time=time), waited=True)
    await durable(store, position)
    await store.checkpoints.flush()
    partition.expire()
    return store, partition


async def test_what_came_while_the_clock_was_slow_is_as_old_as_it_is(tmp_path: Path) -> None:
    store, partition = await grow_by_a_wrong_clock(tmp_path / "data", 3, 3, 3, 3)
    assert len(partition.segments) == 4
    partition.segments[0].written_at -= 3601  # type: ignore[operator]
    partition.expire()
    assert len(partition.segments) == 3, "it is an hour old now"
    await store.aclose()


async def test_what_came_while_the_clock_was_fast_goes_in_time(tmp_path: Path) -> None:
    store, partition = await grow_by_a_wrong_clock(tmp_path / "data", -1000, -1000, 0)
    for segment in partition.segments[:2]:
        segment.written_at -= 3601  # type: ignore[operator]
    partition.expire()
    assert len(partition.segments) == 1
    await store.aclose()


async def test_after_a_restart_no_segment_is_older_than_the_one_before(tmp_path: Path) -> None:
    store, partition = await grow_by_a_wrong_clock(tmp_path / "data", 0.5, 3, 3, 3)
    times = [segment.last_time for segment in partition.segments]
    assert len(set(times)) == 1
    await store.aclose()
    store, (partition,) = start_store(
        tmp_path / "data", epoch=2, retention=Retention(is_stream=True, age_max=HOUR)
    )
    assert [segment.last_time for segment in partition.segments] == times
    partition.expire()
    assert len(partition.segments) == 4
    await store.aclose()


async def test_a_segment_is_as_young_as_the_youngest_in_it_and_its_times_are_found(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    rule = Retention(is_stream=True, age_max=HOUR)
    store, (partition,) = start_store(data, retention=rule)
    now = store.now()
    for age in (2, 0.5, 3, 0.25):
        body = b"x" * 5_000  # an entry of the index each
        partition.append(records([body], time=now - round(age * HOUR)), waited=True)
    await flushed(store)
    (segment,) = partition.segments
    assert segment.last_time == now - HOUR // 4
    assert [segment.offset_at(now - round(age * HOUR)) for age in (2.5, 0.5, 0.4)] == [0, 0, 2]
    await store.aclose()


# Flushing, eviction and cold reads


async def test_segments_roll_at_their_size(store: LogStore, partition: PartitionLog) -> None:
    for _ in range(12):
        append(partition, 1, 1000)
    append(partition, 1, 9000)
    append(partition, 1, 10)
    await flushed(store)
    sizes = [segment.path.stat().st_size for segment in partition.segments]
    assert all(size <= OPTIONS.segment_bytes for size in sizes[:-2])
    assert sizes[-2] > OPTIONS.segment_bytes
    ends = [segment.end_offset for segment in partition.segments]
    assert [segment.base_offset for segment in partition.segments] == [0, *ends[:-1]]
    for segment in partition.segments[:-1]:
        assert segment.path.with_suffix(".index").exists()


async def test_a_segment_rolls_before_its_offsets_outgrow_the_index(
    store: LogStore, partition: PartitionLog
) -> None:
    append(partition)
    partition.next_offset = 2**32 + 5
    append(partition)
    await flushed(store)
    bases = [segment.base_offset for segment in partition.segments]
    assert bases == [0, 2**32 + 5]


async def test_records_are_read_from_segments_when_memory_is_full(
    store: LogStore, partition: PartitionLog
) -> None:
    for _ in range(60):
        append(partition, 2, 500)
    await flushed(store)
    assert partition.tail_bytes() <= OPTIONS.memory_tail_bytes
    assert partition.needs_load(0)
    assert partition.read(0) is None
    assert not partition.needs_load(partition.next_offset - 1)
    found = await unsettled(partition)
    assert [offset for offset, _ in found] == list(range(120))
    assert all(body.startswith(b"%dx" % offset) for offset, body in found)


async def test_loads_at_the_same_time_share_one_read(
    store: LogStore, partition: PartitionLog
) -> None:
    for _ in range(60):
        append(partition, 2, 500)
    await flushed(store)
    done: list[int] = []
    for number in range(3):
        partition.load(0, lambda number=number: done.append(number))  # type: ignore[misc]
    assert len(partition._awaiting_load) == 3
    assert len(await unsettled(partition)) == 120
    assert done == [0, 1, 2]


async def test_a_flushed_batch_stays_in_memory_while_there_is_room(
    store: LogStore, partition: PartitionLog
) -> None:
    append(partition, 3)
    await flushed(store)
    assert partition.read(0) is not None
    append(partition, 2)
    assert bodies_at(partition, 4) == [b"3", b"4"]


async def test_transient_partitions_spill_only_when_memory_is_full(store: LogStore) -> None:
    spilled = store.open_partition(2, "/", "spilled", 0, durable=False)
    append(spilled, 2, 100)
    await flushed(store)
    assert not spilled.segments
    for _ in range(60):
        append(spilled, 2, 500, persistent=False)
    await flushed(store)
    assert spilled.segments
    assert "spill" in spilled.directory.parts
    assert [offset for offset, _ in await unsettled(spilled)] == list(range(122))


@pytest.mark.parametrize("flushed_at", [-1, 9, 14, 19, 24])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_no_record_of_a_time_is_passed_over_when_the_clock_was_set_back(
    tmp_path: Path, flushed_at: int, is_restarted: bool
) -> None:
    times = [*range(100, 200, 10), *range(50, 150, 10), *range(150, 250, 10)]
    store, (log,) = start_store(tmp_path / "data", options=OPTIONS, retention=Retention(0))
    for number, time in enumerate(times):
        log.append(records([bytes(1_000)], time=time))
        if number == flushed_at:
            await flushed(store)
            log.evict(10**9)
            if is_restarted:
                await store.aclose()
                store, (log,) = start_store(tmp_path / "data", options=OPTIONS)
    for time in range(0, 260, 5):
        first = next((at for at, each in enumerate(times) if each >= time), len(times))
        assert max(0, first - 5) <= log.offset_at(time) <= first, time
    await store.aclose()


async def test_a_time_is_found_in_segments_and_in_the_tail(tmp_path: Path) -> None:
    store, (log,) = start_store(tmp_path / "data", options=OPTIONS, retention=Retention(0))
    assert log.offset_at(0) == 0
    for number in range(40):
        log.append(records([bytes(1_000)], time=10 * number))
        if number == 29:
            await flushed(store)
            log.evict(10**9)
    assert log.offset_at(0) == 0
    assert [log.offset_at(time) for time in (300, 345, 390, 391)] == [30, 35, 39, 40]
    for time in range(0, 295, 5):
        assert (time + 9) // 10 - 5 <= log.offset_at(time) <= (time + 9) // 10
    assert [log.time_at(offset) for offset in (30, 39, 40)] == [300, 390, None]
    for offset in range(1, 30):
        assert 10 * (offset - 5) <= (log.time_at(offset) or 0) <= 10 * offset
    await store.aclose()


async def test_only_cursors_that_the_topology_knows_are_restored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, (log,) = start_store(data, options=OPTIONS, retention=Retention(0))
    append(log, 10)
    for number, end in ((1, 3), (2, 5)):
        log.open_cursor(number).settle(0, end)
    await store.checkpoints.take()
    log.cursors[1].settle(5, 6)  # only in the journal
    await durable(store, log.append(records([b"behind it"]), waited=True))
    left = await crash(store, data)
    await store.aclose()
    store = open_store(left, OPTIONS)
    log = store.open_partition(
        1, "/", "q", 0, durable=True, retention=Retention(0), cursors={2: 4, 7: 2}
    )
    store.recover()
    store.start(2)
    low_waters = {number: cursor.low_water for number, cursor in log.cursors.items()}
    assert low_waters == {0: 0, 2: 5, 7: 2}
    stored = {int.from_bytes(key[16:20], "big") for key, _ in store.metadata.scan(b"cursors/")}
    assert stored == {0, 2}
    assert store.cursor_removal(log, 2)
    await store.aclose()


async def test_what_is_on_its_way_to_a_segment_and_kept_stays_readable(tmp_path: Path) -> None:
    disk = WatchedDisk()
    store, (log,) = start_store(
        tmp_path / "data", options=OPTIONS, disk=disk, retention=Retention(2**60)
    )
    append(log, 2)
    await store.journal.drain()
    arrived, released = disk.hold("write", "*.log")
    flushing = asyncio.ensure_future(store.checkpoints.flush())
    await until(arrived.is_set)
    append(log, 2)
    settle(log, 0, 2)
    assert bodies_at(log, 0) == [b"0", b"1"]
    released.set()
    await flushing
    assert log.read(0) is None
    assert log.needs_load(0)
    assert bodies_at(log, 2) == [b"2", b"3"]
    await store.aclose()


async def test_a_segment_goes_although_its_index_cannot_be_deleted(tmp_path: Path) -> None:
    disk = WatchedDisk()
    store, (log,) = start_store(tmp_path / "data", options=OPTIONS, disk=disk)
    for _ in range(4):
        append(log, 1, 2_500)
    await flushed(store)
    disk.fail("remove", "*.index")
    path = log.segments[0].path
    settle(log, 0, log.segments[0].end_offset)
    await store.aclose()
    assert disk.failed == 1
    assert not path.exists()
    assert path.with_suffix(".index").exists()
