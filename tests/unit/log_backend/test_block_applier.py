import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest.mock import create_autospec

from unit.log_backend.log_records import batch, bodies_of, records
from unit.log_backend.open_store import (
    QUIET,
    append,
    crash,
    durable,
    numbered,
    open_store,
    start_store,
    unsettled,
)
from unit.log_backend.test_metadata_recovery import without_metadata

from routelog.log_backend import (
    BlockApplier,
    Change,
    DeclaredPartition,
    LogStore,
    MetadataStore,
    PartitionLog,
    RecordBatch,
    Records,
)
from routelog.log_backend.journal.journal import ReplicaEvents
from routelog.log_backend.journal.journal_block import (
    NO_CURSOR,
    FileMark,
    HandedOut,
    MetadataChanges,
    Reason,
    Settlement,
    decode_entries,
)
from routelog.log_backend.journal.journal_chain import Mark
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.records.record_joining import slice_records
from routelog.log_backend.recovery import VIEWED_BYTES_MIN
from routelog.log_backend.segments.retention import Retention

MARK = FileMark(1, 1)
KEPT = Retention(settled_age=3_600_000_000)


class NamedPartitions:
    """A record says the name of a queue at the number of its partition, and perhaps where a group begins."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def all(self) -> Iterator[DeclaredPartition]:
        """See `PartitionRecords`."""
        return self.of([key for key, _ in self._store.scan(b"p/")])

    def of(self, keys: Iterable[bytes]) -> Iterator[DeclaredPartition]:
        """See `PartitionRecords`."""
        for key in keys:
            if entry := self._store.get(key):
                name, *begins = entry.value.decode().split()
                cursors = {number: int(begin) for number, begin in enumerate(begins, 1)}
                kept = KEPT if name == "kept" else None
                yield DeclaredPartition(int(key[2:]), "/", name, 0, kept, cursors=cursors)


def followed(data: Path) -> tuple[LogStore, BlockApplier]:
    """A store that is kept up by a follower."""
    store = open_store(data, QUIET)
    store.recover_metadata()
    return store, BlockApplier(store, NamedPartitions(store.metadata))


def declared(number: int, value: bytes | None) -> JournalEntry:
    return JournalEntry(0, MetadataChanges([Change(b"p/%d" % number, value)]))


def appended(partition: int, first: int, count: int) -> JournalEntry:
    bodies = [b"%d" % offset for offset in range(first, first + count)]
    return JournalEntry(partition, batch(bodies, first))


def settled(partition: int, first: int, end: int, cursor: int = 0) -> JournalEntry:
    return JournalEntry(partition, Settlement(cursor, [(first, end)]))


def content(log: PartitionLog, offset: int) -> Records:
    """Of the batch at an offset that is in memory."""
    found = log.read(offset)
    assert found is not None
    return found.records


async def flushed(store: LogStore) -> None:
    await store.checkpoints.flush()
    await asyncio.get_running_loop().run_in_executor(store._flusher, str)


async def test_partitions_come_and_go_with_the_blocks(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q"), appended(1, 0, 3)])
    follower.apply(2, [settled(1, 1, 2), declared(2, b"r"), appended(2, 0, 1)])
    assert await unsettled(store.partitions[1]) == numbered(0, 2)
    await flushed(store)
    directory = store.partitions[1].directory
    assert directory.exists()
    follower.apply(3, [declared(1, None), settled(1, 0, 1), declared(3, b"q")])
    assert store.partitions.keys() == {2, 3}
    await flushed(store)
    assert not directory.exists()
    assert follower.applied == JournalExtent(store.metadata).applied == 3
    await store.aclose()


class Definitions:
    """Notes changes, with what the store has of their keys at that moment."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.changes: list[tuple[bytes | None, bytes | None]] = []

    async def load(self) -> None:
        """See `FollowedDefinitions`."""

    def apply(self, changes: Sequence[Change]) -> None:
        """See `FollowedDefinitions`."""
        for each in changes:
            entry = self._store.get(each.key)
            self.changes.append((each.value, None if entry is None else entry.value))


async def test_definitions_are_told_each_change_once_before_the_store_has_it(data: Path) -> None:
    store = open_store(data, QUIET)
    store.recover_metadata()
    definitions = Definitions(store.metadata)
    records = NamedPartitions(store.metadata)
    follower = BlockApplier(store, records, definitions=definitions)
    first, second = [declared(1, b"q")], [declared(1, b"r"), appended(2, 0, 1), declared(1, None)]
    for block in ((1, first), (2, second), (1, first), (2, second)):
        follower.apply(*block)
    assert definitions.changes == [(b"q", None), (b"r", b"q"), (None, b"q")]
    await store.aclose()


async def test_what_comes_once_more_changes_nothing(data: Path) -> None:
    store, follower = followed(data)
    blocks = [
        (1, [declared(1, b"q"), declared(2, b"r")]),
        (2, [appended(1, 0, 3), settled(1, 0, 1)]),
        (3, [declared(2, None), appended(1, 3, 1)]),
    ]
    for each in (*blocks, *blocks):
        follower.apply(*each)
    assert store.partitions.keys() == {1}
    assert await unsettled(store.partitions[1]) == numbered(1, 2, 3)
    assert store.partitions[1].next_offset == 4
    await store.aclose()


async def test_groups_come_and_go(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"kept"), appended(1, 0, 3)])
    follower.apply(2, [declared(1, b"kept 2"), settled(1, 2, 3, cursor=1)])
    log = store.partitions[1]
    assert log.cursors[1].low_water == 3
    follower.apply(3, [declared(1, b"kept"), settled(1, 0, 1, cursor=1)])
    assert log.cursors.keys() == {0}
    await store.aclose()


async def test_the_journal_is_told_nothing_once_more(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q"), appended(1, 0, 3)])
    handed_out = JournalEntry(1, HandedOut(0, 3))
    follower.apply(2, [settled(1, 1, 2), handed_out])
    assert not store.checkpoints.with_state
    assert store.partitions[1].open_cursor().take_changes() == []
    await store.aclose()


async def test_offsets_of_records_that_are_in_no_journal_are_not_given_again(data: Path) -> None:
    store, follower = followed(data)
    taken = JournalEntry(1, HandedOut(NO_CURSOR, 7))
    follower.apply(1, [declared(1, b"q"), appended(1, 0, 3), taken])
    assert store.partitions[1].next_offset == 7
    # As if a checkpoint gave its file back
    store.metadata.apply([JournalExtent.begins_with(1, Mark(1, 1, 0))])
    await store.aclose()
    store, follower = followed(data)
    assert store.partitions[1].next_offset == 7
    await store.aclose()


async def test_blocks_that_are_not_committed_wait(data: Path) -> None:
    store = open_store(data, QUIET)
    store.recover_metadata()
    store.recover()
    store.start(1)
    await store.metadata_writer.submit([Change(b"p/1", b"q")])
    log = store.open_partition(1, "/", "q", 0, durable=True)
    committed = append(log, 2)
    await durable(store, committed)
    append(log, 3)
    await store.metadata_writer.submit([Change(b"p/2", b"r")])
    left = await crash(store, data)
    blocks = list(store.journal.supply.reader().blocks())
    await store.aclose()
    without_metadata(left)
    store = open_store(left, QUIET)
    store.journal.replicate(1, create_autospec(ReplicaEvents))
    store.recover_metadata()
    follower = BlockApplier(store, NamedPartitions(store.metadata))
    assert follower.applied == committed == blocks[-2].position
    assert store.partitions.keys() == {1}
    assert store.partitions[1].next_offset == 2
    for block in blocks[committed:]:
        follower.apply(block.position, block.entries)
    assert store.partitions.keys() == {1, 2}
    assert await unsettled(store.partitions[1]) == numbered(*range(5))
    await store.aclose()


async def test_a_kept_log_keeps_what_its_leader_keeps(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"kept"), appended(1, 0, 3)])
    await flushed(store)
    follower.apply(2, [settled(1, 0, 3)])
    log = store.partitions[1]
    log.segments[0].written_at = None  # of an earlier run: older than its retention
    log.release()
    assert log.first_offset == 0
    let_go = JournalEntry(1, Settlement(NO_CURSOR, [(0, 3)], Reason.EXPIRED))
    follower.apply(3, [let_go])
    assert not log.segments
    await store.aclose()


async def test_a_record_that_changes_changes_the_open_partition(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q"), appended(1, 0, 3), settled(1, 0, 1)])
    log = store.partitions[1]
    follower.apply(2, [declared(1, b"kept")])
    assert (log.retention, log.keeps_log) == (KEPT, True)
    await flushed(store)
    follower.apply(3, [settled(1, 1, 3)])
    assert log.segments
    follower.apply(4, [declared(1, b"q")])
    assert (log.retention, log.keeps_log) == (None, False)
    await store.aclose()


async def test_a_leader_says_what_a_kept_log_has_let_go(data: Path) -> None:
    store, (log,) = start_store(data, retention=Retention(settled_age=0))
    await durable(store, log.append(records([b"0", b"1"]), waited=True))
    await flushed(store)
    log.open_cursor().settle(0, 2)
    log.release()
    assert not log.segments
    await store.journal.drain()
    changes = [
        entry.change for block in store.journal.supply.reader().blocks() for entry in block.entries
    ]
    told = [each for each in changes if isinstance(each, Settlement) and each.cursor == NO_CURSOR]
    assert [(list(each.ranges), each.reason) for each in told] == [([(0, 2)], Reason.EXPIRED)]
    await store.aclose()


async def test_what_a_follower_has_in_segments_leaves_memory(data: Path) -> None:
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q"), appended(1, 0, 3)])
    log = store.partitions[1]
    assert log.tail_bytes()
    await flushed(store)
    assert (log.tail_bytes(), store.intake.tail_bytes) == (0, 0)
    follower.apply(2, [appended(1, 3, 2), settled(1, 0, 1)])
    assert log.tail_bytes() == log.unflushed_bytes > 0
    assert await unsettled(log) == numbered(*range(1, 5))
    await store.aclose()
    store, (log,) = start_store(data.with_name("of a leader"))
    append(log, 2)
    await flushed(store)
    assert log.tail_bytes()  # consumers are given it from there
    await store.aclose()


async def test_a_follower_copies_no_large_batch(data: Path) -> None:
    bodies = [b"%d" % place * VIEWED_BYTES_MIN for place in range(3)]
    block = b"".join(
        each.encode()
        for each in (JournalEntry(1, batch(bodies)), JournalEntry(1, batch([b"small"], 3)))
    )
    received = bytearray(block)
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q")])
    follower.apply(2, decode_entries(memoryview(received)))
    log = store.partitions[1]
    large, small = content(log, 0), content(log, 3)
    assert isinstance(large.payload, memoryview)
    assert large.payload.obj is received
    assert isinstance(small.payload, bytearray)
    # As when it leads: this is compiled for what may be written.
    assert bodies_of(RecordBatch(slice_records(large, 1, 2), 1, 1)) == bodies[1:]
    await flushed(store)
    assert await unsettled(log) == list(enumerate([*bodies, b"small"]))
    await store.aclose()


async def test_what_may_not_be_written_is_copied(data: Path) -> None:
    entry = JournalEntry(1, batch([bytes(VIEWED_BYTES_MIN)]))
    store, follower = followed(data)
    follower.apply(1, [declared(1, b"q")])
    follower.apply(2, decode_entries(entry.encode()))
    assert isinstance(content(store.partitions[1], 0).payload, bytearray)
    await store.aclose()
