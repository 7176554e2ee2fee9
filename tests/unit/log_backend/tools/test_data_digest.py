"""The digest of a data directory: it tells what a node has, not in which files, and where two nodes differ."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from support.whole_digests import digest_differences
from unit.log_backend.log_records import records
from unit.log_backend.open_store import append, crash, durable, flushed, start_store

from routelog.log_backend.block_applier import BlockApplier
from routelog.log_backend.copies.data_copy import COPY, CopiedDisk, DataCopy
from routelog.log_backend.doors.disk import Disk, SystemDisk
from routelog.log_backend.journal.journal_block import decode_entries
from routelog.log_backend.journal.journal_chain import ShardBlock
from routelog.log_backend.metadata.metadata import MetadataStore
from routelog.log_backend.partitions.declared_partition import DeclaredPartition
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.segments.retention import Retention
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

    def __init__(self, retention: Retention | None = None, *, journaled: bool = True) -> None:
        self._retention = retention
        self._journaled = journaled

    def all(self) -> Iterable[DeclaredPartition]:
        yield DeclaredPartition(
            1, *QUEUE, self._retention, cursors={7: 0}, journaled=self._journaled
        )

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
    stored, state = without_blocks(segments)
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


def digest_of_copy(
    folder: Path,
    disk: CopiedDisk,
    behind: list[ShardBlock],
    declared: OneQueue | None = None,
    at: str = "data/copies/1-metadata",
) -> list[Piece]:
    """What the program of a node makes of a copy."""
    held = folder / at
    metadata = MetadataStore.open(held)
    try:
        data = DataDirectory(COPY, disk, metadata, {1: QUEUE})
        return list(digest_pieces(data, declared or OneQueue(), JournalContent(data, behind)))
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


class LeaderAndFollower:
    """A node that leads, and one that has carried out the same blocks."""

    def __init__(self, folder: Path, durability: Durability = Durability.DISK) -> None:
        self._folder = folder
        self.leader, (self.queue,) = start_store(
            folder / "leader", durabilities=[durability], cursors={7: 0}
        )
        self.leader.journal.groups.is_replicated = True
        self._follower, _ = start_store(folder / "follower", cursors={7: 0})
        self._applier = BlockApplier(self._follower, OneQueue())
        self.copied: list[tuple[str, int, DataCopy]] = []

    async def follow(self) -> None:
        """The follower carries out what there is."""
        for block in await self._blocks(self._applier.applied):
            self._applier.apply(block.position, decode_entries(block.payload))

    async def copy(self) -> None:
        """Copy both as they are."""
        for name, store in (("leader", self.leader), ("follower", self._follower)):
            copy = store.copies.begin()
            await copy.taken
            self.copied.append((name, self._applier.applied, copy))

    async def digests(self, declared: OneQueue | None = None) -> list[list[Piece]]:
        """What both have in their copies, and in the blocks behind."""
        blocks = await self._blocks(0)
        found = []
        for name, position, copy in self.copied:
            at, disk = f"{name}/copies/1-metadata", CopiedDisk(copy.files)
            behind = [each for each in blocks if each.position > position]
            whole = digest_of_copy(self._folder, disk, behind, declared, at)
            found.append(without_blocks(whole))
            copy.end()
        await self.leader.aclose()
        await self._follower.aclose()
        return found

    async def _blocks(self, after: int) -> list[ShardBlock]:
        while not self.leader.journal.groups.is_idle:
            await self.leader.journal.drain()
        return await self.leader.journal.read(after, 2**30)


async def mixed(nodes: LeaderAndFollower) -> None:
    """Journaled records around transient ones."""
    append(nodes.queue, 2)
    append(nodes.queue, 3, persistent=False)
    append(nodes.queue, 1)
    append(nodes.queue, 2, persistent=False)
    nodes.queue.open_cursor().settle(5, 6)
    await nodes.follow()


async def test_transient_records_that_only_the_leader_has_are_no_difference(tmp_path: Path) -> None:
    nodes = LeaderAndFollower(tmp_path)
    await mixed(nodes)
    await nodes.copy()
    assert any((tmp_path / "leader/logs").rglob("*.log"))
    leader, follower = await nodes.digests()
    assert leader == follower
    stored, state = leader
    assert isinstance(stored, Records)
    assert (list(stored.checksums), stored.missing) == ([0, 1, 5], [])
    assert state == PartitionState(QUEUE, 8, {0: [(0, 2)], 7: [(0, 2), (5, 6)]})


async def test_what_only_the_journal_tells_of_transient_records_is_no_difference(
    tmp_path: Path,
) -> None:
    nodes = LeaderAndFollower(tmp_path)
    await mixed(nodes)
    await nodes.copy()
    await mixed(nodes)
    leader, follower = await nodes.digests()
    assert leader == follower
    assert leader[-1] == PartitionState(
        QUEUE, 16, {0: [(0, 2), (8, 10), (13, 14)], 7: [(0, 2), (5, 6), (8, 10), (13, 14)]}
    )


async def test_records_of_a_queue_in_memory_are_no_difference(tmp_path: Path) -> None:
    nodes = LeaderAndFollower(tmp_path, Durability.MEMORY)
    append(nodes.queue, 3)
    await nodes.follow()
    await nodes.copy()
    leader, follower = await nodes.digests(OneQueue(journaled=False))
    assert leader[-1] == follower[-1] == PartitionState(QUEUE, 3, {0: [], 7: []})
    assert all(not piece.checksums for piece in leader if isinstance(piece, Records))


async def test_transient_records_of_a_stream_are_compared(tmp_path: Path) -> None:
    stream = Retention(is_stream=True)
    store, (partition,) = start_store(tmp_path / "data", retention=stream)
    await durable(store, append(partition, 3, persistent=False))
    await store.aclose()
    with open_metadata(tmp_path / "data", SystemDisk(), read_only=True) as metadata:
        directory = DataDirectory(tmp_path / "data", SystemDisk(), metadata, {1: QUEUE})
        journal = JournalContent(directory)
        found = without_blocks(list(digest_pieces(directory, OneQueue(stream), journal)))
    assert isinstance(found[0], Records)
    assert list(found[0].checksums) == [0, 1, 2]


async def test_a_journaled_record_is_missing_although_transient_ones_came_behind(
    tmp_path: Path,
) -> None:
    nodes = LeaderAndFollower(tmp_path)
    append(nodes.queue, 2)
    await nodes.follow()
    await nodes.copy()
    append(nodes.queue, 3, persistent=False)
    _, _, copy = nodes.copied[0]
    copy.files = [each for each in copy.files if each.path.startswith("metadata/")]
    (lost, _), (there, _) = await nodes.digests()
    assert isinstance(lost, Records)
    assert isinstance(there, Records)
    assert (lost.missing, there.missing) == ([0, 1], [])
