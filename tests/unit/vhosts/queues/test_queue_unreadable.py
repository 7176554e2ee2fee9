"""A queue whose messages the disk does not give just now: who is told, and how it goes on."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    fill,
    numbered,
    records,
    running_node,
    settle,
)
from support.waiting import until
from unit.log_backend.open_store import flushed

from routelog.vhosts import GroupOptions, Queue, QueueProperties, QueueUnreadable, value_of


@pytest.fixture
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with running_node(tmp_path_factory.mktemp("data")) as running:
        yield running


async def on_disk(node: Node, **arguments: object) -> Queue:
    """Ten messages that are in segments only."""
    properties = QueueProperties("q", durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    fill(queue, 10)
    await flushed(node.logs)
    for partition in queue.partitions:
        partition.log.evict(10**9)
    return queue


class BadDisk:
    """Loads of a store's segments that fail until `well` is set."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.well = False
        self.loads = 0
        load = node.logs.load

        def maybe(*where: Any) -> asyncio.Future[Any]:
            self.loads += 1
            if self.well:
                return load(*where)
            failed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            failed.set_exception(OSError(5, "Input/output error"))
            return failed

        monkeypatch.setattr(node.logs, "load", maybe)


@pytest.fixture
def disk(node: Node, monkeypatch: pytest.MonkeyPatch) -> BadDisk:
    return BadDisk(node, monkeypatch)


async def stopped(node: Node, taker: Taker) -> QueueUnreadable:
    await until(lambda: node.turns.run() or taker.stopped)
    (error,) = taker.stopped
    assert isinstance(error, QueueUnreadable)
    return error


async def test_consumers_are_told_and_the_next_one_has_it_read_again(
    node: Node, disk: BadDisk
) -> None:
    queue = await on_disk(node)
    one, other = Taker(), Taker()
    queue.add_consumer(one)
    queue.add_consumer(other)
    error = await stopped(node, one)
    assert (error.name, error.offset) == ("q", 0)
    assert "Input/output error" in str(error)
    assert other.stopped == [error]
    assert queue.consumer_count == 0
    again = Taker()
    queue.add_consumer(again)
    await stopped(node, again)
    assert disk.loads == 2
    disk.well = True
    last = Taker()
    queue.add_consumer(last)
    await until(lambda: node.turns.run() or len(last.bodies()) == 10)
    assert last.bodies() == numbered(0, 10)


async def get(queue: Queue) -> list[str]:
    """As a channel does it."""
    delivery = await value_of(queue.get())
    assert delivery is not None
    settle(delivery)
    return bodies(delivery)


async def test_a_get_is_told_and_the_next_one_has_it_read_again(node: Node, disk: BadDisk) -> None:
    queue = await on_disk(node)
    for loads in (1, 2):
        with pytest.raises(QueueUnreadable):
            await get(queue)
        assert disk.loads == loads
    disk.well = True
    assert await get(queue) == ["m0"]


async def test_who_is_still_busy_with_what_came_before_is_told_later(
    node: Node, disk: BadDisk
) -> None:
    queue = await on_disk(node)
    log = queue.partitions[0].log
    disk.well = True
    taker = Taker(prefetch=1)
    queue.add_consumer(taker)
    await until(lambda: node.turns.run() or taker.deliveries)
    disk.well = False
    log.read_failed(1, OSError(5, "Input/output error"))
    taker.prefetch = 2
    queue.wake()
    node.turns.run()
    assert taker.stopped == []
    taker.settle_all()
    queue.wake()
    assert (await stopped(node, taker)).offset == 1


async def test_readers_and_groups_are_told_each_for_itself(node: Node, disk: BadDisk) -> None:
    queue = await on_disk(node, **{"x-queue-type": "stream"})
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert made is not None
    await made
    reader, member = Taker(), Taker()
    queue.add_reader(reader, "first", 0)
    queue.join_group(group, member)
    await stopped(node, reader)
    await stopped(node, member)
    disk.well = True
    reader, member = Taker(prefetch=100), Taker()
    queue.add_reader(reader, "first", 0)
    queue.join_group(group, member)

    def has_ten(taker: Taker) -> bool:
        node.turns.run()
        return len(taker.bodies()) == 10

    for taker in (reader, member):
        await until(partial(has_ten, taker))


async def test_one_partition_that_cannot_be_read_stops_the_queues_consumers(
    node: Node, disk: BadDisk
) -> None:
    queue = await on_disk(node, **{"x-partitions": 2})
    hurt = next(each.log for each in queue.partitions if each.log.next_offset)
    well = next(each.log for each in queue.partitions if each.log is not hurt)
    well.append(records("in memory"))
    taker = Taker()
    queue.add_consumer(taker)
    assert (await stopped(node, taker)).offset == 0
    assert taker.bodies() == ["in memory"]
    assert hurt.read_error is None


async def test_who_waits_for_a_message_gets_it_though_another_one_has_gone(
    node: Node, disk: BadDisk
) -> None:
    queue = await on_disk(node)
    disk.well = True
    gone, waits = queue.get(), queue.get()
    assert isinstance(gone, asyncio.Future)
    await asyncio.sleep(0)  # it has begun to wait
    gone.cancel()
    delivery = await value_of(waits)
    assert delivery is not None
    assert bodies(delivery) == numbered(0, 1)
