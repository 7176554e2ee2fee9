"""A group that a forced retention overtakes, and one that holds what it needs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    give_back,
    numbered,
    records,
    running_node,
    settle,
)
from unit.log_backend.open_store import flushed

from routelog.log_backend import LogOptions, RecordBatch
from routelog.log_backend.segments.damage import Damage
from routelog.log_backend.segments.segment import Segment
from routelog.vhosts import ConsumerGroup, GroupOptions, Queue, QueueProperties
from routelog.vhosts.queues.consumer_group import GroupPartition

SMALL = LogOptions(journal_file_bytes=1024 * 1024, segment_bytes=65_536, flush_seconds=3600)
LIMITED = {"x-queue-type": "stream", "x-max-length-bytes": 100_000}
FORCED = LIMITED | {"x-retention-force": True}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, SMALL, clocked=True) as running:
        yield running


async def begin(node: Node, arguments: dict[str, object]) -> tuple[Queue, ConsumerGroup]:
    arguments = arguments | {"x-durability": "memory"}  # visible at once
    properties = QueueProperties("q", durable=True, arguments=arguments)
    queue, declared = declare_queue(node.vhost, properties, object())
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert declared is not None
    assert made is not None
    await declared
    await made
    return queue, group


async def fill_segments(node: Node, queue: Queue, count: int = 40) -> None:
    """Batches of 100 records and 10 KiB, about six a segment."""
    for _ in range(count):
        queue.publish(records(*(bytes(100) for _ in range(100))), waited=False)
        await flushed(node.logs)


def offsets(taker: Taker) -> list[int]:
    return [
        offset
        for delivery in taker.take()
        for offset in range(delivery.offset, delivery.offset + delivery.count)
    ]


async def test_what_a_group_has_not_settled_is_held_against_limits(node: Node) -> None:
    queue, group = await begin(node, LIMITED)
    log = queue.partitions[0].log
    await fill_segments(node, queue)
    assert log.first_offset == 0
    assert group.ready == 4_000
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    for delivery in taker.take():
        settle(delivery)
    log.expire()
    assert log.first_offset > 2_500


async def test_a_forced_retention_goes_on_and_says_what_the_group_lost(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    queue, group = await begin(node, FORCED)
    log = queue.partitions[0].log
    with caplog.at_level(logging.WARNING):
        await fill_segments(node, queue)
    assert log.first_offset > 2_500
    assert group.ready == 4_000 - log.first_offset
    lost = [record.getMessage() for record in caplog.records]
    assert all("group 'g' of queue 'q' in vhost '/' lost" in text for text in lost)
    assert sum(int(text.split(" lost ")[1].split()[0]) for text in lost) == log.first_offset
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    assert offsets(taker) == list(range(log.first_offset, 4_000))


async def test_what_was_handed_out_or_returned_before_is_overtaken_too(node: Node) -> None:
    queue, group = await begin(node, FORCED)
    log = queue.partitions[0].log
    queue.publish(records(*numbered(0, 10)), waited=False)
    taker = Taker(prefetch=6)
    queue.join_group(group, taker)
    node.turns.run()
    (held,) = taker.take()
    held.partition.give_back(0, 2)
    held.partition.settle(2, 3)
    assert (group.ready, group.unacked) == (6, 3)
    queue.detach([taker])
    await fill_segments(node, queue)
    assert (group.ready, group.unacked) == (4_010 - log.first_offset, 3)
    held.partition.settle(3, 4)
    held.partition.give_back(4, 6)
    assert (group.ready, group.unacked) == (4_010 - log.first_offset, 0)
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    assert offsets(taker) == list(range(log.first_offset, 4_010))
    assert group.ready == 0


async def test_what_comes_back_across_the_border_comes_back_from_there(node: Node) -> None:
    queue, group = await begin(node, FORCED)
    queue.publish(records(*numbered(0, 10)), waited=False)
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    partition = group.partitions[0]
    assert isinstance(partition, GroupPartition)
    partition.overtaken(4)
    partition.overtaken(3)  # behind where it is
    (held,) = taker.take()
    give_back(held)
    assert (group.ready, group.unacked) == (6, 0)
    node.turns.run()
    assert offsets(taker) == list(range(4, 10))


async def test_a_queue_with_retention_is_forced_by_age_and_only_for_groups(node: Node) -> None:
    queue, group = await begin(node, {"x-retention": "1h", "x-retention-force": True})
    log = queue.partitions[0].log
    await fill_segments(node, queue, 20)
    for segment in log.segments:
        assert segment.written_at is not None
        segment.written_at -= 2 * 3_600
    log.expire()
    assert (log.first_offset, group.ready, queue.ready) == (0, 2_000, 2_000)
    own = Taker(no_ack=True)
    queue.add_consumer(own)
    node.turns.run()
    log.expire()
    assert (log.first_offset, group.ready) == (2_000, 0)


async def test_groups_far_behind_each_other_do_not_read_everything_again_and_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, _ = await begin(node, {"x-retention": "1h"})
    await fill_segments(node, queue, 100)
    log = queue.partitions[0].log
    log.evict(10**9)
    takers = []
    for number in range(4):
        options = GroupOptions(f"at {number}")
        group, made = node.vhost.hosted.groups.join(queue, options, number * 2_000, 0)
        assert made is not None
        await made
        takers.append(Taker(prefetch=10))
        queue.join_group(group, takers[-1])
    loads: list[asyncio.Future[list[RecordBatch]]] = []
    load = node.logs.load

    def counted(segment: Segment, offset: int) -> asyncio.Future[list[RecordBatch]]:
        loads.append(load(segment, offset))
        return loads[-1]

    monkeypatch.setattr(node.logs, "load", counted)
    got = [0, 0, 0, 0]
    while got != [10_000, 8_000, 6_000, 4_000]:
        for group in queue.groups.values():
            group.wake()
        node.turns.run()
        before = sum(got)
        for number, taker in enumerate(takers):
            got[number] += len(taker.bodies())
            taker.settle_all()
        if sum(got) == before:
            # Awaited, not looked at again and again: a loop that never rests starves the thread that reads.
            assert not loads[-1].done(), got
            async with asyncio.timeout(30):
                await loads[-1]
    assert len(loads) <= 4 * (len(log.segments) + 1)


async def test_what_becomes_visible_is_delivered_while_another_partition_stands(node: Node) -> None:
    arguments = {"x-queue-type": "stream", "x-partitions": 2, "x-partition-strategy": "round-robin"}
    properties = QueueProperties("q", durable=True, arguments=arguments)
    queue, declared = declare_queue(node.vhost, properties, object())
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert declared is not None
    assert made is not None
    await made
    for body in numbered(0, 4):
        queue.publish(records(body), waited=True)
    await node.logs.journal.drain()
    queue.partitions[0].log.quarantine(Damage("x.log", 0, "a flipped bit", 1, 2))
    taker = Taker()
    queue.join_group(group, taker)
    node.turns.run()
    assert taker.bodies() == ["m0", "m1", "m3"]
    for body in numbered(4, 6):
        queue.publish(records(body), waited=True)
    node.turns.run()  # the group finds nothing visible
    await node.logs.journal.drain()
    node.turns.run()
    assert taker.bodies() == ["m0", "m1", "m3", "m5"]
