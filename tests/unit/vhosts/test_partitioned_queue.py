"""A queue of several partitions: one queue to its consumers, an order for each key."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    delete_queue,
    got,
    records,
    running_node,
)
from unit.log_backend.open_store import flushed

from routelog.log_backend import PERSISTENT, LogOptions, Records, encode_records, key_partition
from routelog.vhosts import Delivery, Queue, QueueProperties, value_of
from routelog.vhosts.queues.dispatcher import DELIVERY_COUNT_MAX
from routelog.vhosts.vhost.vhost import DELETIONS_MAX

PARTITIONS = 4
CONNECTION = object()
TIGHT = LogOptions(journal_file_bytes=1024 * 1024, memory_tail_bytes=32 * 1024, flush_seconds=3600)


def key_of(partition: int, partitions: int = PARTITIONS) -> bytes:
    """A routing key that belongs to a partition."""
    keys = (b"key %d" % number for number in range(10_000))
    return next(key for key in keys if key_partition(key, partitions) == partition)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, clocked=True) as running:
        yield running


def declare(
    node: Node,
    partitions: int = PARTITIONS,
    *,
    name: str = "q",
    durable: bool = True,
    exclusive: bool = False,
    **arguments: object,
) -> Queue:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    if "x-queue-type" in named:
        named["x-durability"] = "memory"  # visible at once
    properties = QueueProperties(
        name, durable, exclusive, arguments={"x-partitions": partitions, **named}
    )
    return declare_queue(node.vhost, properties, CONNECTION)[0]


@pytest.fixture
def queue(node: Node) -> Queue:
    return declare(node)


def keyed(*messages: tuple[int, str]) -> Records:
    """Messages by partition and body, each with a key of that partition."""
    rows, source = array("i"), bytearray()
    for partition, body in messages:
        for part in (key_of(partition), b"\0\0", body.encode()):
            rows.extend((len(source), len(part)))
            source += part
    buffer, table = memoryview(source), memoryview(rows)
    found: Records = encode_records(buffer, table, None, len(messages), b"", None, PERSISTENT, 0)
    return found


def spread(queue: Queue, count: int) -> None:
    """Publish `p<partition>.<number>`, so many to each partition, in one run."""
    pairs = [(partition, number) for number in range(count) for partition in range(PARTITIONS)]
    queue.publish(keyed(*[(p, f"p{p}.{number}") for p, number in pairs]), waited=False)


def of_partition(partition: int, found: list[str]) -> list[str]:
    return [body for body in found if body.startswith(f"p{partition}.")]


def assert_ordered(found: list[str], count: int) -> None:
    """All of `spread` is there once, and each partition in its order."""
    assert len(found) == count * PARTITIONS
    for partition in range(PARTITIONS):
        wanted = [f"p{partition}.{number}" for number in range(count)]
        assert of_partition(partition, found) == wanted


# -- declaration and life


async def test_the_partitions_of_a_durable_queue_come_back_with_their_messages(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        queue = declare(node)
        assert queue.declaring is not None
        await queue.declaring
        spread(queue, 3)
        numbers = [partition.log.number for partition in queue.partitions]
        assert len(set(numbers)) == PARTITIONS
    async with running_node(tmp_path, clocked=True) as node:
        queue = node.vhost.queues["q"]
        assert [partition.log.number for partition in queue.partitions] == numbers
        queue.publish(keyed((2, "p2.3")), waited=False)
        taker = Taker()
        queue.add_consumer(taker)
        await until_delivered(node, taker, 3 * PARTITIONS + 1)
        assert of_partition(2, taker.bodies()) == ["p2.0", "p2.1", "p2.2", "p2.3"]
        fresh = declare(node, name="other")
        assert not set(numbers) & {partition.log.number for partition in fresh.partitions}


async def test_a_deleted_queue_leaves_no_files_and_gives_no_number_again(tmp_path: Path) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        queue = declare(node)
        assert queue.declaring is not None
        await queue.declaring
        spread(queue, 3)
        await flushed(node.logs)
        directories = [partition.log.directory for partition in queue.partitions]
        assert all(directory.is_dir() for directory in directories)
        numbers = [partition.log.number for partition in queue.partitions]
        deleted = delete_queue(node.vhost, queue)
        assert deleted is not None
        await deleted
        again = declare(node, 2)
        assert again.declaring is not None
        await again.declaring
        assert min(p.log.number for p in again.partitions) > max(numbers)
        assert again.ready == 0
    assert not any(directory.exists() for directory in directories)
    async with running_node(tmp_path, clocked=True) as node:
        assert len(node.vhost.queues["q"].partitions) == 2
        assert node.vhost.queues["q"].ready == 0


async def test_exclusive_queues_of_many_partitions_go_in_several_turns(node: Node) -> None:
    for number in range(5):
        declare(node, DELETIONS_MAX // 2, name=f"mine{number}", durable=False, exclusive=True)
    closed = node.vhost.connection_closed(CONNECTION)
    assert len(node.vhost.queues) == 3
    node.turns.hurry()
    while len(node.vhost.queues) == 3:
        node.turns.one()
    assert len(node.vhost.queues) == 1
    assert closed is not None
    assert not closed.done()
    node.turns.run()
    assert not node.vhost.queues
    await closed


# -- consuming


def test_a_busy_partition_keeps_no_other_waiting(node: Node, queue: Queue) -> None:
    for _ in range(3 * DELIVERY_COUNT_MAX // 1_000):
        queue.publish(keyed(*[(1, "p1.x")] * 1_000), waited=False)
    queue.publish(keyed((0, "p0.0"), (3, "p3.0"), (3, "p3.1")), waited=False)
    taker = Taker(prefetch=1)
    queue.add_consumer(taker)
    came: list[str] = []
    for _ in range(7):
        node.turns.run()
        came += taker.bodies()
        taker.settle_all()
        queue.wake()
    assert len(came) == 7
    assert came.index("p0.0") < 3
    assert came.index("p3.1") < 6


def test_single_messages_are_taken_from_each_partition_in_turn(queue: Queue) -> None:
    spread(queue, 3)
    taken = [bodies(delivery)[0] for _ in range(12) if (delivery := got(queue))]
    assert_ordered(taken, 3)
    for first in range(0, 12, PARTITIONS):
        assert len({body[:2] for body in taken[first : first + PARTITIONS]}) == PARTITIONS
    assert got(queue) is None


# -- partitions that are on disk only


async def until_delivered(node: Node, taker: Taker, count: int) -> None:
    async with asyncio.timeout(60):
        while len(taker.bodies()) < count:
            node.turns.run()
            await asyncio.sleep(0)


async def filled_on_disk(node: Node, name: str = "q") -> Queue:
    """A queue whose partitions have 60 kB in segments and nothing in memory."""
    queue = declare(node, name=name)
    for partition in range(PARTITIONS):
        for number in range(3):
            text = f"p{partition}.{number} ".ljust(20_000)
            queue.publish(keyed((partition, text)), waited=False)
    await flushed(node.logs)
    assert not any(each.log.read(0) for each in queue.partitions)
    return queue


def short(found: list[str]) -> list[str]:
    return [body.strip() for body in found]


async def test_partitions_are_loaded_each_for_itself(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue = await filled_on_disk(node)
        taker = Taker(prefetch=2)
        queue.add_consumer(taker)
        came: list[str] = []
        async with asyncio.timeout(60):
            while len(came) < 3 * PARTITIONS:
                node.turns.run()
                came += short(taker.bodies())
                taker.settle_all()
                queue.wake()
                await asyncio.sleep(0)
        assert_ordered(came, 3)


async def test_a_message_on_disk_is_got_after_it_was_loaded(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue = await filled_on_disk(node)
        came: list[str] = []
        async with asyncio.timeout(60):
            while queue.ready:
                delivery = await value_of(queue.get())
                assert delivery is not None
                came += short(bodies(delivery))
        assert_ordered(came, 3)


async def test_a_partition_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue = declare(node)
        for partition in range(PARTITIONS):
            for number in range(3):
                text = f"p{partition}.{number} ".ljust(20_000)
                queue.publish(keyed((partition, text)), waited=False)
        await flushed(node.logs)
        (segment,) = queue.partitions[2].log.segments
        content = bytearray(segment.path.read_bytes())
        content[200] ^= 1
        segment.path.write_bytes(content)
        taker = Taker()
        queue.add_consumer(taker)
        await until_delivered(node, taker, 9)
        queue.publish(keyed((1, "p1.3"), (0, "p0.3")), waited=False)
        await until_delivered(node, taker, 11)
        came = short(taker.bodies())
        assert of_partition(2, came) == []
        for partition, count in ((0, 4), (1, 4), (3, 3)):
            wanted = [f"p{partition}.{number}" for number in range(count)]
            assert of_partition(partition, came) == wanted
        assert queue.ready == 3


async def test_who_is_served_from_elsewhere_meanwhile_is_called_once_by_a_load(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        log = declare(node).partitions[0].log
        log.append(records("x" * 60_000))
        log.append(records("y" * 60_000))
        await flushed(node.logs)
        calls: list[None] = []
        loaded = asyncio.Event()

        def done() -> None:
            calls.append(None)
            loaded.set()

        for _ in range(5):
            log.load(0, done)
        async with asyncio.timeout(60):
            await loaded.wait()
        assert calls == [None]


# -- reading


def places(taker: Taker) -> list[tuple[int | None, int]]:
    """Partition and offset of what was delivered."""
    return [
        (delivery.partition_index, delivery.offset + at)
        for delivery in taker.deliveries
        for at in range(delivery.count)
    ]


def test_a_reader_is_one_consumer_and_is_given_all_partitions_in_turn(node: Node) -> None:
    stream = declare(node, queue_type="stream")
    spread(stream, 5)
    stream.publish(keyed(*[(1, "p1.more")] * 1_000), waited=False)
    taker = Taker(prefetch=12)
    stream.add_reader(taker, "first", 0)
    assert stream.consumer_count == 1
    node.turns.run()
    assert len(places(taker)) == 12
    rest: list[tuple[int | None, int]] = []
    for _ in range(3):
        rest += places(taker)
        taker.settle_all()
        stream.wake()
        node.turns.run()
    rest += places(taker)
    for partition in (0, 2, 3):
        assert [offset for at, offset in rest if at == partition] == list(range(5))
    of_busy = [offset for at, offset in rest if at == 1]
    assert of_busy == list(range(48 - 15))
    stream.detach([taker])
    assert stream.consumer_count == 0


def test_an_offset_is_one_of_each_partition(node: Node) -> None:
    stream = declare(node, queue_type="stream")
    spread(stream, 5)
    taker = Taker()
    stream.add_reader(taker, 3, 0)
    node.turns.run()
    assert sorted(places(taker)) == [(p, offset) for p in range(PARTITIONS) for offset in (3, 4)]


def test_a_delivery_says_which_partition_it_is_of(node: Node, queue: Queue) -> None:
    spread(queue, 1)
    while (delivery := got(queue)) is not None:
        assert isinstance(delivery, Delivery)
        assert delivery.partition_index is not None
        assert queue.partitions[delivery.partition_index] is delivery.partition
