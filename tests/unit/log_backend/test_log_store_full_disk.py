"""A disk that fills up: what finds no room stays in memory and in the journal, and is tried again."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.waiting import WAIT_SECONDS, until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    MIB,
    append,
    content,
    crash,
    durable,
    fill_journal_file,
    flushed,
    numbered,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.watched_disk import WatchedDisk, recycled

from routelog.log_backend.doors.ballast import CHANGE_BYTES, METADATA_BYTES
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.log_store import LogOptions
from routelog.log_backend.metadata.metadata import Change

CAPACITY = 64 * MIB
OPTIONS = LogOptions(
    journal_file_bytes=MIB, journal_files_max=3, segment_bytes=64 * 1024, flush_seconds=3600
)
TINY_SEGMENTS = replace(OPTIONS, segment_bytes=16_000)


class SmallDiskStore:
    """A store on a small disk, and why its publishers wait."""

    def __init__(self, data: Path, options: LogOptions = OPTIONS) -> None:
        self.data = data
        self.disk = WatchedDisk()
        self.disk.capacity = CAPACITY
        self.store, (self.partition,) = start_store(data, options=options, disk=self.disk)
        self.reasons: list[frozenset[str]] = []
        self.failures: list[Exception] = []
        self.store.pressures.on_change = self.reasons.append
        self.store.on_failure = self.failures.append

    @property
    def blocked(self) -> bool:
        return bool(self.reasons) and bool(self.reasons[-1])

    @property
    def stalled(self) -> bool:
        """The journal has no room, and none in sight."""
        return self.store.journal._has_no_room() and not self.store.journal.supply.making

    def leave(self, free: int) -> None:
        """Somebody else fills the disk but for this."""
        self.disk.others = 0
        self.disk.others = self.disk.free_bytes(self.data) - free

    def empty(self) -> None:
        """Somebody else removes what he had written."""
        self.disk.others = 0


@pytest.fixture
async def node(data: Path) -> AsyncIterator[SmallDiskStore]:
    node = SmallDiskStore(data)
    yield node
    node.disk.repair()
    node.empty()
    async with asyncio.timeout(WAIT_SECONDS):
        await node.store.aclose()
    assert not node.failures


Obstacle = Callable[[SmallDiskStore], None]


def no_room(node: SmallDiskStore) -> None:
    node.leave(METADATA_BYTES - 1)


def full_at_once(node: SmallDiskStore) -> None:
    node.disk.fail("allocate", "*.log", errno.ENOSPC)


def over_quota(node: SmallDiskStore) -> None:
    node.disk.fail("allocate", "*.log", errno.EDQUOT)


def no_descriptor(node: SmallDiskStore) -> None:
    node.disk.fail("open", "*.log", errno.EMFILE)


@pytest.fixture(params=[no_room, full_at_once, over_quota, no_descriptor])
def obstacle(request: pytest.FixtureRequest) -> Obstacle:
    return request.param


async def test_a_flush_that_finds_no_room_loses_nothing_and_is_done_when_there_is_some(
    node: SmallDiskStore, obstacle: Obstacle
) -> None:
    await durable(node.store, append(node.partition, 3))
    await flushed(node.store)
    await durable(node.store, append(node.partition, 2))
    (path,) = (node.data / "logs").rglob("*.log")
    before = path.read_bytes()
    obstacle(node)
    await flushed(node.store)
    assert node.reasons[-1] == {"files" if obstacle is no_descriptor else "disk"}
    assert path.read_bytes() == before
    assert await unsettled(node.partition) == numbered(*range(5))
    await durable(node.store, append(node.partition))
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(*range(6))
    node.disk.repair()
    node.empty()
    await until(lambda: not node.blocked)
    assert node.partition.unflushed_bytes == 0
    assert path.read_bytes()[: len(before)] == before != path.read_bytes()


async def test_a_segment_that_was_only_begun_is_gone_again(node: SmallDiskStore) -> None:
    await durable(node.store, append(node.partition, 3))
    full_at_once(node)
    await flushed(node.store)
    assert node.blocked
    assert list((node.data / "logs").rglob("*.log")) == []
    assert await unsettled(node.partition) == numbered(0, 1, 2)


async def test_writes_that_were_done_before_the_disk_was_full_stay(node: SmallDiskStore) -> None:
    for _ in range(10):  # a segment for every three
        await durable(node.store, node.partition.append(records([b"x" * 20_000]), waited=True))
    full = "*0000000006.log"
    node.disk.fail("allocate", full, errno.ENOSPC)
    await flushed(node.store)
    paths = sorted((node.data / "logs").rglob("*.log"))
    assert [int(path.stem) for path in paths] == [0, 3]
    assert [segment.base_offset for segment in node.partition.segments] == [0, 3]
    assert node.partition.unflushed_bytes > 4 * 20_000
    assert len(await unsettled(node.partition)) == 10
    left = await crash(node.store, node.data)
    assert len(await content(left)) == 10
    node.disk.repair()
    await until(lambda: not node.blocked)
    assert [segment.base_offset for segment in node.partition.segments] == [0, 3, 6, 9]
    assert node.disk.count("allocate", "*0000000000.log") == 1


async def test_with_ballast_what_consumers_are_done_with_goes_from_a_disk_without_a_page_left(
    data: Path,
) -> None:
    node = SmallDiskStore(data, replace(OPTIONS, ballast_bytes=MIB))
    await durable(node.store, node.partition.append(records([b"x" * 100_000] * 3), waited=True))
    await durable(node.store, append(node.partition))
    await node.store.checkpoints.take()
    await until(lambda: node.store.journal.supply.ready and not node.store.journal.supply.making)
    node.leave(0)
    await until(lambda: node.blocked)
    node.partition.open_cursor().settle(0, 3)
    node.partition.release()
    await until(lambda: node.disk.count("remove", "*.log") == 1)
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(3)
    await node.store.aclose()


async def test_a_change_of_metadata_gets_room_from_the_ballast(data: Path) -> None:
    node = SmallDiskStore(data, replace(OPTIONS, ballast_bytes=MIB))
    await durable(node.store, append(node.partition))
    # A file of the journal takes room, too
    await until(lambda: not node.store.journal.supply.making)
    node.leave(0)
    node.store.metadata.apply([Change(b"key", b"value")])
    assert node.disk.free_bytes(node.data) >= CHANGE_BYTES
    node.empty()
    await node.store.aclose()


async def test_a_checkpoint_that_finds_no_room_keeps_its_journal_file_until_there_is_some(
    node: SmallDiskStore, obstacle: Obstacle
) -> None:
    obstacle(node)
    await fill_journal_file(node.store, node.partition)
    await until(lambda: node.blocked)
    assert not recycled(node.disk)
    bodies = await unsettled(node.partition)
    left = await crash(node.store, node.data)
    assert await content(left) == bodies
    node.disk.repair()
    node.empty()
    await until(lambda: recycled(node.disk) and not node.blocked)
    assert await unsettled(node.partition) == bodies


async def test_settlements_need_no_room_and_make_some(node: SmallDiskStore) -> None:
    await durable(node.store, node.partition.append(records([b"x" * 100_000] * 3), waited=True))
    await durable(node.store, append(node.partition))
    await flushed(node.store)
    node.leave(CHANGE_BYTES)
    await until(lambda: node.blocked)
    node.partition.open_cursor().settle(0, 3)
    node.partition.release()
    await until(lambda: node.disk.count("remove", "*.log") == 1)
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(3)


async def test_on_a_disk_without_a_page_left_nothing_is_stored_and_segments_go_later(
    node: SmallDiskStore,
) -> None:
    # RocksDB takes nothing more once a write of it has failed.
    await durable(node.store, node.partition.append(records([b"x" * 100_000] * 3), waited=True))
    await durable(node.store, append(node.partition))
    await node.store.checkpoints.take()
    await until(lambda: node.store.journal.supply.ready and not node.store.journal.supply.making)
    node.leave(0)
    await until(lambda: node.blocked)
    revision = node.store.metadata.revision
    node.partition.open_cursor().settle(0, 3)
    node.partition.release()
    await until(lambda: node.store._flusher.removal.waits_for_room)
    assert node.store.metadata.revision == revision
    assert node.disk.count("remove", "*.log") == 0
    await durable(node.store, append(node.partition))  # and the settlements with it
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(3, 4)
    node.empty()
    await until(lambda: node.disk.count("remove", "*.log") == 1)
    left = await crash(node.store, node.data, "later")
    assert await content(left) == numbered(3, 4)


async def test_a_disk_that_others_fill_during_a_checkpoint_gets_no_snapshots(
    node: SmallDiskStore,
) -> None:
    await durable(node.store, append(node.partition, 3))
    # Each journal file is named in the metadata
    await until(lambda: node.store.journal.supply.ready)
    revision = node.store.metadata.revision
    written, go_on = node.disk.hold("write", "*.log")
    checkpoint = asyncio.ensure_future(node.store.checkpoints.take())
    await until(written.is_set)
    node.leave(0)
    go_on.set()
    await checkpoint
    assert node.blocked
    assert node.store.metadata.revision == revision
    assert node.partition.unflushed_bytes == 0
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(0, 1, 2)
    node.empty()
    await until(lambda: not node.blocked)
    await node.store.checkpoints.take()
    assert node.store.metadata.revision > revision


async def test_a_full_journal_goes_on_when_consumers_have_taken_what_it_holds(data: Path) -> None:
    node = SmallDiskStore(data)
    node.leave(METADATA_BYTES - MIB)
    positions: list[int] = []
    for _ in range(6):  # more than its files hold
        positions.append(node.partition.append(records([b"x" * 900_000]), waited=True))
        await until(lambda: node.store.journal.durable == positions[-1] or node.stalled)
    assert node.blocked
    assert node.store.journal.durable < positions[-1]
    node.partition.open_cursor().settle(0, 10)
    node.partition.release()
    node.leave(METADATA_BYTES)
    await durable(node.store, positions[-1])
    node.empty()
    await until(lambda: not node.blocked)
    await node.store.aclose()
    assert not node.failures
    assert await content(data) == []


async def test_a_block_larger_than_a_journal_file_waits_for_room(node: SmallDiskStore) -> None:
    await durable(node.store, append(node.partition))
    node.leave(2 * MIB)
    large = node.partition.append(records([b"x" * 3 * MIB]), waited=True)
    later = append(node.partition)
    await until(lambda: node.store.journal.refused)
    assert node.blocked
    assert node.store.journal.durable < large
    left = await crash(node.store, node.data)
    assert await content(left) == numbered(0)
    node.empty()
    await durable(node.store, later)
    await until(lambda: not node.blocked)
    left = await crash(node.store, node.data, "later")
    assert [offset for offset, _ in await content(left)] == [0, 1, 2]


async def test_a_journal_file_that_was_in_the_making_is_no_room_for_a_larger_block(
    node: SmallDiskStore,
) -> None:
    await durable(node.store, append(node.partition))
    await until(lambda: node.store.journal.supply.ready)
    being_made, make = node.disk.hold("fill", "*.new")
    _, grow = node.disk.hold("allocate", "*.journal")
    large = node.partition.append(records([b"x" * 3 * MIB]), waited=True)
    await until(being_made.is_set)  # none is made any more when the disk is seen to be low
    node.leave(2 * MIB)
    grow.set()
    await until(lambda: node.store.journal.refused)
    make.set()
    await until(lambda: not node.store.journal.supply.making)
    assert node.store.journal.refused
    assert node.blocked
    assert node.store.journal.durable < large


async def test_a_journal_file_that_finds_no_room_is_made_when_there_is_some(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    disk.fail("allocate", "*.new", errno.ENOSPC)
    store, (partition,) = start_store(data, options=OPTIONS, disk=disk)
    reasons: list[frozenset[str]] = []
    store.pressures.on_change = reasons.append
    position = append(partition, 2)
    await until(lambda: reasons)
    assert reasons == [{"disk"}]
    assert list((data / "journal").iterdir()) == []
    assert store.journal.durable < position
    disk.repair()
    await durable(store, position)
    await until(lambda: not reasons[-1])
    await store.aclose()
    assert await content(data) == numbered(0, 1)


async def test_a_followed_store_that_is_started_on_a_full_disk_goes_on(data: Path) -> None:
    options = replace(OPTIONS, journal_file_bytes=8 * MIB, is_followed=True)
    node = SmallDiskStore(data, options)
    for epoch in (2, 3):  # with a file made ahead, and without
        await durable(node.store, append(node.partition, 3))
        await until(lambda: not node.store.journal.supply.making)
        await node.store.aclose()
        node.leave(6 * MIB)  # for segments, but for no file of the journal
        node.store, (node.partition,) = start_store(
            data, options=options, disk=node.disk, epoch=epoch
        )
        await durable(node.store, append(node.partition, 3))
    node.empty()
    await node.store.aclose()


async def test_a_file_made_ahead_is_known_before_it_has_blocks(data: Path) -> None:
    store, (partition,) = start_store(data, options=OPTIONS)
    await durable(store, append(partition, 3))
    await until(partial(bool, store.journal.supply.ready))
    number = store.journal.supply.ready[-1].mark.number
    JournalExtent(store.metadata).named(number - 1)  # as a fault behind its making leaves it
    await store.aclose()
    store, _ = start_store(data, options=OPTIONS, epoch=2)
    assert JournalExtent(store.metadata).last == number
    await store.aclose()


async def test_starts_without_a_write_leave_no_more_files(data: Path) -> None:
    for epoch in range(1, 6):
        store, (partition,) = start_store(
            data, options=replace(OPTIONS, is_followed=True), epoch=epoch
        )
        if epoch == 1:
            await durable(store, append(partition, 3))
        supply = store.journal.supply
        await until(partial(bool, supply.ready))
        await store.aclose()
    assert len([*(data / "journal").iterdir()]) == 2


async def test_a_low_disk_gets_no_more_journal_files_than_are_needed(data: Path) -> None:
    node = SmallDiskStore(data)
    await until(lambda: node.disk.count("fill", "*.new") == 1)
    node.leave(CAPACITY // 8)
    await until(lambda: node.blocked)
    for _ in range(3):
        await fill_journal_file(node.store, node.partition)
        node.partition.open_cursor().settle(0, node.partition.next_offset)
        node.partition.release()
    await until(lambda: recycled(node.disk))
    assert node.disk.count("fill", "*.new") == 2
    node.empty()
    await node.store.aclose()


async def test_a_clean_stop_on_a_full_disk_ends_and_loses_nothing_durable(data: Path) -> None:
    node = SmallDiskStore(data)
    await durable(node.store, append(node.partition, 3))
    node.leave(0)
    await node.store.aclose()
    assert not node.failures
    assert await content(data) == numbered(0, 1, 2)


async def test_a_clean_stop_with_no_room_for_what_waits_ends(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    disk.fail("allocate", "*.new", errno.ENOSPC)
    store, (partition,) = start_store(data, options=OPTIONS, disk=disk)
    append(partition, 2)
    await until(lambda: disk.failed)
    disk.fail("allocate", "*.log", errno.ENOSPC)
    await store.aclose()
    assert await content(data) == []


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_full_disk_that_shows_after_the_space_was_taken_is_final(
    data: Path, operation: str
) -> None:
    node = SmallDiskStore(data)
    await durable(node.store, append(node.partition, 3))
    node.disk.fail(operation, "*.log", errno.ENOSPC)
    await node.store.checkpoints.take()
    assert len(node.failures) == 1
    node.disk.repair()
    await node.store.aclose()
    assert await content(data) == numbered(0, 1, 2)


async def test_a_segment_whose_index_finds_no_room_is_not_followed(node: SmallDiskStore) -> None:
    # Without an index nobody would miss the segment behind it.
    node.disk.fail("allocate", "*.index", errno.ENOSPC)
    for _ in range(6):
        await durable(node.store, node.partition.append(records([b"x" * 20_000]), waited=True))
    await flushed(node.store)
    assert node.blocked
    assert len(list((node.data / "logs").rglob("*.log"))) <= 1
    left = await crash(node.store, node.data)
    assert len(await content(left)) == 6
    node.disk.repair()
    node.store._disk_pressure.looked()
    await until(lambda: not node.blocked)
    segments = list((node.data / "logs").rglob("*.log"))
    assert len(segments) == 2
    assert len(list((node.data / "logs").rglob("*.index"))) == len(segments) - 1


async def test_publishers_wait_for_what_was_promised_before_the_disk_is_full(data: Path) -> None:
    node = SmallDiskStore(data)
    reserve = CAPACITY // 8
    assert node.store.space.reserve.size == reserve
    node.leave(reserve + 2 * MIB)
    await durable(node.store, node.partition.append(records([b"x" * 900_000]), waited=True))
    assert not node.blocked
    for _ in range(2):
        node.partition.append(records([b"x" * 900_000]), waited=True)
    await until(lambda: node.blocked)
    assert node.reasons == [{"disk"}]
    await node.store.aclose()


async def test_a_store_on_a_low_disk_says_so_at_its_start(data: Path) -> None:
    disk = WatchedDisk()
    disk.capacity = CAPACITY
    disk.others = CAPACITY - CAPACITY // 8
    store = open_store(data, OPTIONS, disk)
    reasons: list[frozenset[str]] = []
    store.pressures.on_change = reasons.append
    store.start(1)
    assert reasons == [{"disk"}]
    await store.aclose()


async def test_a_checkpoint_of_settlements_alone_is_not_begun_without_room_for_metadata(
    node: SmallDiskStore,
) -> None:
    await durable(node.store, append(node.partition, 3))
    await node.store.checkpoints.take()
    await until(lambda: node.store.journal.supply.ready and not node.store.journal.supply.making)
    node.leave(METADATA_BYTES - 1)
    node.partition.open_cursor().settle(0, 2)
    revision = node.store.metadata.revision
    await node.store.checkpoints.take()
    assert node.blocked
    assert node.store.metadata.revision == revision


async def left_with_an_empty_segment(data: Path) -> Path:
    """What a crash leaves that comes between allocation and write of a new segment's first batch."""
    store, (partition,) = start_store(data, options=TINY_SEGMENTS, compression="zstd")
    for _ in range(4):
        await durable(store, partition.append(records([b"x" * 7_000]), waited=True))
    partition.open_cursor().settle(2, 3)
    await durable(store, append(partition))
    await flushed(store)
    left = await crash(store, data)
    await store.aclose()
    (newest,) = (left / "logs").rglob("*.log")  # the one before is compressed
    newest.write_bytes(bytes(100))
    return left


@pytest.mark.parametrize("obstacle", [no_room, full_at_once])
async def test_an_empty_segment_that_finds_no_room_leaves_the_one_before_it_sealed(
    data: Path, obstacle: Obstacle
) -> None:
    left = await left_with_an_empty_segment(data)
    node = SmallDiskStore(left, TINY_SEGMENTS)
    obstacle(node)
    await until(lambda: node.blocked)
    node.partition.open_cursor().settle(3, 4)
    node.partition.release()
    node.disk.repair()
    node.empty()
    await until(lambda: not node.blocked and not node.partition.unflushed_bytes)
    node.partition.evict(MIB)
    assert [offset for offset, _ in await unsettled(node.partition)] == [0, 1, 4]
    await node.store.checkpoints.take()
    again = await crash(node.store, left, "again")
    await node.store.aclose()
    assert [offset for offset, _ in await content(again)] == [0, 1, 4]


async def test_an_empty_segment_whose_file_is_gone_is_not_called_synced(data: Path) -> None:
    left = await left_with_an_empty_segment(data)
    node = SmallDiskStore(left, TINY_SEGMENTS)
    full_at_once(node)
    await until(lambda: node.blocked)
    node.partition.open_cursor().settle(3, 5)
    node.partition.release()
    node.disk.repair()
    await node.store.checkpoints.take()
    again = await crash(node.store, left, "again")
    await node.store.aclose()
    assert [offset for offset, _ in await content(again)] == [0, 1]
