"""What a node gives the program that makes its digest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.waiting import until

from routelog.log_backend import START, DigestStand, ShardBlock, encode_digest
from routelog.mirror_cluster.links.copy_stream import receive_digest
from routelog.mirror_cluster.node.digest_sender import DigestSender

if TYPE_CHECKING:
    from collections.abc import Iterator

# It makes a file when it has read a task and a block, and reads the rest.
PROGRAM = """
import pathlib, sys
stream = sys.stdin.buffer
for _ in range(2):
    stream.read(int.from_bytes(stream.read(4), "little"))
pathlib.Path(sys.argv[1]).touch()
stream.read()
"""


class Node:
    """Its journal, in which the second read waits, and its copy of position 0."""

    def __init__(self) -> None:
        first = ShardBlock.following(START, 0, 1, b"a" * 1_000)
        self._blocks = [first, ShardBlock.following(first.mark, 0, 1, b"b" * 1_000)]
        self.committed = 2
        self.reads: list[int] = []
        self.may_go_on = asyncio.Event()
        self.keeps_journal = False
        self.position = 0
        self.files: list[Any] = []
        self.taken = asyncio.get_running_loop().create_future()
        self.taken.set_result(None)
        self.has_ended = False

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        self.reads.append(after)
        if after:
            await self.may_go_on.wait()
        return self._blocks[after : after + 1]

    def begin(self) -> Node:
        return self

    def check(self) -> None:
        assert not self.has_ended

    def end(self) -> None:
        self.has_ended = True

    @contextmanager
    def keeping_journal(self) -> Iterator[None]:
        self.keeps_journal = True
        try:
            yield
        finally:
            self.keeps_journal = False


@pytest.fixture
async def operator(tmp_path: Path) -> Any:
    """Both ends of a connection."""
    ends: list[asyncio.StreamWriter] = []
    is_there = asyncio.Event()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        is_there.set()

    server = await asyncio.start_unix_server(connected, tmp_path / "s")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
    await is_there.wait()
    yield SimpleNamespace(reader=reader, writer=writer, node=ends[0].transport)
    writer.close()
    server.close()


async def test_blocks_behind_a_copy_are_read_as_the_program_takes_them(
    operator: Any, tmp_path: Path
) -> None:
    node, has_read = Node(), tmp_path / "has read"
    program = [sys.executable, "-c", PROGRAM, str(has_read)]
    sender = DigestSender(
        cast(Any, node), cast(Any, node), program, lambda: True, lambda: ["a", "b"]
    )
    sender.take("operator", operator.node, b"")
    stand = await receive_digest(operator.reader)
    assert stand == DigestStand(0, replicas=["a", "b"])
    operator.writer.write(encode_digest(DigestStand(2)))
    await until(has_read.exists)
    await until(lambda: node.reads == [0, 1])
    assert node.keeps_journal
    node.may_go_on.set()
    await until(lambda: node.has_ended)
    assert not node.keeps_journal
    await sender.aclose()
