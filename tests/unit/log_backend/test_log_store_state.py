"""What cursors know besides what is settled, over restarts, crashes and checkpoints."""

import asyncio
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    append,
    crash,
    durable,
    fill_journal_file,
    numbered,
    open_store,
    start_store,
    unsettled,
)

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_block import HandedOut, Reason, Settlement
from routelog.log_backend.journal.journal_files import JournalFiles
from routelog.log_backend.journal.journal_reader import whole_blocks
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.settlement.cursor_snapshot import SnapshotDamaged, partition_prefix


async def committed(store: LogStore, partition: PartitionLog) -> None:
    """Wait until all that cursors know is in the journal."""
    await durable(store, append(partition))
    await until(lambda: not store.checkpoints.with_state and not store.journal._committing)


def counts(cursor: Cursor, end: int) -> list[int]:
    return [cursor.delivery_counts[offset] for offset in range(end)]


async def worked(data: Path, *, checkpoint: bool) -> tuple[LogStore, PartitionLog]:
    """A store with ten messages: eight handed out, some again, some settled."""
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 10))
    cursor = partition.open_cursor()
    cursor.hand_out(4)
    cursor.redeliver(1, 3)
    if checkpoint:
        await fill_journal_file(store, partition)
        await until(lambda: not store._background.tasks)
    cursor.hand_out(8)
    cursor.redeliver(2, 4)
    cursor.settle(3, 6, Reason.REJECTED)
    await committed(store, partition)
    return store, partition


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("killed", [False, True])
async def test_marks_and_counts_outlive_a_restart(
    tmp_path: Path, checkpoint: bool, killed: bool
) -> None:
    data = tmp_path / "data"
    store, _ = await worked(data, checkpoint=checkpoint)
    left = await crash(store, data) if killed else data
    await store.aclose()
    for epoch in range(2, 5):
        store, (partition,) = start_store(left, epoch=epoch)
        cursor = partition.open_cursor()
        assert cursor.handed_out == 8
        assert [offset for offset in range(10) if offset in cursor.settled] == [3, 4, 5]
        assert [cursor.delivery_counts[offset] for offset in (0, 1, 2, 6, 7)] == [0, 1, 2, 0, 0]
        if killed:
            left = await crash(store, data, f"crashed-{epoch}")
        await store.aclose()


async def test_what_is_replayed_outlives_the_file_it_was_in(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, _ = await worked(data, checkpoint=False)
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left, epoch=2)
    # The old files are checkpointed and given back
    await until(lambda: not store._background.tasks)
    last = await crash(store, data, "last")
    await store.aclose()
    for journal in (last / "journal").iterdir():
        journal.unlink()
    metadata = MetadataStore.open(last / "metadata")
    metadata.apply([Change(key, None) for key, _ in metadata.scan(b"journal/")])
    metadata.close()
    store, (partition,) = start_store(last, epoch=3)
    cursor = partition.open_cursor()
    assert (cursor.handed_out, counts(cursor, 3)) == (8, [0, 1, 2])
    await store.aclose()


async def test_a_mark_costs_one_entry_a_commit(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 100))
    cursor = partition.open_cursor()
    for end in range(1, 101):
        cursor.hand_out(end)
    await committed(store, partition)
    marks = [change.end for change in changes(data) if isinstance(change, HandedOut)]
    assert marks == [100]
    await store.aclose()


async def test_the_journal_tells_why_something_is_settled(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 10))
    cursor = partition.open_cursor()
    for offset, reason in enumerate(Reason):
        cursor.settle(offset, offset + 1, reason)
    await committed(store, partition)
    found = [
        (change.reason, change.ranges) for change in changes(data) if isinstance(change, Settlement)
    ]
    assert found == [(reason, [(offset, offset + 1)]) for offset, reason in enumerate(Reason)]
    await store.aclose()


def changes(data: Path) -> list[object]:
    """The changes in the first file of a journal."""
    files = JournalFiles(data / "journal", SystemDisk())
    mark = files.marks()[0]
    blocks = whole_blocks(files.read(mark), mark)
    return [entry.change for _, block in blocks for entry in block.entries]


async def test_offsets_that_were_handed_out_are_not_given_again(tmp_path: Path) -> None:
    # Transient ones: the crash takes the records, the mark stays.
    data = tmp_path / "data"
    store, (partition,) = start_store(data, queues=("q",))
    await durable(store, append(partition, 3))
    append(partition, 7, persistent=False)
    partition.open_cursor().hand_out(8)
    barrier = store.open_partition(2, "/", "barrier", 0, durable=True)
    await committed(store, barrier)
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left, epoch=2)
    assert partition.next_offset == 8
    assert await unsettled(partition) == numbered(0, 1, 2)
    await store.aclose()


async def test_every_cursor_of_a_partition_has_its_own_state(tmp_path: Path) -> None:
    data = tmp_path / "data"
    others = dict.fromkeys(range(1, 50), 0)
    store, (partition,) = start_store(data, cursors=others)
    await durable(store, append(partition, 1000))
    for number in range(50):
        cursor = partition.open_cursor(number)
        cursor.hand_out(900 - number)
        cursor.redeliver(number, number + 2)
        cursor.settle(500 + number, 503 + number, Reason.PURGED)
        if number == 25:
            await store.checkpoints.take()
    await committed(store, partition)
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left, epoch=2, cursors=others)
    assert sorted(partition.cursors) == list(range(50))
    for number, cursor in partition.cursors.items():
        assert cursor.handed_out == 900 - number
        assert cursor.delivery_counts.chunks == {0: [(number, number + 2, 1)]}
        assert cursor.settled.count_from(0, 1000) == 3
    await store.aclose()


async def test_a_purge_while_messages_are_out_leaves_them_and_their_counts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 20))
    cursor = partition.open_cursor()
    cursor.hand_out(10)
    cursor.redeliver(4, 8)
    cursor.settle(0, 6, Reason.PURGED)  # these were back
    cursor.settle(10, 20, Reason.PURGED)
    await committed(store, partition)
    left = await crash(store, data)
    await store.aclose()
    store, (partition,) = start_store(left, epoch=2)
    cursor = partition.open_cursor()
    assert await unsettled(partition) == numbered(6, 7, 8, 9, 20)
    assert (cursor.handed_out, cursor.delivery_counts.chunks) == (10, {0: [(6, 8, 1)]})
    await store.aclose()


async def test_a_damaged_snapshot_stops_the_start_and_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store, (partition,) = start_store(data)
    await durable(store, append(partition, 10))
    partition.open_cursor().settle(5, 6)
    await store.aclose()
    metadata = MetadataStore.open(data / "metadata")
    (key, entry), *_ = reversed(list(metadata.scan(partition_prefix(1))))
    metadata.apply([Change(key, entry.value[:-1] + b"?")])
    metadata.close()
    store = open_store(data)
    with pytest.raises(SnapshotDamaged, match=r"cursor 0 of partition 1: .*checksum"):
        store.open_partition(1, "/", "q", 0, durable=True)
    store.metadata.close()


async def test_a_partition_that_is_not_durable_keeps_its_state_to_itself(tmp_path: Path) -> None:
    store, _ = start_store(tmp_path / "data")
    partition = store.open_partition(2, "/", "transient", 0, durable=False)
    partition.append(records([b"x"] * 5))
    cursor = partition.open_cursor()
    cursor.hand_out(3)
    cursor.redeliver(0, 2)
    await asyncio.sleep(0)
    assert partition not in store.checkpoints.with_state
    assert counts(cursor, 3) == [1, 1, 0]
    await store.aclose()
