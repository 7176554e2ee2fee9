"""Blocks on their way to followers: in order, whether they are in memory or read from the disk."""

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random

import pytest
from unit.mirror_cluster.journals import SHARD, blocks

from routelog.log_backend import ShardBlock
from routelog.mirror_cluster.node import shipping
from routelog.mirror_cluster.node.shipping import RecentBlocks, Shipping
from routelog.mirror_cluster.protocol.messages import Append
from routelog.mirror_cluster.replica.actions import Ship
from routelog.mirror_cluster.replica.chain import Chain


class Journal:
    """A journal whose reads wait, and a follower's messages."""

    def __init__(self, count: int, in_memory: int) -> None:
        self.blocks = blocks(*[1] * count, after=Chain())
        self.recent = RecentBlocks(in_memory)
        for block in self.blocks:
            self.recent.add(block)
        self.reads: list[int] = []
        self.may_read = asyncio.Event()
        self.sent: list[Append] = []
        self.tasks: list[asyncio.Task] = []
        self.shipping = Shipping(SHARD, self.recent, self, self.send, self.spawn)

    def send(self, to: str, message: Append) -> None:
        self.sent.append(message)

    def spawn(self, work: Coroutine) -> asyncio.Task:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    async def read(self, after: int, bytes_max: int) -> Sequence[ShardBlock]:
        await self.may_read.wait()
        self.reads.append(after)
        return self.blocks[after : after + bytes_max]

    def ship(self, after: int, end: int, session: int = 1) -> None:
        self.shipping.ship(Ship("b", 1, session, after, end, 0, 0.0))

    async def done(self) -> list[list[int]]:
        """What the follower was sent: positions, a list for each message."""
        self.may_read.set()
        await asyncio.gather(*self.tasks)
        for message in self.sent:
            positions = [block.position for block in message.blocks]
            count = len(positions)
            assert positions == list(range(message.after + 1, message.after + 1 + count))
        return [[block.position for block in message.blocks] for message in self.sent]


async def test_what_is_in_memory_is_sent_at_once() -> None:
    journal = Journal(5, in_memory=3)
    journal.ship(2, 4)
    journal.ship(4, 4)
    journal.ship(4, 5)
    assert [len(each.blocks) for each in journal.sent] == [2, 0, 1]
    assert await journal.done() == [[3, 4], [], [5]]
    assert not journal.reads


async def test_what_comes_behind_a_read_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "APPEND_BYTES_MAX", 2)
    journal = Journal(8, in_memory=3)
    journal.ship(0, 7)
    journal.ship(7, 7)
    journal.ship(7, 8)
    await asyncio.sleep(0)
    assert not journal.sent
    assert await journal.done() == [[1, 2], [3, 4], [5, 6], [7], [], [8]]
    assert journal.reads == [0, 2, 4]
    journal.ship(6, 8)
    assert journal.sent[-1].after == 6, "what waited is forgotten"


async def test_a_session_that_has_ended_is_sent_no_more() -> None:
    journal = Journal(4, in_memory=1)
    journal.ship(0, 4, session=1)
    journal.ship(4, 4, session=1)
    journal.ship(0, 4, session=2)
    await journal.done()
    assert {message.session for message in journal.sent} <= {1, 2}
    assert [message.session for message in journal.sent].count(1) <= 1
    assert journal.sent[-1].session == 2


async def test_recycled_blocks_are_left_out() -> None:
    journal = Journal(4, in_memory=1)
    journal.blocks = []
    journal.ship(0, 2)
    journal.ship(3, 4)
    assert await journal.done() == [[4]]


BYTES_MAX = 6  # each block of `blocks` has one


def test_it_has_the_newest_and_no_others() -> None:
    randomness = Random(1)
    chain, recent = Chain(), RecentBlocks(BYTES_MAX)
    kept: list[ShardBlock] = []
    for _ in range(500):
        if randomness.random() < 0.2:
            position = max(chain.end_position - randomness.randrange(4), 0)
            chain.truncate(position)
            recent.truncate(position)
            kept = [each for each in kept if each.position <= position]
        (block,) = blocks(1, after=chain)
        recent.add(block)
        kept = [*kept, block][-BYTES_MAX:]
        first, end = kept[0].position, kept[-1].position
        for after in range(max(first - 3, 0), end + 1):
            wanted = [each for each in kept if after < each.position]
            whole = after + 1 >= first
            assert list(recent.between(after, end)) == (wanted if whole else [])
        assert not recent.between(end - 1, end + 1), "it is not there yet"


def test_behind_a_gap_it_begins_anew() -> None:
    chain, recent = Chain(), RecentBlocks(100)
    made = blocks(1, 1, 1, 1, after=chain)
    recent.add(made[0])
    recent.add(made[2])
    recent.add(made[3])
    assert list(recent.between(2, 4)) == made[2:]
    assert not recent.between(0, 1)


def test_one_block_is_kept_however_long_it_is() -> None:
    chain, recent = Chain(), RecentBlocks(0)
    first, second = blocks(1, 2, after=chain)
    recent.add(first)
    recent.add(second)
    assert list(recent.between(1, 2)) == [second]
