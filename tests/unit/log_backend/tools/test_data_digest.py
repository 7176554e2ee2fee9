"""The digest of a data directory: it tells what a node has, not in which files, and where two nodes differ."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from support.whole_digests import digest_differences
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, crash, durable, flushed, start_store

from routelog.log_backend.copies.data_copy import COPY, CopiedDisk
from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.journal.journal_chain import ShardBlock
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.declared_partition import DeclaredPartition
from routelog.log_backend.tools.data_digest import JournalContent, digest_pieces
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata
from routelog.log_backend.tools.digest_format import (
    DigestEnd,
    PartitionState,
    Piece,
    Records,
)

QUEUE = ("/", "q", 0)


class OneQueue:
    """What the topology says: one queue, and one group."""

    def all(self) -> Iterable[DeclaredPartition]:
        yield DeclaredPartition(1, *QUEUE, cursors={7: 0})

    def of(self, keys: Iterable[bytes]) -> Iterable[DeclaredPartition]:
        return self.all()


def digest(
    data: Path, behind: Iterable[ShardBlock] = (), disk: Disk | None = None, at: Path | None = None
) -> list[Piece]:
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        directory = DataDirectory(at or data, disk or SystemDisk(), metadata, {1: QUEUE})
        return list(digest_pieces(directory, OneQueue(), JournalContent(directory, behind)))


def without_blocks(pieces: list[Piece]) -> list[Piece]:
    """What there is in partitions: the store may have added a block meanwhile."""
    return [each for each in pieces if isinstance(each, PartitionState | Records)]


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
    assert without_blocks(journal) == without_blocks(segments)
    state, stored = without_blocks(segments)
    assert state == PartitionState(QUEUE, 6, {0: [(0, 1), (4, 6)], 7: [(0, 5)]})
    assert isinstance(stored, Records)
    assert list(stored.checksums) == [0, 1, 2, 3, 4, 5]
    assert len(set(stored.checksums.values())) == 6
    assert stored.missing == []


async def test_a_copy_and_the_blocks_behind_it_have_the_digest_of_the_whole(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data")
    await durable(store, append(partition, 3))
    copy = store.copies.begin()
    await copy.taken
    marks = [copy.position]
    await durable(store, append(partition, 4))
    partition.open_cursor().settle(0, 2)
    while store.checkpoints.with_state or not store.journal.groups.is_idle:
        await store.journal.drain()
    behind = await store.journal.read(marks[0], 2**30)
    disk = CopiedDisk(copy.files)
    before = digest_of_copy(tmp_path, disk, [])
    after = digest_of_copy(tmp_path, disk, behind)
    copy.end()
    whole = digest(await crash(store, tmp_path / "data", "whole"))
    await store.aclose()
    assert without_blocks(after) == without_blocks(whole)
    assert without_blocks(before) != without_blocks(whole)
    end = after[-1]
    assert isinstance(end, DigestEnd)
    assert (end.position, end.partitions, end.records) == (behind[-1].position, 1, 7)
    assert list(digest_differences({"a": after, "b": whole})) == []


def digest_of_copy(folder: Path, disk: CopiedDisk, behind: list[ShardBlock]) -> list[Piece]:
    """What the program of a node makes of a copy."""
    held = folder / "data/copies/1-metadata"
    metadata = MetadataStore.open(held)
    try:
        data = DataDirectory(COPY, disk, metadata, {1: QUEUE})
        return list(digest_pieces(data, OneQueue(), JournalContent(data, behind)))
    finally:
        metadata.close()


async def test_what_two_nodes_have_differently_is_named(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data")
    await durable(store, append(partition, 3))
    before = digest(await crash(store, tmp_path / "data", "before"))
    partition.open_cursor().settle(0, 1)
    await durable(store, partition.append(records([b"more"]), waited=True))
    await store.aclose()
    after = digest(tmp_path / "data")
    ends = [each.position for each in (*before, *after) if isinstance(each, DigestEnd)]
    assert [each.told() for each in digest_differences({"a": before, "b": after})] == [
        "b, unlike a: /: q [0]: the next offset is 4, not 3",
        "b, unlike a: /: q [0]: what the queue has settled is not the same, from offset 0 on",
        "b, unlike a: /: q [0]: what cursor 7 has settled is not the same, from offset 3 on",
        f"b, unlike a: the journal ends with block {ends[1]}, not {ends[0]}",
    ]


async def test_a_record_that_is_not_settled_and_nowhere_is_missing(tmp_path: Path) -> None:
    store, (partition,) = start_store(tmp_path / "data")
    await durable(store, append(partition, 3))
    await flushed(store)
    await store.checkpoints.take()
    await store.aclose()
    for segment in (tmp_path / "data/logs").rglob("*.log"):
        segment.unlink()
    for journal in (tmp_path / "data/journal").iterdir():
        journal.unlink()
    found = [each for each in digest(tmp_path / "data") if isinstance(each, Records)]
    assert [(each.checksums, each.missing) for each in found] == [({}, [0, 1, 2])]
