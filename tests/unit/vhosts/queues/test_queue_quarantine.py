"""A queue whose log is damaged: what comes before the damage, and who is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    fill,
    give_back,
    got,
    numbered,
    records,
    running_node,
    settle,
)

from routelog.log_backend.segments.damage import Damage
from routelog.vhosts import GroupOptions, Queue, QueueProperties, QueueQuarantined, QueueStopped


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running


@pytest.fixture
def queue(node: Node) -> Queue:
    """Ten single messages; the seventh to the ninth lie in a damaged place."""
    queue = declare_queue(node.vhost, QueueProperties("q"), object())[0]
    fill(queue, 10, 1)
    queue.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 6, 9))
    return queue


def test_consumers_are_told_when_all_before_the_damage_is_settled(node: Node, queue: Queue) -> None:
    one, other = Taker(), Taker()
    queue.add_consumer(one)
    queue.add_consumer(other)
    node.turns.run()
    assert sorted([*one.bodies(), *other.bodies()]) == numbered(0, 6)
    assert one.stopped == other.stopped == []
    deliveries = one.take() + other.take()
    for delivery in deliveries[1:]:
        settle(delivery)
    give_back(deliveries[0])
    node.turns.run()
    (again,) = one.take() + other.take()
    assert bodies(again) == bodies(deliveries[0])
    assert one.stopped == other.stopped == []
    settle(again)
    again.partition.on_ready()
    node.turns.run()
    for taker in (one, other):
        (error,) = taker.stopped
        assert (error.name, error.offset) == ("q", 6)
    assert queue.consumer_count == 0


def test_nobody_can_consume_or_get_at_the_damage(node: Node, queue: Queue) -> None:
    for number in range(6):
        delivery = got(queue)
        assert delivery is not None
        assert bodies(delivery) == [f"m{number}"]
        settle(delivery)
    with pytest.raises(QueueQuarantined, match="is quarantined from offset 6"):
        got(queue)
    with pytest.raises(QueueQuarantined):
        queue.add_consumer(Taker())
    assert queue.consumer_count == 0


def test_publishes_are_taken_and_stay_behind_the_damage(node: Node, queue: Queue) -> None:
    taker = Taker()
    queue.add_consumer(taker)
    fill(queue, 5, 1)
    node.turns.run()
    assert taker.bodies() == numbered(0, 6)
    assert queue.partitions[0].log.next_offset == 15


def test_a_purge_ends_the_quarantine(node: Node, queue: Queue) -> None:
    queue.purge()
    fill(queue, 2, 1)
    (taker,) = (Taker(),)
    queue.add_consumer(taker)
    node.turns.run()
    assert len(taker.bodies()) == 2
    assert taker.stopped == []


async def test_a_reader_is_told_when_it_has_settled_what_lies_before(node: Node) -> None:
    arguments = {"x-queue-type": "stream", "x-durability": "memory"}
    properties = QueueProperties("s", durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    fill(queue, 10, 1)
    queue.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 6, 9))
    taker = Taker()
    queue.add_reader(taker, "first", 0)
    node.turns.run()
    assert taker.bodies() == numbered(0, 6)
    deliveries = taker.take()
    for delivery in deliveries[:-1]:
        settle(delivery)
    deliveries[-1].partition.on_ready()
    node.turns.run()
    assert taker.stopped == []
    settle(deliveries[-1])
    deliveries[-1].partition.on_ready()
    node.turns.run()
    assert len(taker.stopped) == 1
    for wanted in (6, "last", "next"):
        with pytest.raises(QueueQuarantined):
            queue.add_reader(Taker(), wanted, 0)


async def test_the_queue_goes_on_when_its_last_reader_leaves_at_the_damage(node: Node) -> None:
    arguments = {"x-retention": "1h", "x-durability": "memory"}
    properties = QueueProperties("s", durable=True, arguments=arguments)
    kept = declare_queue(node.vhost, properties, object())[0]

    class Leaving(Taker):
        def queue_stopped(self, error: QueueStopped) -> None:
            super().queue_stopped(error)
            kept.detach((self,))

    reader, consumer = Leaving(), Taker()
    fill(kept, 4, 1)
    kept.add_reader(reader, "first", 0)
    node.turns.run()
    assert reader.bodies() == numbered(0, 4)  # it keeps up
    reader.settle_all()
    kept.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 2, 4))
    kept.add_consumer(consumer)
    kept.publish(records("m4"), waited=False)
    node.turns.run()
    assert len(reader.stopped) == 1
    assert consumer.bodies() == numbered(0, 2)


async def test_a_group_stops_at_the_damage_as_a_queue_does(node: Node) -> None:
    arguments = {"x-queue-type": "stream", "x-durability": "memory"}
    properties = QueueProperties("s", durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    fill(queue, 10, 1)
    queue.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 6, 9))
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert made is not None
    await made
    one, other = Taker(), Taker()
    queue.join_group(group, one)
    queue.join_group(group, other)
    node.turns.run()
    assert sorted([*one.bodies(), *other.bodies()]) == numbered(0, 6)
    *rest, last = one.take() + other.take()
    for delivery in rest:
        settle(delivery)
    node.turns.run()
    assert one.stopped == other.stopped == []
    settle(last)
    last.partition.on_ready()
    node.turns.run()
    assert len(one.stopped) == len(other.stopped) == 1
    assert group.consumers == []
    with pytest.raises(QueueQuarantined, match="is quarantined from offset 6"):
        queue.join_group(group, Taker())


async def test_the_other_partitions_go_on(node: Node) -> None:
    arguments = {"x-queue-type": "stream", "x-partitions": 2, "x-durability": "memory"}
    properties = QueueProperties("s", durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    hurt, well = (partition.log for partition in queue.partitions)
    for log in (hurt, well):
        log.append(records("a", "b"))
    hurt.quarantine(Damage("x.log", 0, "a test", 0, 2))
    reader, member = Taker(), Taker()
    queue.add_reader(reader, "first", 0)
    group, made = node.vhost.hosted.groups.join(queue, GroupOptions("g"), "first", 0)
    assert made is not None
    await made
    queue.join_group(group, member)
    queue.publish(records("c"), waited=False)
    node.turns.run()
    for taker in (reader, member):
        assert taker.bodies()[:2] == ["a", "b"]
        assert taker.stopped == []
        taker.settle_all()
    well.quarantine(Damage("y.log", 0, "a test", 2, 9))
    reader_of_all = Taker()
    queue.add_reader(reader_of_all, "first", 0)
    with pytest.raises(QueueQuarantined):
        queue.add_reader(Taker(), "next", 0)
    well.append(records("d"))
    queue.wake()
    group.wake()
    node.turns.run()
    assert len(reader.stopped) == len(member.stopped) == 1
    assert reader_of_all.bodies() == ["a", "b"]
