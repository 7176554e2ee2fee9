"""Priorities over one log: order, slices of what is looked at, and what is on the disk.

Random work is compared with a list in tests/property/test_queue_rules.py.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands
from support.queue_samples import Node, bodies, declare_queue, give_back, got, running_node
from unit.log_backend.open_store import flushed

from routelog.log_backend import EXPIRING, PERSISTENT, LogOptions, Records, encode_records
from routelog.vhosts import Answer, Delivery, Queue, QueueProperties, value_of
from routelog.vhosts.partitions.priority_levels import PriorityLevels, ReadyRange
from routelog.vhosts.partitions.priority_order import MESSAGES_MAX


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    options = LogOptions(journal_file_bytes=1 << 20, memory_tail_bytes=1 << 18, flush_seconds=60)
    async with running_node(tmp_path, options) as node:
        yield node


async def declared(node: Node, highest: int = 3, *, durable: bool = False) -> Queue:
    properties = QueueProperties("q", durable=durable, arguments={"x-max-priority": highest})
    queue, done = declare_queue(node.vhost, properties, None)
    if done is not None:
        await done
    return queue


def urgent(
    *messages: tuple[int | None, str], expiration: int | None = None, time: int = 0
) -> Records:
    """A batch of messages with priorities that came at a time, in us; they expire after some milliseconds."""
    expires = None if expiration is None else str(expiration)
    attributes = PERSISTENT | (EXPIRING if expires else 0)
    rows, source = array("i"), bytearray()
    for priority, body in messages:
        properties = commands.Basic.Properties(priority=priority, expiration=expires).marshal()
        for part in (b"", properties, body.encode()):
            rows.extend((len(source), len(part)))
            source += part
    batch: Records = encode_records(
        memoryview(source), memoryview(rows), None, len(messages), b"", b"k", attributes, time
    )
    return batch


async def coming(node: Node, answer: Answer[Delivery | None]) -> list[str]:
    async with asyncio.timeout(60):
        while isinstance(answer, asyncio.Future) and not answer.done():
            node.turns.one()
            await asyncio.sleep(0)
    delivery = await value_of(answer)
    assert delivery is not None
    return bodies(delivery)


async def left(node: Node, queue: Queue) -> list[str]:
    found: list[str] = []
    while queue.ready:
        found += await coming(node, queue.get())
    return found


def test_neighbours_of_one_priority_are_one_range() -> None:
    levels = PriorityLevels(2)
    for offset, priority in enumerate((1, 1, 9, 2, 0)):
        levels.add(priority, offset, offset + 1, redelivered=False)
    assert sorted(levels.ranges()) == [(0, 2), (2, 4), (4, 5)]
    assert levels.next_range() == ReadyRange(2, 4, False)
    levels.pass_head(3)
    levels.put_back(7, 8)
    assert levels.next_range() == ReadyRange(3, 4, False)
    assert levels.count == 5
    levels.clear()
    assert (levels.next_range(), levels.count, list(levels.ranges())) == (None, 0, [])


def test_what_came_back_goes_to_its_place_when_its_priority_is_known() -> None:
    levels = PriorityLevels(2)
    levels.add(1, 4, 6, redelivered=False)
    levels.put_back(1, 4)
    levels.place(1, 2)
    assert levels.unsorted_head() == ReadyRange(2, 4, True)
    levels.place(2, 4)
    assert levels.unsorted_head() is None
    order = []
    while (head := levels.next_range()) is not None:
        order.append(head)
        levels.pass_head(head.end)
    assert order == [ReadyRange(2, 4, True), ReadyRange(1, 2, True), ReadyRange(4, 6, False)]


def test_forgotten_priorities_leave_the_order_of_the_log_and_who_was_redelivered() -> None:
    levels = PriorityLevels(2)
    levels.add(2, 3, 5, redelivered=False)
    levels.add(0, 0, 2, redelivered=False)
    levels.put_back(2, 3)
    levels.change(0)
    assert sorted(levels.ranges()) == [(0, 2), (2, 3), (3, 5)]
    assert levels.next_range() == ReadyRange(0, 2, False)
    levels.pass_head(2)
    assert levels.next_range() == ReadyRange(2, 3, True)
    assert levels.take_out(0, 5) == [(2, 3, True), (3, 5, False)]
    assert levels.count == 0


async def test_a_message_without_a_priority_has_the_lowest(node: Node) -> None:
    queue = await declared(node)
    queue.publish(urgent((None, "a"), (1, "b"), (0, "c"), (200, "d")), waited=False)
    assert await left(node, queue) == ["d", "b", "a", "c"]


async def test_what_comes_back_keeps_its_priority_and_place(node: Node) -> None:
    queue = await declared(node)
    queue.publish(urgent((2, "a"), (0, "b"), (2, "c"), (1, "d")), waited=False)
    held = [got(queue) for _ in range(4)]
    queue.publish(urgent((1, "e"), (3, "f")), waited=False)
    for delivery in reversed(held):
        assert delivery is not None
        give_back(delivery)
    assert queue.ready == 6
    assert await left(node, queue) == ["f", "a", "c", "d", "e", "b"]


async def test_several_priorities_may_come_back_at_once(node: Node) -> None:
    queue = await declared(node)
    queue.publish(urgent((2, "a"), (2, "b"), (0, "c"), (1, "d")), waited=False)
    held = [got(queue) for _ in range(4)]
    assert all(held)
    queue.partitions[0].give_back(0, 4)
    assert queue.unacked == 0
    assert await left(node, queue) == ["a", "b", "d", "c"]


async def test_a_backlog_is_looked_at_in_slices(node: Node) -> None:
    queue = await declared(node)
    count = 3 * MESSAGES_MAX
    queue.publish(urgent(*((0, f"{n}") for n in range(count - 1)), (3, "urgent")), waited=False)
    waiting = queue.get()
    assert isinstance(waiting, asyncio.Future)
    assert queue.ready == count
    assert await coming(node, waiting) == ["urgent"]
    assert len(await left(node, queue)) == count - 1


async def test_what_is_on_the_disk_is_looked_at_too(node: Node) -> None:
    queue = await declared(node, durable=True)
    for number in range(100):
        body = f"{number} ".ljust(20_000, ".")
        queue.publish(urgent((number % 4, body)), waited=False)
    await flushed(node.logs)
    assert queue.partitions[0].log.needs_load(0)
    found = [int(body.split()[0]) for body in await left(node, queue)]
    assert found == sorted(range(100), key=lambda number: -(number % 4))


async def test_an_expiration_counts_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        queue = await declared(node, durable=True)
        records = urgent((None, "a"), (2, "b"), expiration=1_000, time=node.turns.clock.now())
        queue.publish(records, waited=True)
    async with running_node(tmp_path, clocked=True) as node:
        node.turns.pass_seconds(60)
        queue = node.vhost.queues["q"]
        queue.publish(urgent((1, "c")), waited=True)
        assert await coming(node, queue.get()) == ["c"]
