"""The queue side of a broker whose journal is a replica's; the test says what is committed, and who leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from support.queue_samples import Node, Turns
from support.waiting import until
from unit.log_backend.open_store import copy_of

from routelog.log_backend import BlockApplier, JournalExtent, LogOptions, LogStore, SystemDisk
from routelog.log_backend.journal.journal_block import decode_entries
from routelog.log_backend.journal.journal_chain import Mark, ShardBlock
from routelog.vhosts import DeclaredPartitions

SHARD = 0
BLOCKS_BYTES_MAX = 64 * 1024 * 1024  # more than a test has
OPTIONS = LogOptions(journal_file_bytes=1024 * 1024, flush_seconds=3600, emptied_seconds=3600)

T = TypeVar("T")


class ReplicatedNode(Node):
    """One process on a data directory: a follower, until it is to lead.

    Attributes:
        connected: what is durable here is committed. Without that nothing is, as when no other replica answers.
        made: the blocks that it made as a leader.
    """

    def __init__(self, data: Path) -> None:
        turns = Turns()
        loop = asyncio.get_running_loop()
        self.data = data
        self.connected = True
        self.made: list[ShardBlock] = []
        self._cut: list[int] = []
        logs = LogStore(data, SystemDisk(), turns.clock, loop, OPTIONS)
        super().__init__(logs, logs.metadata_writer, turns)
        logs.journal.replicate(SHARD, self, JournalExtent(logs.metadata).committed)
        logs.recover_metadata()

    async def open(self) -> None:
        """Load the definitions, and follow."""
        logs = self.logs
        await self.definitions.load()
        records = DeclaredPartitions(logs.metadata)
        self.follower = BlockApplier(logs, records, definitions=self.definitions)
        logs.journal.follow()

    async def lead(self, epoch: int) -> None:
        """Begin an epoch, and serve."""
        journal = self.logs.journal
        for block in await journal.read(journal.committed, BLOCKS_BYTES_MAX):
            self.follower.apply(block.position, decode_entries(block.payload))
        journal.lead(epoch)
        await until(lambda: journal.committed == journal.end.position and journal.groups.gathers)
        gone = await self.definitions.forget_transient()
        await self.vhosts.open_logs()
        self.logs.recover()
        await self.vhosts.recovered()
        self.logs.start(epoch)
        if gone:
            self.writer.submit(gone)
        await self.vhosts.load_memories()
        await self.vhosts.add("/")

    async def drained(self) -> None:
        """Wait until all that is done is durable here."""
        journal = self.logs.journal
        while self.logs.checkpoints.with_state or journal.groups.has_more:
            await journal.drain()
        await until(lambda: journal.durable == journal.end.position)

    async def cut(self, position: int) -> None:
        """Cut what is behind a position, as another leader does not have it."""
        self.logs.journal.truncate(position)
        await until(lambda: self.logs.journal.end.position == position)

    async def follow(self, blocks: Iterable[ShardBlock]) -> None:
        """Cut what is not committed, then store and apply what another leader made."""
        journal = self.logs.journal
        blocks = list(blocks)
        behind = blocks[0].position - 1 if blocks else journal.end.position
        for block in await journal.read(journal.committed, BLOCKS_BYTES_MAX):
            if block.position <= behind:  # it was committed, and this node was not told
                self.follower.apply(block.position, decode_entries(block.payload))
                journal.commit(block.position)
        if journal.end.position > behind:
            journal.truncate(behind)
            await until(lambda: self._cut)
        for block in blocks:
            journal.store([block])
            await until(lambda: journal.durable == journal.end.position)
            self.follower.apply(block.position, decode_entries(block.payload))
            journal.commit(block.position)

    async def killed(self, name: str) -> Path:
        """What is left of its data when the process is killed at this moment."""
        logs = self.logs
        for executor in (logs.journal.supply._executor, logs._flusher):
            await asyncio.get_running_loop().run_in_executor(executor, str)
        return copy_of(self.data, self.data.parent / name)

    async def aclose(self) -> None:
        """End the process of the test; what it leaves is not looked at any more."""
        self.connected = True
        journal = self.logs.journal
        if journal.durable > journal.committed and journal.groups.gathers:
            journal.commit(journal.durable)
        await self.logs.aclose()

    # -- see `ReplicaEvents`

    def on_block(self, block: ShardBlock) -> None:
        """See `ReplicaEvents`."""
        self.made.append(block)

    def on_durable(self, end: Mark) -> None:
        """See `ReplicaEvents`."""
        if self.connected and self.logs.journal.groups.gathers:
            self.logs.journal.commit(end.position)

    def on_truncated(self, position: int) -> None:
        """See `ReplicaEvents`."""
        self._cut.append(position)

    def on_recycled(self, base: Mark) -> None:
        """See `ReplicaEvents`."""


@asynccontextmanager
async def replicated_node(data: Path, now: int = 0) -> AsyncIterator[ReplicatedNode]:
    """A node that follows.

    Args:
        now: what time it is, if it is later than when clocks of tests begin (us since 1970).
    """
    node = ReplicatedNode(data)
    node.turns.clock.microseconds = max(node.turns.clock.microseconds, now)
    try:
        await node.open()
        yield node
    finally:
        await node.aclose()


Work = Callable[[ReplicatedNode], Awaitable[T]]


async def there_and_back(
    directory: Path,
    before: Work[object],
    uncommitted: Work[object],
    elsewhere: Work[object],
    *,
    committed: Work[object] | None = None,
) -> Path:
    """A leads and is cut off, B leads and confirms at the same offsets, A follows B.

    Args:
        before: done by A, before B comes with a copy of its data.
        committed: done by A then; B follows.
        uncommitted: done by A when no other replica answers.
        elsewhere: done by B, committed.

    Returns:
        The data of A, which was killed as a follower that has all of B's.
    """
    async with replicated_node(directory / "a") as a:
        await a.lead(1)
        await before(a)
        await a.drained()
        common, count = await a.killed("b"), len(a.made)
        if committed is not None:
            await committed(a)
            await a.drained()
        shipped = a.made[count:]
        a.connected = False
        await uncommitted(a)
        await a.drained()
        now = a.turns.clock.now()
        deposed = await a.killed("deposed")
    async with replicated_node(common, now) as b:
        await b.follow(shipped)
        await b.lead(2)
        await elsewhere(b)
        await b.drained()
        made = list(b.made)
    async with replicated_node(deposed, now) as follower:
        await follower.follow(made)
        return await follower.killed("following")
