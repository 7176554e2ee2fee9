"""A follower is given the blocks of a leader that does anything: after each of them both have the same logs."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

import pytest
from support.log_states import LogState, states_of
from support.queue_samples import declare_queue, delete_queue
from unit.log_backend.log_records import records
from unit.log_backend.open_store import MIB, copy_of, crash, durable, open_store

from routelog.exchanges import Exchange
from routelog.log_backend import (
    BlockApplier,
    LogOptions,
    LogStore,
    PartitionLog,
    SettledEntries,
    SettledPart,
    Settlement,
    scheduler_of,
)
from routelog.log_backend.journal.journal_block import Block
from routelog.log_backend.journal.journal_chain import START
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_reader import JournalReader
from routelog.log_backend.partitions.cursor import Cursor
from routelog.vhosts import (
    DeclaredPartitions,
    GroupOptions,
    Queue,
    QueueProperties,
    VhostDirectory,
    VirtualHost,
)

SEEDS = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "8"))
ROUNDS = 12
OPERATIONS = 12  # of a round
# One file has all blocks of the leader: nothing is recycled while they are read.
LEADER = LogOptions(
    journal_file_bytes=4 * MIB,
    segment_bytes=4_096,
    flush_seconds=3600,
    retention_seconds=3600,
    emptied_seconds=3600,
)
FOLLOWER = LogOptions(
    journal_file_bytes=MIB,
    segment_bytes=8_192,
    memory_tail_bytes=16_384,
    flush_seconds=0.01,
    retention_seconds=0.01,
    emptied_seconds=0.02,
)
KINDS: tuple[dict[str, object], ...] = (
    {},
    {"x-partitions": 3},
    {"x-queue-type": "stream", "x-max-length-bytes": 8_192},
    {"x-retention": "1h", "x-partitions": 2},
    {"x-retention": "0s", "x-compression": "zstd"},
)
NAMES = ("a", "b", "c", "d", "e")


def vhosts_of(store: LogStore) -> VhostDirectory:
    """The vhosts of a store, which are not loaded."""
    loop = asyncio.get_running_loop()
    return VhostDirectory(store, store.metadata_writer, scheduler_of(loop), loop.call_later)


async def start(store: LogStore, epoch: int) -> VirtualHost:
    """Start as a broker does, from what the metadata have."""
    vhosts = vhosts_of(store)
    await vhosts.load(store.metadata)
    await vhosts.open_logs()
    store.recover()
    await vhosts.recovered()
    store.start(epoch)
    await vhosts.load_memories()
    return await vhosts.add("/")


class Leader:
    """A store with a vhost, in which anything is done.

    Attributes:
        blocks: all of its journal.
    """

    def __init__(self, data: Path, choice: random.Random) -> None:
        self.data = data
        self.store = open_store(data, LEADER)
        self.blocks: list[Block] = []
        self._choice = choice
        self._answers: list[Awaitable[object]] = []
        self._body = 0

    async def start(self) -> None:
        self.store.recover_metadata()
        self.vhost = await start(self.store, 1)

    async def work(self) -> list[Block]:
        """Do something, and return the blocks that tell of it."""
        for _ in range(OPERATIONS):
            operation = self._choice.choices(
                (self.declare, self.delete, self.publish, self.fan_out, self.settle, self.transact,
                 self.group, self.exchange, self.purge, self.flush, self.expire),
                (3, 1, 8, 4, 8, 3, 3, 1, 1, 2, 1),
            )[0]  # fmt: skip
            await operation()
        await asyncio.gather(*self._answers)
        self._answers.clear()
        journal = self.store.journal
        while self.store.checkpoints.with_state or not journal.groups.is_idle:
            await journal.drain()
        reader = JournalReader(journal.supply.files)
        new = [block for block in reader.blocks() if block.position > len(self.blocks)]
        self.blocks += new
        return new

    def _queue(self) -> Queue | None:
        queues = sorted(self.vhost.queues.values(), key=lambda queue: queue.name)
        return self._choice.choice(queues) if queues else None

    def _await(self, durable: Awaitable[object] | None) -> None:
        if durable is not None:
            self._answers.append(durable)

    async def declare(self) -> None:
        name = self._choice.choice(NAMES)
        if name in self.vhost.queues:
            return
        properties = QueueProperties(name, durable=True, arguments=self._choice.choice(KINDS))
        self._await(declare_queue(self.vhost, properties, None)[1])

    async def delete(self) -> None:
        if queue := self._queue():
            self._await(delete_queue(self.vhost, queue))

    async def exchange(self) -> None:
        name = self._choice.choice(("history", "delayed"))
        if self.vhost.routing.has_exchange(name):
            self._await(self.vhost.delete_exchange(name, if_unused=False))
            return
        kind = {"history": "x-recent-history", "delayed": "x-delayed-message"}[name]
        arguments = {"x-delayed-type": "direct"} if name == "delayed" else {}
        declared = self.vhost.declare_exchange(
            Exchange(name, kind, durable=True, arguments=arguments)
        )
        self._await(declared)

    def _append(self, *logs: PartitionLog) -> None:
        bodies = []
        for _ in range(self._choice.randint(1, 4)):
            self._body += 1
            bodies.append(b"%d " % self._body * self._choice.randint(1, 200))
        content = records(bodies)
        for log in logs:
            log.append(content, waited=self._choice.random() < 0.5)

    async def publish(self) -> None:
        if queue := self._queue():
            self._append(self._choice.choice(queue.partitions).log)

    async def fan_out(self) -> None:
        self._append(*(queue.partitions[-1].log for queue in self.vhost.queues.values()))

    def _ranges(self, cursor: Cursor, end: int) -> tuple[int, int]:
        first = min(cursor.low_water + self._choice.randint(0, 5), end)
        return first, min(first + self._choice.randint(0, 8), end)

    async def settle(self) -> None:
        if queue := self._queue():
            log = self._choice.choice(queue.partitions).log
            cursor = log.cursors[self._choice.choice(list(log.cursors))]
            if queue.is_stream and not cursor.number:
                return
            first, end = self._ranges(cursor, log.next_offset)
            cursor.hand_out(end)
            if self._choice.random() < 0.3:
                cursor.redeliver(first, end)
            else:
                cursor.settle(first, end)
                log.release()

    async def transact(self) -> None:
        queues = [each for each in (self._queue(), self._queue()) if each and not each.is_stream]
        if not queues:
            return
        log = queues[0].partitions[0].log
        first, end = self._ranges(log.open_cursor(), log.next_offset)
        entries = SettledEntries([SettledPart(log.number, Settlement(0, [(first, end)]))])
        transaction = self.store.transaction()
        for queue in queues:
            append = partial(self._append, queue.partitions[-1].log)
            transaction.append(append, [entries] if queue is queues[0] else ())
        transaction.end()
        while transaction.show_some():
            pass
        await durable(self.store, transaction.position)
        log.open_cursor().settle(first, end)
        log.release()

    async def group(self) -> None:
        queue = self._queue()
        if queue is None or queue.partitions[0].log.retention is None or queue.declaring:
            return
        name = self._choice.choice(("g", "h"))
        group = queue.groups.get(name)
        if group is None:
            where = self._choice.choice(("first", "next"))
            self._await(self.vhost.hosted.groups.join(queue, GroupOptions(name), where, 0)[1])
        elif group.creating is None and self._choice.random() < 0.3:
            self._await(self.vhost.hosted.groups.delete(group))

    async def purge(self) -> None:
        if (queue := self._queue()) and not queue.is_stream:
            queue.purge()

    async def flush(self) -> None:
        await self.store.journal.drain()
        await self.store.checkpoints.flush()

    async def expire(self) -> None:
        for log in list(self.store.partitions.values()):
            log.expire()


class Copy:
    """A follower's store, which is closed and killed now and then.

    What stores the leader's blocks in its journal is another's: a copy of the leader's journal stands for it.
    """

    def __init__(self, data: Path, leader: Leader, choice: random.Random) -> None:
        self.data = data
        self._leader = leader
        self._choice = choice
        self._open()

    def _open(self) -> None:
        self.store = open_store(self.data, FOLLOWER)
        self.store.recover_metadata()
        self.follower = BlockApplier(self.store, DeclaredPartitions(self.store.metadata))

    async def restart(self, *, killed: bool) -> None:
        """Stop, and go on with what the journal has; some blocks come once more."""
        position = self.follower.applied
        last = JournalExtent(self._leader.store.metadata).last
        self.store.metadata.apply(JournalExtent.only(last, START))
        self.store.metadata.apply([JournalExtent.begins_with(1, START)])
        left = await crash(self.store, self.data, f"{self.data.name}+") if killed else self.data
        await self.store.aclose()
        self.data = left
        shutil.rmtree(left / "journal")
        copy_of(self._leader.data / "journal", left / "journal")
        self._open()
        assert self.follower.applied >= position
        for block in self._leader.blocks[self._choice.randrange(position) :]:
            self.follower.apply(block.position, block.entries)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_follower_has_what_its_leader_has_and_serves_it(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    leader = Leader(tmp_path / "leader", choice)
    await leader.start()
    copy = Copy(tmp_path / "copy", leader, choice)
    for _ in range(ROUNDS):
        new = await leader.work()
        for block in new:
            copy.follower.apply(block.position, block.entries)
            if choice.random() < 0.1:
                await asyncio.sleep(0.01)  # it flushes
        assert copy.follower.applied == len(leader.blocks)
        expected = await states_of(leader.store)
        assert await states_of(copy.store) == expected
        event = choice.random()
        if event < 0.3:
            await copy.store.checkpoints.take()
        elif event < 0.6:
            await copy.restart(killed=event < 0.45)
        assert await states_of(copy.store) == expected
    await copy.restart(killed=True)
    await leader.store.aclose()
    await leads(copy, leader, expected)


async def leads(copy: Copy, leader: Leader, expected: dict[int, LogState]) -> None:
    """The follower becomes a broker that has what the leader had, and goes on."""
    partitions = dict(copy.store.partitions)
    # The retention of streams goes on by itself from here on.
    for number in [number for number in expected if partitions[number].is_stream]:
        del expected[number]
    vhost = await start(copy.store, 2)
    assert vhost.queues.keys() == leader.vhost.queues.keys()
    assert await states_of(copy.store, with_streams=False) == expected
    for name, queue in vhost.queues.items():
        theirs = leader.vhost.queues[name]
        assert [each.log for each in queue.partitions] == [
            partitions[each.log.number] for each in theirs.partitions
        ]
        assert queue.groups.keys() == theirs.groups.keys()
        log = queue.partitions[0].log
        end = log.next_offset
        await durable(copy.store, log.append(records([b"of the new leader"]), waited=True))
        log.open_cursor().settle(end, end + 1)
    while copy.store.checkpoints.with_state:
        await copy.store.journal.drain()
    expected = await states_of(copy.store, with_streams=False)
    await copy.store.aclose()
    store = open_store(copy.data, FOLLOWER)
    store.recover_metadata()
    await start(store, 3)
    assert await states_of(store, with_streams=False) == expected
    directories = {path.name for path in (copy.data / "logs").glob("*/*")}
    known = {log.directory.name for log in store.partitions.values()}
    assert directories <= known  # what was deleted has left nothing
    await store.aclose()
