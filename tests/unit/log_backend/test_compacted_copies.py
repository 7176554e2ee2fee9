"""Compacted logs on several nodes, in copies, under the operators' tools, and read beside the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.whole_digests import digest_differences
from unit.log_backend.compacted_log import (
    COMPACT,
    TINY,
    Stored,
    UnsyncedDisk,
    compact_here,
    folded,
    idle,
    names,
    passed,
    publish,
    read_from,
    start_compacted,
)
from unit.log_backend.open_store import copy_of, crash, fill_journal_file, flushed, open_store
from unit.log_backend.segments.test_compaction_pass import task
from unit.log_backend.watched_disk import WatchedDisk

from routelog.log_backend import BlockApplier
from routelog.log_backend.copies.data_writer import DataWriter
from routelog.log_backend.doors.disk import SystemDisk
from routelog.log_backend.journal.journal_reader import JournalReader
from routelog.log_backend.partitions.declared_partition import DeclaredPartition
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.compaction_pass import (
    CompactedSegment,
    CompactionInput,
    compact,
)
from routelog.log_backend.segments.log_directory import segment_path
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.tools.data_digest import JournalContent, digest_pieces
from routelog.log_backend.tools.data_directory import DataDirectory, open_metadata
from routelog.log_backend.tools.digest_format import Piece, Records
from routelog.log_backend.tools.log_repair import Repair
from routelog.log_backend.tools.log_verification import Finding, Verification
from routelog.log_backend.upkeep.stored_log import StoredLogs

QUEUE = ("/", "q", 0)
PAD = b" " * 200


@pytest.fixture
def disk() -> WatchedDisk:
    return UnsyncedDisk()


class OneStream:
    """What the topology says: one stream that is compacted."""

    def all(self) -> Iterable[DeclaredPartition]:
        yield DeclaredPartition(1, *QUEUE, COMPACT)

    def of(self, keys: Iterable[bytes]) -> Iterable[DeclaredPartition]:
        return self.all()


def fill(partition: PartitionLog, rounds: int, keys: int = 5) -> list[Stored]:
    stored: list[Stored] = []
    for number in range(rounds):
        body = b"%d" % number + PAD
        stored += publish(partition, *((f"key {key}", body) for key in range(keys)))
    return stored


def digest(data: Path) -> list[Piece]:
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        directory = DataDirectory(data, SystemDisk(), metadata, {1: QUEUE})
        return list(digest_pieces(directory, OneStream(), JournalContent(directory)))


def verified(data: Path) -> list[Finding]:
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        return list(Verification(DataDirectory(data, SystemDisk(), metadata, {1: QUEUE})).run())


async def test_followers_compact_by_themselves_and_lead_with_what_they_have(
    data: Path, tmp_path: Path, disk: WatchedDisk
) -> None:
    leader, partition = start_compacted(data, disk)
    followers = [open_store(tmp_path / name, TINY, disk) for name in ("one", "two")]
    compact_here(followers[0], disk)
    followers[1].compactor.stop()  # this one does not come to it
    appliers = [BlockApplier(each, OneStream()) for each in followers]
    stored = publish(partition, ("gone", b"value" + PAD), ("gone", b""))
    for _ in range(3):
        stored += fill(partition, 8)
        await passed(leader)
        while leader.checkpoints.with_state or not leader.journal.groups.is_idle:
            await leader.journal.drain()
        for block in JournalReader(leader.journal.supply.files).blocks():
            for applier in appliers:
                if block.position > applier.applied:
                    applier.apply(block.position, block.entries)
        for store in followers:
            await store.checkpoints.flush()
            await idle(store)
    assert leader.compactor.passes > 1
    assert followers[0].compactor.passes > 0
    left = await read_from(partition, 0)
    half = left[len(left) // 2].offset
    await leader.aclose()
    for store in followers:
        store.recover()
        store.start(2)
        theirs = store.partitions[1]
        assert theirs.next_offset == len(stored)
        # A reader that had come to an offset goes on with the new leader.
        rest = await read_from(theirs, half)
        assert folded([each for each in left if each.offset < half] + rest) == folded(stored)
        assert folded(await read_from(theirs, 0)) == folded(stored)
        more = publish(theirs, ("key 0", b"of the new leader"))
        await flushed(store)
        assert folded(await read_from(theirs, 0)) == folded(stored + more)
        await store.aclose()


async def test_nodes_in_different_states_have_no_differences(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    store.compactor.stop()
    fill(partition, 8)
    await fill_journal_file(store, partition)  # else the journal still has all records
    await idle(store)
    await store.checkpoints.take()
    whole = await crash(store, data, "whole")
    await store.aclose()
    store, partition = start_compacted(data, disk, epoch=2)
    await idle(store)
    assert store.compactor.passes == 1
    compacted = await crash(store, data, "compacted")
    await store.aclose()
    digests = {"a": digest(whole), "b": digest(compacted)}
    assert list(digest_differences(digests)) == []
    assert len(checksums(digests["b"])) < len(checksums(digests["a"])) == 42
    # What lies behind the last compacted segment is expected on each node.
    (newest,) = (path for path in (compacted / "logs").rglob("*.log") if path.name.count(".") == 1)
    gone = {offset for offset in checksums(digests["b"]) if offset >= int(newest.stem)}
    newest.write_bytes(b"")
    (records,) = (each for each in digest(compacted) if isinstance(each, Records))
    assert set(records.missing) == gone - set(records.checksums)


def checksums(pieces: list[Piece]) -> dict[int, int]:
    (records,) = (each for each in pieces if isinstance(each, Records))
    return records.checksums


async def test_a_compacted_log_is_verified_without_a_finding(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    fill(partition, 8)
    await passed(store)
    await store.aclose()
    assert verified(data) == []


async def test_what_a_pass_has_replaced_is_no_damage(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 8)
    arrived, released = disk.hold("remove", f"{0:020d}.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    left = copy_of(data, data.parent / "left")
    released.set()
    await idle(store)
    await store.aclose()
    files = [path.name for path in (left / "logs").rglob("*.log")]
    assert len([name for name in files if name.startswith(f"{0:020d}.")]) == 2
    assert [each for each in verified(left) if each.severity == "damage"] == []
    store, partition = start_compacted(left, disk, epoch=2)
    assert folded(await read_from(partition, 0)) == folded(stored)
    assert len(names(partition)) < len(files)
    await store.aclose()


async def test_a_new_segment_that_retention_has_overtaken_hides_no_other(
    data: Path, tmp_path: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk, retention=Retention(is_stream=True))
    fill(partition, 10)
    await passed(store)
    inputs = [
        CompactionInput(str(each.path), each.base_offset, each.next_base or 0, each.size)
        for each in partition.segments[:-1]
    ]
    step, _ = compact(SystemDisk(), task(tmp_path, inputs), "name")
    assert isinstance(step, CompactedSegment)
    sizes = sum(each.file_bytes for each in partition.segments[-4:])
    partition.retain(Retention(is_stream=True, bytes_max=sizes))
    partition.expire()
    await passed(store)
    assert len(partition.segments) == 4
    directory = partition.directory
    await store.aclose()
    # As if the broker was killed before it took the segment back.
    for suffix in (".index", ".timeindex", ".log"):
        Path(step.path).with_suffix(suffix).rename(
            segment_path(directory, 0, 1).with_suffix(suffix)
        )
    assert verified(data) == []
    with open_metadata(data, SystemDisk(), read_only=True) as metadata:
        tools = DataDirectory(data, SystemDisk(), metadata, {1: QUEUE})
        assert list(Repair(tools, tmp_path / "aside", is_dry=True).run()) == []
    assert not [each for each in digest(data) if isinstance(each, Records) and each.missing]


async def test_damage_in_a_compacted_segment_is_found_and_repaired(
    data: Path, disk: WatchedDisk
) -> None:
    store, partition = start_compacted(data, disk)
    for number in range(6):
        publish(partition, (f"stays {number}", b"x" * 900), ("goes", b"y" * 900))
    fill(partition, 8)
    await passed(store)
    before = await read_from(partition, 0)
    path = next(each.path for each in partition.segments if ".1." in each.path.name)
    await store.aclose()
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    (found,) = (each for each in verified(data) if each.severity == "damage")
    assert found.file.endswith(path.name)
    with open_metadata(data, SystemDisk(), read_only=False) as metadata:
        directory = DataDirectory(data, SystemDisk(), metadata, {1: QUEUE})
        list(Repair(directory, data / "quarantine", is_dry=False).run())
    assert [each for each in verified(data) if each.severity == "damage"] == []
    store, partition = start_compacted(data, disk, epoch=2)
    assert not partition.is_damaged
    after = await read_from(partition, partition.first_offset)
    assert len(after) == len(before) - 1
    assert set(after) < set(before)
    await store.aclose()


async def test_copies_before_and_after_a_pass_are_whole(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 8)
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    first = store.copies.begin()
    await asyncio.sleep(0)
    released.set()
    await first.taken
    await idle(store)
    second = store.copies.begin()
    await second.taken
    for number, copy in enumerate((first, second)):
        target = data.parent / str(number)
        writer = DataWriter(target, SystemDisk())
        for each in copy.files:
            writer.write(each.path, [copy.read(each, 0, each.size)], each.padded)
        copy.end()
        theirs, log = start_compacted(target, SystemDisk(), epoch=2)
        assert not log.is_damaged
        assert folded(await read_from(log, 0)) == folded(stored)
        await theirs.aclose()
    assert any(".1.log" in each.path for each in second.files)
    await store.aclose()


async def test_readers_beside_the_broker_get_what_is_left(data: Path, disk: WatchedDisk) -> None:
    store, partition = start_compacted(data, disk)
    stored = fill(partition, 8)
    logs = StoredLogs(disk, asyncio.get_running_loop())
    arrived, released = disk.hold("rename", "here.index")
    await flushed(store)
    await asyncio.to_thread(arrived.wait, 30)
    opening, opened = disk.hold("open", f"{0:020d}.log")
    looking = asyncio.create_task(logs.find(partition, 0, len(stored), 2**20))
    await asyncio.to_thread(opening.wait, 30)
    released.set()
    await idle(store)
    opened.set()
    stretch = await looking
    assert stretch is not None
    end = partition.segments[1].base_offset
    assert stretch.start == 0
    assert stretch.position + stretch.size <= partition.segments[0].size
    stretch.close()
    sizes = await logs.body_sizes(partition, 0, end, 2**30)
    left = [each for each in await read_from(partition, 0) if each.offset < end]
    assert sum(size for _, _, size in sizes) == sum(len(each.body) for each in left)
    assert await logs.offset_at(partition, 0) == left[0].offset
    logs.close()
    await store.aclose()
