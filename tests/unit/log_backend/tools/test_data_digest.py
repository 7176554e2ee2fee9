"""The digest of a data directory: it tells what a node has, not in which files, and where two nodes differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, crash, durable, flushed, start_store

from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.partitions.declared_partition import DeclaredPartition
from routelog.log_backend.tools.data_digest import DataDigest, data_digest, digest_differences
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata

QUEUE = ("/", "q", 0)


class OneQueue:
    """What the topology says: one queue, and one group."""

    def all(self) -> Iterable[DeclaredPartition]:
        yield DeclaredPartition(1, *QUEUE, cursors={7: 0})

    def of(self, keys: Iterable[bytes]) -> Iterable[DeclaredPartition]:
        return self.all()


def digest(data: Path) -> DataDigest:
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        return data_digest(DataDirectory(data, SystemDisk(), metadata, {1: QUEUE}), OneQueue())


async def test_journal_and_segments_have_the_same_digest(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data", cursors={7: 0})
    position = append(partition, 6)
    partition.open_cursor().settle(1, 4)
    partition.open_cursor(7).settle(5, 6)
    await durable(store, position)
    while store.checkpoints.with_state or not store.journal.groups.is_idle:
        await store.journal.drain()
    journal = digest(await crash(store, tmp_path / "data", "journal"))
    await flushed(store)
    await store.checkpoints.take()
    await store.aclose()
    assert any((tmp_path / "data/logs").rglob("*.log"))
    segments = digest(tmp_path / "data")
    for each in (journal, segments):
        each.blocks.clear()  # the store may have added one meanwhile
    assert digest_differences({"a": journal, "b": segments}) == []
    assert journal.checksum == segments.checksum
    (stored,) = segments.partitions.values()
    assert (stored.next_offset, stored.unsettled) == (6, {0: [0, 4, 5], 7: [0, 1, 2, 3, 4]})
    assert list(stored.needed) == [0, 1, 2, 3, 4, 5]
    assert len(set(stored.needed.values())) == 6


async def test_what_two_nodes_have_differently_is_named(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data")
    await durable(store, append(partition, 3))
    before = digest(await crash(store, tmp_path / "data", "before"))
    partition.open_cursor().settle(0, 1)
    await durable(store, partition.append(records([b"more"]), waited=True))
    await store.aclose()
    after = digest(tmp_path / "data")
    assert before.checksum != after.checksum
    ends = f"the journals end with blocks {max(before.blocks)} and {max(after.blocks)}"
    assert digest_differences({"a": before, "b": after}) == [
        f"a and b: {ends}",
        "a and b: /: q [0]: the next offset is 3 and 4",
        "a and b: /: q [0]: cursor 0: 2 offsets are settled on one node only, from 0 on",
        "a and b: /: q [0]: cursor 7: 1 offsets are settled on one node only, from 3 on",
    ]


async def test_another_block_and_a_missing_or_another_record_are_named(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data")
    await durable(store, append(partition, 3))
    await store.aclose()
    whole = digest(tmp_path / "data")
    (stored,) = whole.partitions.values()
    changed = replace(stored, records={0: 1, 1: stored.records[1]})
    last = max(whole.blocks)
    other = DataDigest({**whole.blocks, last: 1}, {QUEUE: changed, ("/", "r", 0): stored})
    assert digest_differences({"a": whole, "b": other}) == [
        f"a and b: block {last} is not the same",
        "a and b: only one has /: r [0]",
        "a and b: /: q [0]: 1 records are missing on one node, from offset 2 on",
        "a and b: /: q [0]: 1 records are not the same, from offset 0 on",
    ]
