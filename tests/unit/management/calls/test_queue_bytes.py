"""Bytes of a queue, as its batches in memory and its segments say."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, Taker, declare_queue, records, running_node, settle

from routelog.management.calls.queue_bytes import (
    LISTED_STRETCHES_MAX,
    STRETCHES_MAX,
    QueueBytes,
    queue_bytes,
)
from routelog.vhosts import Queue, QueueProperties


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as node:
        yield node


async def declared(node: Node) -> Queue:
    queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
    if done is not None:
        await done
    return queue


def counted(queue: Queue, stretches_max: int = STRETCHES_MAX) -> QueueBytes:
    return queue_bytes(queue, stretches_max)


async def test_an_empty_queue_has_none(node: Node) -> None:
    found = counted(await declared(node))
    assert found == QueueBytes()
    assert found.share(0, 0) == 0


async def test_bodies_in_memory_are_counted_until_they_are_settled(node: Node) -> None:
    queue = await declared(node)
    queue.publish(records("x" * 10, "x" * 30), False)
    queue.publish(records("x" * 5, persistent=False), False)
    assert counted(queue) == QueueBytes(45, 45, 40, 3, 2)
    taker = Taker(2)
    queue.add_consumer(taker)
    node.turns.run()
    assert (queue.ready, queue.unacked) == (1, 2)
    assert counted(queue) == QueueBytes(45, 45, 40, 3, 2)  # nothing is settled yet
    settle(taker.take()[0])
    assert counted(queue) == QueueBytes(5, 5, 0, 1, 0)
    assert counted(queue).share(1, 2) == 2


async def test_messages_behind_the_limit_count_as_those_before(node: Node) -> None:
    queue = await declared(node)
    for _ in range(10):
        queue.publish(records("x" * 10), False)
    assert counted(queue, 3).total == 100


async def test_a_list_looks_at_the_first_batches_alone(node: Node) -> None:
    queue = await declared(node)
    for _ in range(LISTED_STRETCHES_MAX):
        queue.publish(records("x" * 10), False)
    assert counted(queue, LISTED_STRETCHES_MAX) == QueueBytes(160, 160, 160, 16, 16)
    for _ in range(4):
        queue.publish(records("x" * 1_000, persistent=False), False)
    assert counted(queue, LISTED_STRETCHES_MAX) == QueueBytes(200, 200, 200, 20, 20)
    assert counted(queue) == QueueBytes(4_160, 4_160, 160, 20, 16)


async def test_a_list_looks_at_each_partition_of_a_queue(node: Node) -> None:
    arguments = {"x-partitions": 2 * LISTED_STRETCHES_MAX}
    properties = QueueProperties("wide", durable=True, arguments=arguments)
    queue, done = declare_queue(node.vhost, properties, object())
    if done is not None:
        await done
    for partition in queue.partitions:
        for _ in range(3):
            partition.log.append(records("x" * 10), False)
    expected = 2 * LISTED_STRETCHES_MAX * 30
    assert counted(queue, LISTED_STRETCHES_MAX) == QueueBytes(
        expected, expected, expected, expected // 10, expected // 10
    )


async def test_what_is_on_the_disk_alone_counts_by_its_segment(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue = await declared(node)
        for _ in range(10):
            queue.publish(records("x" * 1_000), False)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        found = counted(queue)
        assert found.in_memory == 0
        assert 10_000 <= found.total == found.persistent < 12_000
