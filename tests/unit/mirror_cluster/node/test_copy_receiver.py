"""Copies of a running store on real sockets, and what an ill leader or network makes of them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.waiting import until
from unit.log_backend.log_records import records
from unit.log_backend.open_store import (
    QUIET,
    append,
    content,
    durable,
    flushed,
    numbered,
    start_store,
)
from unit.log_backend.partitions.test_quarantine import flip
from unit.log_backend.watched_disk import WatchedDisk
from unit.mirror_cluster.links.test_node_links import Node, cluster

from routelog.log_backend import OwnLogs, SystemClock, SystemDisk, take_copied
from routelog.log_backend.doors.disk import Disk
from routelog.log_backend.log_store import LogStore
from routelog.log_backend.tools.copy_repair import OwnLog
from routelog.mirror_cluster.links import copy_stream
from routelog.mirror_cluster.node import copy_receiver
from routelog.mirror_cluster.node.copy_receiver import CopyDamaged, CopyError, CopyReceiver
from routelog.mirror_cluster.node.copy_sender import CopySender
from routelog.mirror_cluster.protocol.copy_format import (
    PIECE_BYTES,
    CopyHead,
    FileHead,
    encode_crc,
    encode_record,
)

SMALL_SEGMENTS = replace(QUIET, segment_bytes=64 * 1024)
HEAD = CopyHead(1, 1, 1, 1, 3)
FILE = FileHead("logs/a", 3, 0)


def receiver(
    node: Node,
    data: Path,
    disk: Disk | None = None,
    reserve: int = 0,
    own: OwnLogs | None = None,
) -> CopyReceiver:
    disk = disk or SystemDisk()
    disk.make_directory(data)
    connect = node.links.connect_copy
    return CopyReceiver(connect, data, disk, SystemClock(), reserve, lambda: own)


@asynccontextmanager
async def leading(
    store: LogStore, in_sync: Collection[str] = "bcd", *, has_begun: bool = True
) -> AsyncIterator[dict[str, Node]]:
    """Node a leads with a store, node b follows."""
    sender = CopySender(store.copies, lambda node: node in in_sync, lambda: has_begun)
    async with cluster("abcd") as nodes:
        nodes["a"].links.take_copier = sender.take
        try:
            yield nodes
        finally:
            await sender.aclose()
            await store.aclose()


@asynccontextmanager
async def telling(*octets: bytes, closes: bool = True) -> AsyncIterator[Node]:
    """A node whose leader sends these bytes, whatever they are."""
    streams = []

    def take(node: str, transport: asyncio.Transport, unread: bytes) -> None:
        transport.write(b"".join(octets))
        if closes:
            transport.close()
        else:
            streams.append(transport)

    async with cluster("ab") as nodes:
        nodes["a"].links.take_copier = take
        yield nodes["b"]
        for each in streams:
            each.abort()


def names(data: Path) -> list[str]:
    return sorted(each.name for each in data.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    target = tmp_path / "follower"
    (target / "journal").mkdir(parents=True)
    (target / "incarnation").write_text("5\n")
    return target


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "leader"


async def test_a_copy_has_what_the_leader_had_committed(data: Path, target: Path) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    big = records([b"y" * (2 * PIECE_BYTES + 17)])
    await durable(store, partition.append(big, waited=True))
    async with leading(store) as nodes:
        copy = await receiver(nodes["b"], target).fetch("a")
        append(partition)  # behind it
        assert names(target) == ["copy.new", "incarnation", "journal"]
        copy.keep()
        await until(lambda: not list((data / "copies").iterdir()))
    assert take_copied(target, SystemDisk())
    assert names(target) == ["incarnation", "journal", "logs", "metadata"]
    found = await content(target)
    assert found == [(offset, b"x" * 30_000) for offset in range(8)] + [(8, bytes(big.body(0)))]


async def test_a_copy_for_a_damaged_node_is_read_before_it_is_kept(
    data: Path, target: Path
) -> None:
    store, (partition,) = start_store(data, options=SMALL_SEGMENTS)
    for _ in range(8):
        partition.append(records([b"x" * 30_000]), waited=True)
    await flushed(store)
    directory = partition.directory.relative_to(data)  # the store goes on to change its own files
    shutil.copytree(partition.directory, data.with_name("whole") / directory)
    whole = OwnLogs(data.with_name("whole"), SystemDisk(), {directory: OwnLog(8, [])})
    async with leading(store) as nodes:
        own = OwnLogs.of(data, SystemDisk(), store.partitions)
        (await receiver(nodes["b"], target, own=own).fetch("a", heals=True)).abandon()
        segment = partition.segments[0].path
        flip(segment, segment.stat().st_size // 2)
        with pytest.raises(CopyDamaged, match="it is damaged there, too: "):
            await receiver(nodes["b"], target, own=own).fetch("a", heals=True)
        assert names(target) == ["incarnation", "journal"]
        (await receiver(nodes["b"], target, own=own).fetch("a")).abandon()  # better than nothing
        (await receiver(nodes["b"], target, own=whole).fetch("a", heals=True)).keep()
        assert take_copied(target, SystemDisk())
        assert await content(target) == [(offset, b"x" * 30_000) for offset in range(8)]


async def test_a_leader_that_takes_no_copiers_closes(target: Path) -> None:
    async with cluster("ab") as nodes:
        with pytest.raises(CopyError, match="a ended the connection before"):
            await receiver(nodes["b"], target).fetch("a")
        with pytest.raises(CopyError, match="nobody knows where node z is"):
            await receiver(nodes["b"], target).fetch("z")
    assert names(target) == ["incarnation", "journal"]


async def test_a_third_copy_at_once_is_refused(data: Path, target: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition)
    _, released = disk.hold("link", "*")
    async with leading(store) as nodes:
        others = [
            asyncio.create_task(receiver(nodes[name], target / name).fetch("a")) for name in "cd"
        ]
        await until(lambda: len(store.copies._copies) == 2)
        with pytest.raises(CopyError, match="2 other copies are under way"):
            await receiver(nodes["b"], target).fetch("a")
        released.set()
        await asyncio.gather(*others)
        (await receiver(nodes["b"], target).fetch("a")).abandon()


async def test_who_is_in_sync_gets_no_copy_of_a_leader_that_may_know_less(
    data: Path, target: Path
) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    async with leading(store, "c", has_begun=False) as nodes:
        with pytest.raises(CopyError, match="it is in sync, and this node has not begun to lead"):
            await receiver(nodes["c"], target / "c").fetch("a")
        (await receiver(nodes["b"], target).fetch("a")).abandon()


async def test_a_leader_without_a_copy_says_why(data: Path, target: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition)
    await flushed(store)
    disk.fail("link", "*", 1)
    async with leading(store) as nodes:
        with pytest.raises(CopyError, match="link made to fail"):
            await receiver(nodes["b"], target).fetch("a")
    assert names(target) == ["incarnation", "journal"]


async def test_a_copy_that_the_leader_ends_half_way_leaves_nothing(
    data: Path, target: Path
) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    for _ in range(8):
        partition.append(records([b"x" * 4 * PIECE_BYTES]), waited=True)
    await flushed(store)
    follower_disk = WatchedDisk()
    arrived, released = follower_disk.hold("write", "*.log")
    async with leading(store) as nodes:
        fetching = asyncio.create_task(receiver(nodes["b"], target, follower_disk).fetch("a"))
        await until(arrived.is_set)
        await store.copies.aclose()
        released.set()
        with pytest.raises(CopyError, match="ended the connection before the copy's end"):
            await fetching
        assert names(target) == ["incarnation", "journal"]


@pytest.mark.parametrize("where", ["*.log", "*.journal", "copy.new"])
async def test_a_cancelled_copy_leaves_nothing_and_another_begins(
    data: Path, target: Path, where: str
) -> None:
    store, (partition,) = start_store(data)
    append(partition, 5)
    await flushed(store)
    disk = WatchedDisk()
    arrived, released = disk.hold("sync_directory" if where == "copy.new" else "sync", where)
    async with leading(store) as nodes:
        receiving = receiver(nodes["b"], target, disk)
        fetching = asyncio.create_task(receiving.fetch("a"))
        await until(arrived.is_set)
        fetching.cancel()
        again = asyncio.create_task(receiving.fetch("a"))
        await asyncio.sleep(0.05)
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        (await again).keep()
    take_copied(target, SystemDisk())
    assert await content(target) == numbered(0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("octets", "told"),
    [
        ([], "before the copy's end"),
        ([encode_record(HEAD)], "before the copy's end"),
        ([encode_record(HEAD), encode_record(FILE), b"ab"], "before the copy's end"),
        ([encode_record(HEAD), encode_record(FILE), b"abc", b"wrong"], "logs/a was damaged"),
        ([encode_record(HEAD)[:-1] + b"?"], "its head was damaged"),
        ([b"GET / HTTP/1.1\r\n\r\n"], "a record of 542,393,671 bytes"),
    ],
)
async def test_what_is_no_copy_leaves_nothing(octets: list[bytes], told: str, target: Path) -> None:
    async with telling(*octets) as node:
        with pytest.raises(CopyError, match=told):
            await receiver(node, target).fetch("a")
    assert names(target) == ["incarnation", "journal"]


def file_record(path: str, octets: bytes, padded: int = 0) -> bytes:
    piece = octets + encode_crc(octets) if octets else b""
    return encode_record(FileHead(path, len(octets), padded)) + piece


@pytest.mark.parametrize(
    ("head", "files", "told"),
    [
        (HEAD, [file_record("../incarnation", b"abc")], "no path below"),
        (HEAD, [file_record("/tmp/x", b"abc")], "no path below"),
        (HEAD, [file_record("logs/a", b"abcd")], "logs/a: there is more than was said"),
        (HEAD, [file_record("logs/a", b"a", 8_192)], "logs/a: there is more than was said"),
        (HEAD, [file_record("logs/a", b"ab")], "there is less than was said"),
        (CopyHead(1, 1, 1, 2, 6), [file_record("logs/a", b"abc")] * 2, "logs/a is there twice"),
        (CopyHead(1, 1, 1, 2, 6), [file_record("logs/a", b"abc")], "before the copy's end"),
        (CopyHead(1, 1, 1, 1, 2**60), [], "1,099,511,627,776 MiB, and the disk has room for"),
        (CopyHead(1, 1, 1, 1, 3, version=2), [], "version 2, and this node reads 1"),
    ],
)
async def test_a_leader_that_lies_is_not_believed(
    head: CopyHead, files: list[bytes], told: str, target: Path
) -> None:
    async with telling(encode_record(head), *files) as node:
        with pytest.raises(CopyError, match=told):
            await receiver(node, target).fetch("a")
    assert names(target) == ["incarnation", "journal"]
    assert (target / "incarnation").read_text() == "5\n"


@pytest.mark.parametrize("sent", [b"", encode_record(HEAD), encode_record(HEAD)[:9]])
async def test_a_leader_that_says_nothing_any_more_is_given_up(
    sent: bytes, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_receiver, "SILENCE_SECONDS_MAX", 0.1)
    monkeypatch.setattr(copy_receiver, "TAKING_SECONDS_MAX", 0.1)
    async with telling(sent, closes=False) as node:
        with pytest.raises(CopyError, match="a says nothing any more"):
            await receiver(node, target).fetch("a")
    assert names(target) == ["incarnation", "journal"]


async def test_a_full_disk_takes_no_copy(data: Path, target: Path) -> None:
    store, (partition,) = start_store(data)
    append(partition)
    async with leading(store) as nodes:
        with pytest.raises(CopyError, match="and the disk has room for"):
            await receiver(nodes["b"], target, reserve=10**18).fetch("a")
        disk = WatchedDisk()
        disk.fail("write", "*", 28)
        with pytest.raises(CopyError, match="write made to fail"):
            await receiver(nodes["b"], target, disk).fetch("a")
    assert names(target) == ["incarnation", "journal"]


async def test_a_follower_that_reads_nothing_is_given_up(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(copy_stream, "SILENCE_SECONDS_MAX", 0.2)
    store, (partition,) = start_store(data)
    for _ in range(8):
        partition.append(records([b"x" * 4 * PIECE_BYTES]), waited=True)
    await flushed(store)
    async with leading(store) as nodes:
        taken: list[asyncio.Transport] = []
        await nodes["b"].links.connect_copy("a", lambda transport, _: taken.append(transport))
        await until(lambda: any("reads nothing of its copy" in each for each in caplog.messages))
        await until(lambda: not list((data / "copies").iterdir()))
        taken[0].abort()


async def test_a_follower_that_goes_away_ends_its_copy(data: Path) -> None:
    disk = WatchedDisk()
    store, (partition,) = start_store(data, disk=disk)
    append(partition)
    await flushed(store)
    arrived, released = disk.hold("link", "*")
    async with leading(store) as nodes:
        taken: list[asyncio.Transport] = []
        await nodes["b"].links.connect_copy("a", lambda transport, _: taken.append(transport))
        await until(arrived.is_set)
        taken[0].abort()
        await until(lambda: all(each.failure for each in store.copies._copies))
        released.set()
        await until(lambda: not store.copies._copies)


async def test_the_log_says_how_far_a_copy_is(
    data: Path,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(copy_receiver, "PROGRESS_SECONDS", 0.0)
    caplog.set_level("INFO")
    store, (partition,) = start_store(data)
    append(partition)
    async with leading(store) as nodes:
        (await receiver(nodes["b"], target).fetch("a")).keep()
    assert any("copy of a: 0 of 2 MiB" in each for each in caplog.messages)
