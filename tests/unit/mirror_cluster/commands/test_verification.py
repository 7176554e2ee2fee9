"""Nodes on real sockets are compared: digests, and nodes that have none."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from support.node_sockets import node_sockets
from support.ports import free_port
from support.waiting import until

from routelog.log_backend import (
    START,
    CopiedFile,
    DataCopy,
    DigestBlock,
    DigestEnd,
    DigestMessage,
    DigestProgress,
    ShardBlock,
    SystemDisk,
    encode_digest,
)
from routelog.mirror_cluster.commands.verification import Verified, verify
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.node.digest_sender import DigestSender
from routelog.mirror_cluster.protocol.messages import Message

SECRET = b"a secret of this test"


class Copies:
    """Copies of one file, as of a position; or none."""

    is_short = False

    def __init__(self, position: int, failure: str = "") -> None:
        self._position = position
        self._failure = failure
        self.ended = 0

    def begin(self) -> DataCopy:
        copy = DataCopy(SystemDisk(), asyncio.get_running_loop())
        copy.files = [CopiedFile("metadata/CURRENT", 1, Path("/nowhere"))]
        copy.last = START._replace(position=self._position)
        copy.on_end = self._end
        if self._failure:
            copy.fail(self._failure)
        else:
            copy.taken.set_result(None)
        return copy

    def _end(self) -> None:
        self.ended += 1

    def keeping_journal(self) -> AbstractContextManager[None]:
        return nullcontext()


class Journal:
    """A journal of empty blocks."""

    def __init__(self, committed: int) -> None:
        self.committed = committed

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        return [ShardBlock(0, 1, after + 1, 0, b"", 0)]


class DigestNode:
    """A node whose digest is some messages, whatever it is asked for.

    Attributes:
        asked: file with what its program was given.
    """

    def __init__(
        self, folder: Path, name: str, copies: Copies, *said: DigestMessage, status: int = 0
    ) -> None:
        file, self.asked = folder / name, folder / f"{name} asked"
        file.write_bytes(b"".join(map(encode_digest, said)))
        script = f"cat > '{self.asked}'; cat '{file}'; echo 'no room' >&2; exit {status}"
        self.copies = copies
        self.has_copy = True
        self.replicas: list[str] = []
        self.sender = DigestSender(
            copies,
            Journal(9),
            ["sh", "-c", script],
            lambda: self.has_copy,
            lambda: self.replicas,
        )
        entry = NodeEntry(name, 1, "", 1)
        self.links = NodeLinks(
            "orders", entry, LinkSecurity(SECRET), _drop, lambda gone: None, node_sockets()
        )
        self.links.take_verifier = self.sender.take


def _drop(sender: str, message: Message) -> None:
    raise AssertionError


@asynccontextmanager
async def running(nodes: dict[str, DigestNode]) -> AsyncIterator[ClusterOptions]:
    addresses = {}
    for name, node in nodes.items():
        addresses[name] = f"127.0.0.1:{await node.links.listen('127.0.0.1', 0)}"
    try:
        yield ClusterOptions("orders", "", addresses, ("", 0), SECRET, None, [], [], "", "", 2)
    finally:
        for node in nodes.values():
            await node.sender.aclose()
            await node.links.aclose()


async def compared(nodes: dict[str, DigestNode]) -> Verified:
    async with running(nodes) as options:
        return await verify(options, lambda done, total: None)


async def test_a_node_that_does_not_run_is_named(tmp_path: Path) -> None:
    async with running(
        {name: DigestNode(tmp_path, name, Copies(9), END) for name in "ab"}
    ) as options:
        port = free_port()
        addresses = {**options.addresses, "c": f"127.0.0.1:{port}"}
        found = await verify(replace(options, addresses=addresses), lambda done, total: None)
    assert (found.equal, found.complete) == (True, False)
    assert found.nodes[2].problem.startswith("it cannot be reached: ")
    assert found.summary == (
        "a, b have the same up to position 9: 0 records in 0 partitions; not compared: c"
    )


END = DigestEnd(9, 7, 1, 0, 0)


async def test_digests_of_one_position_are_compared(tmp_path: Path) -> None:
    said = (DigestProgress(5, 10), END)
    nodes = {
        "a": DigestNode(tmp_path, "a", Copies(7), *said),
        "b": DigestNode(tmp_path, "b", Copies(9), *said),
    }
    found = await compared(nodes)
    assert (found.equal, found.complete, found.position) == (True, True, 9)
    assert [each.digest for each in found.nodes] == ["00000007", "00000007"]
    behind = b"".join(encode_digest(DigestBlock(0, 1, at, 0, b"", 0)) for at in (8, 9))
    assert nodes["a"].asked.read_bytes().endswith(behind)
    assert behind not in nodes["b"].asked.read_bytes()
    assert [node.copies.ended for node in nodes.values()] == [1, 1]


async def test_a_node_without_a_digest_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    nodes = {
        "a": DigestNode(tmp_path, "a", Copies(9), END),
        "b": DigestNode(tmp_path, "b", Copies(9, "the disk is low")),
        "c": DigestNode(tmp_path, "c", Copies(9), DigestEnd(8, 7, 1, 0, 0)),
        "d": DigestNode(tmp_path, "d", Copies(9), status=1),
    }
    found = await compared(nodes)
    assert [each.problem for each in found.nodes] == ["", "the disk is low", "", "no room"]
    assert [each.told() for each in found.differences] == [
        "c, unlike a: the journal ends with block 8, not 9"
    ]
    assert (found.equal, found.complete) == (False, False)
    assert found.summary == (
        "a, c do not have the same up to position 9: 1 difference; not compared: b, d"
    )


async def test_a_node_that_has_left_is_not_waited_for(tmp_path: Path) -> None:
    nodes = {name: DigestNode(tmp_path, name, Copies(9), END) for name in "ab"}
    gone = DigestNode(tmp_path, "c", Copies(8), END)
    gone.has_copy = False
    found = await compared(nodes | {"c": gone})
    assert (found.equal, found.complete) == (True, False)
    assert found.nodes[2].problem == "it has no copy: it has left, or not joined yet"


async def test_a_replica_that_only_the_nodes_know_is_named(tmp_path: Path) -> None:
    nodes = {name: DigestNode(tmp_path, name, Copies(9), END) for name in "ab"}
    nodes["b"].replicas = ["a", "b", "d"]
    found = await compared(nodes)
    assert (found.equal, found.complete) == (True, False)
    assert found.nodes[2].problem == "it has a copy, and is not in cluster_nodes"
    assert found.summary.endswith("; not compared: d")


async def test_one_node_that_is_unlike_several_others_is_to_be_repaired(tmp_path: Path) -> None:
    odd = DigestEnd(8, 7, 1, 0, 0)
    nodes = {name: DigestNode(tmp_path, name, Copies(9), END) for name in "ab"}
    found = await compared(nodes | {"c": DigestNode(tmp_path, "c", Copies(9), odd)})
    told = "a, b, c do not have the same up to position 9: 1 difference"
    assert found.summary == f"{told}: `routelog cluster repair c`"


async def test_one_digest_is_made_at_a_time_and_none_for_who_has_gone(tmp_path: Path) -> None:
    node = DigestNode(tmp_path, "a", Copies(9), END)
    node.sender._program = [sys.executable, "-c", "import time; time.sleep(60)"]
    nodes = {"a": node, "b": DigestNode(tmp_path, "b", Copies(9), END)}
    async with running(nodes) as options:
        first = asyncio.create_task(verify(options, lambda done, total: None))
        await until(lambda: bool(node.sender._tasks))
        second = await verify(options, lambda done, total: None)
        assert "somebody else compares nodes" in {each.problem for each in second.nodes}
        assert second.summary.startswith("nothing was compared")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await until(lambda: not node.sender._tasks)  # its program is ended with it
