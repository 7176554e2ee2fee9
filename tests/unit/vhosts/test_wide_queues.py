"""Queues with many partitions: no turn of the event loop is about too many, and none looks again and again."""

import asyncio
import gc
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands
from support.queue_samples import Node, Taker, declare_queue, records, running_node

from routelog.log_backend import PERSISTENT, encode_records, key_partition
from routelog.vhosts import (
    Queue,
    QueuePartition,
    QueueProperties,
)
from routelog.vhosts.partitions.priority_order import MESSAGES_MAX
from routelog.vhosts.partitions.stream_reader import StreamReader
from routelog.vhosts.rules.ready_bytes import BATCHES_MAX
from routelog.vhosts.vhost import hosted_queues

PARTITIONS = 17


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, clocked=True) as running:  # no turn is ever over
        yield running


def declare(
    node: Node, name: str = "q", partitions: int = PARTITIONS, **arguments: object
) -> Queue:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    durable = "x-queue-type" in named
    if durable:
        named["x-durability"] = "memory"  # visible at once
    properties = QueueProperties(name, durable, arguments={"x-partitions": partitions, **named})
    return declare_queue(node.vhost, properties, None)[0]


def keyed(partition: int, properties: bytes = b"\0\0", count: int = 1) -> Any:
    """Messages for a partition of PARTITIONS."""
    key = next(k for n in range(9999) if key_partition(k := b"%d" % n, PARTITIONS) == partition)
    rows, source = array("i"), bytearray()
    for part in (b"", properties, b"body") * count:
        rows.extend((len(source), len(part)))
        source += part
    table = memoryview(rows)
    return encode_records(memoryview(source), table, None, count, b"", key, PERSISTENT, 0)


async def rises(work: Coroutine[Any, Any, None], done: Callable[[], int]) -> list[int]:
    """By how much something rose in each turn of the event loop in which it did."""
    task, seen, found = asyncio.ensure_future(work), done(), []
    while not task.done():
        await asyncio.sleep(0)
        if done() != seen:
            found.append(abs(done() - seen))
            seen = done()
    await task
    return found


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        ({}, 12),
        ({"queue_type": "quorum"}, 12),
        ({"queue_type": "stream"}, 12),
        ({"max_priority": 255}, 16),
    ],
)
async def test_a_partition_is_few_objects(node: Node, arguments: dict[str, Any], most: int) -> None:
    gc.disable()
    gc.freeze()  # only what is made is counted
    try:
        declare(node, partitions=256, **arguments)
        made = len(gc.get_objects())
    finally:
        gc.unfreeze()
        gc.enable()
    assert made < most * 256 + 200  # those of the queue


async def test_each_is_deleted_with_its_vhost_in_a_turn_of_its_own(node: Node) -> None:
    for number in range(6):
        declare(node, f"q{number}")
    assert await rises(node.vhost.clear(), lambda: len(node.vhost.queues)) == [1] * 6


class Looks:
    """Counts how often something is asked whether it has messages."""

    def __init__(self, of: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        before = of.ready.fget

        def ready(self_: Any) -> int:
            self.count += 1
            found: int = before(self_)
            return found

        monkeypatch.setattr(of, "ready", property(ready))


def test_a_delivery_of_one_partition_looks_not_at_all_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class Counted(QueuePartition):
        def count_ready(self) -> int:
            nonlocal looks
            looks += 1
            return super().count_ready()

    monkeypatch.setattr(hosted_queues, "QueuePartition", Counted)
    queue = declare(node)
    for _ in range(50):
        queue.publish(keyed(3), waited=False)
    taker = Taker()
    queue.add_consumer(taker)
    looks = 0
    node.turns.one()
    assert len(taker.deliveries) == 50
    assert 0 < looks < 5 * PARTITIONS


def test_a_reader_of_one_partition_looks_not_at_all_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = declare(node, queue_type="stream")
    for _ in range(50):
        queue.publish(keyed(3), waited=False)
    taker = Taker()
    looks = Looks(StreamReader, monkeypatch)
    queue.add_reader(taker, "first", 0)
    node.turns.one()
    assert len(taker.deliveries) == 50
    assert looks.count < 50 * PARTITIONS // 4


def test_a_reader_does_not_wait_for_a_busy_partition(node: Node) -> None:
    queue = declare(node, queue_type="stream")
    for _ in range(3 * PARTITIONS):
        queue.publish(keyed(3), waited=False)
    taker = Taker(prefetch=1)
    queue.add_reader(taker, "first", 0)
    node.turns.run()
    queue.publish(keyed(5), waited=False)
    for _ in range(PARTITIONS):
        taker.settle_all()
        queue.wake()
        node.turns.run()
    assert 5 in [delivery.partition_index for delivery in taker.deliveries]


def test_a_reader_reads_partitions_in_turn(node: Node) -> None:
    queue = declare(node, queue_type="stream")
    for partition in (3, 3, 3, 5, 5, 8):
        queue.publish(keyed(partition), waited=False)
    taker = Taker()
    queue.add_reader(taker, "first", 0)
    node.turns.run()
    assert [each.partition_index for each in taker.deliveries] == [3, 5, 8, 3, 5, 3]


def test_what_comes_in_meanwhile_is_read_in_the_end(node: Node) -> None:
    queue = declare(node, queue_type="stream")
    taker = Taker()
    queue.add_reader(taker, "first", 0)
    for partition in (4, 4, 2, 4, 9, 2):
        queue.publish(keyed(partition), waited=False)
        node.turns.run()
    assert [each.partition_index for each in taker.deliveries] == [4, 4, 2, 4, 9, 2]


def test_bytes_of_all_partitions_are_counted_a_slice_at_a_time(node: Node) -> None:
    queue = declare(node)
    for number in range(2 * BATCHES_MAX):
        queue.publish(keyed(number % 2), waited=False)
    node.turns.hurry()
    queue.apply({"x-max-length-bytes": 1 << 30})
    assert queue.rules is not None
    length = queue.rules.length
    assert length is not None
    turns = 0
    while not all(each.counted for each in length._bytes.values()):
        before = sum(len(each._ends) for each in length._bytes.values())
        node.turns.one()
        assert sum(len(each._ends) for each in length._bytes.values()) - before <= BATCHES_MAX
        turns += 1
    assert turns > 1
    assert length.ready_bytes == 2 * BATCHES_MAX * len("body")


def test_a_limit_that_was_taken_away_pushes_nothing_out(node: Node) -> None:
    queue = declare(node, partitions=1)
    queue.publish(records(*map(str, range(9))), waited=False)
    queue.apply({"x-max-length-bytes": 3})
    queue.apply({})
    node.turns.run()
    assert queue.ready == 9


def test_priorities_of_all_partitions_are_looked_at_a_slice_at_a_time(node: Node) -> None:
    queue = declare(node, max_priority=3)
    urgent = commands.Basic.Properties(priority=3).marshal()
    for partition in range(4):
        queue.publish(keyed(partition, count=MESSAGES_MAX // 2), waited=False)
        queue.publish(keyed(partition, urgent), waited=False)
    taker = Taker()
    queue.add_consumer(taker)
    while queue.ready:
        before = sum(each.next_offset for each in queue.partitions)
        node.turns.one()
        assert sum(each.next_offset for each in queue.partitions) - before <= MESSAGES_MAX
    first: dict[int | None, int] = {}
    for delivery in taker.deliveries:
        first.setdefault(delivery.partition_index, delivery.offset)
    assert first == dict.fromkeys(range(4), MESSAGES_MAX // 2)
