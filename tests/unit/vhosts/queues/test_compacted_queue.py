"""Readers, a group and a search of a stream, across passes of compaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.queue_samples import Node, Taker, declare_queue, give_back, running_node
from unit.log_backend.compacted_log import Stored, compact_here, folded, idle, read_from
from unit.log_backend.log_records import records
from unit.log_backend.open_store import flushed

from routelog.log_backend import LogOptions
from routelog.log_backend.doors.disk import SystemDisk
from routelog.vhosts import GroupOptions, Queue, QueueProperties
from routelog.vhosts.messages.delivery import Delivery
from routelog.vhosts.queues.message_search import MessageFilter, MessageSearch, Place

ARGUMENTS: dict[str, object] = {
    "x-queue-type": "stream",
    "x-cleanup-policy": "compact",
    "x-durability": "memory",  # visible at once
}
# Nothing flushed stays in memory.
SMALL = LogOptions(
    journal_file_bytes=1024 * 1024, segment_bytes=65_536, flush_seconds=3600, memory_tail_bytes=1
)
KEYS = 4


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, SMALL) as running:
        compact_here(running.logs, SystemDisk())
        yield running


@pytest.fixture
async def queue(node: Node) -> Queue:
    properties = QueueProperties("q", durable=True, arguments=ARGUMENTS)
    queue, declared = declare_queue(node.vhost, properties, object())
    assert declared is not None
    await declared
    return queue


def publish(queue: Queue, rounds: int) -> list[Stored]:
    """Give each key so many values, a batch of 40 KB a round."""
    stored: list[Stored] = []
    for number in range(rounds):
        first = queue.partitions[0].log.next_offset
        keys = [b"key %d" % key for key in range(KEYS)]
        bodies = [b"%d" % number + bytes(10_000)] * KEYS
        queue.publish(records(bodies, routing_keys=keys), waited=False)
        offsets = range(first, first + KEYS)
        stored += map(Stored, offsets, keys, bodies)
    return stored


async def compacted(node: Node) -> None:
    await flushed(node.logs)
    await idle(node.logs)


async def received(node: Node, taker: Taker, end: int) -> list[Stored]:
    """What a consumer gets up to the record before an offset."""
    got: list[Stored] = []
    async with asyncio.timeout(30):
        while not got or got[-1].offset < end - 1:
            node.turns.run()
            await asyncio.sleep(0.001)
            for delivery in taker.take():
                got += contents(delivery)
    return got


def contents(delivery: Delivery) -> Iterator[Stored]:
    content = delivery.records
    for at in range(delivery.count):
        index = delivery.index + at
        yield Stored(delivery.offset + at, content.routing_key(index), content.body(index))


async def test_a_reader_and_a_group_go_on_across_passes(node: Node, queue: Queue) -> None:
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert made is not None
    await made
    stored = publish(queue, 8)
    slow, member = Taker(6), Taker(6)
    queue.add_reader(slow, "first", 0)
    queue.join_group(group, member)
    node.turns.run()
    early = [each for delivery in slow.take() for each in contents(delivery)]
    held = member.take()
    assert len(early) == sum(delivery.count for delivery in held) == 6
    await compacted(node)
    assert node.logs.compactor.passes == 1
    stored += publish(queue, 20)
    await compacted(node)
    assert node.logs.compactor.passes > 1
    # What comes back to the group is not in the log any more, but for what is still in memory.
    for delivery in held:
        give_back(delivery)
    member.unacked = 0
    for taker in (slow, member):
        taker.unacked, taker.prefetch = 0, None
    queue.wake()
    group.on_ready()
    end = len(stored)
    got = [*early, *(await received(node, slow, end))]
    assert len(got) < end
    assert folded(got) == folded(stored)
    shared = await received(node, member, end)
    assert len(shared) < end
    assert folded(shared) == folded(stored)
    assert group.ready == 0
    for each in shared:
        group.partitions[0].settle(each.offset, each.offset + 1)
    assert (group.unacked, group.partitions[0].cursor.low_water) == (0, end)


async def test_a_search_passes_over_holes(node: Node, queue: Queue) -> None:
    stored = publish(queue, 20)
    await compacted(node)
    search = MessageSearch(queue, MessageFilter(), [Place(0, 0)])
    found = [
        Stored(each.offset, each.records.routing_key(each.index), each.records.body(each.index))
        async for each in search.found()
    ]
    assert len(found) < len(stored)
    assert folded(found) == folded(stored)


async def test_offsets_in_holes_are_places_to_begin_at(node: Node, queue: Queue) -> None:
    stored = publish(queue, 20)
    await compacted(node)
    (first, *_) = await read_from(queue.partitions[0].log, 0)
    assert first.offset > 3
    for wanted in (0, 1, first.offset, "first", -len(stored)):
        taker = Taker()
        queue.add_reader(taker, wanted, 0)
        got = await received(node, taker, len(stored))
        assert got[0] == first
        queue.detach([taker])
