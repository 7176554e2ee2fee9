"""A dispatcher over partitions: who is handed what in which turn."""

from typing import Any

import pytest
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    fill,
    give_back,
    numbered,
    records,
    settle,
)

from routelog.vhosts import ConsumptionRefused, Queue, QueueProperties
from routelog.vhosts.queues.dispatcher import (
    DELIVERY_BYTES_MIN,
    FRAMES_BYTES,
    Dispatcher,
    delivery_cost,
)

PARTITIONS = 3


@pytest.fixture
def wide(node: Node) -> Queue:
    arguments: dict[str, Any] = {"x-partitions": PARTITIONS}
    return declare_queue(node.vhost, QueueProperties("wide", arguments=arguments), object())[0]


@pytest.mark.parametrize(
    ("prefetches", "priorities", "handed"),
    [
        ([None], [0], [6]),
        ([4], [0], [4]),
        ([0], [0], [0]),
        ([None, None], [0, 0], [3, 3]),
        ([None, None, None], [0, 0, 0], [2, 2, 2]),
        ([1, None], [0, 0], [1, 5]),
        ([2, None], [5, 0], [2, 4]),
        ([None, None], [0, 5], [0, 6]),
        ([1, 1], [0, 0], [1, 1]),
        ([0, 2, 0], [9, 0, 9], [0, 2, 0]),
    ],
)
def test_credit_and_priority_say_who_is_handed_how_much(
    node: Node, queue: Queue, prefetches: list[int | None], priorities: list[int], handed: list[int]
) -> None:
    pairs = zip(prefetches, priorities, strict=True)
    takers = [Taker(prefetch, priority=priority) for prefetch, priority in pairs]
    for taker in takers:
        queue.add_consumer(taker)
    assert [each.priority for each in queue.consumers] == sorted(priorities, reverse=True)
    fill(queue, 6, 6)
    node.turns.run()
    assert [len(taker.bodies()) for taker in takers] == handed
    assert (queue.ready, queue.unacked) == (6 - sum(handed), sum(handed))


def test_nothing_is_handed_out_in_the_turn_of_who_publishes(node: Node, queue: Queue) -> None:
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.run()
    fill(queue, 3)
    assert taker.deliveries == []
    assert node.turns.one() == 1, "one turn for all three"
    assert taker.bodies() == numbered(0, 3)


def test_credit_that_comes_back_is_used_in_the_next_dispatch(node: Node, queue: Queue) -> None:
    busy, idle = Taker(1), Taker(0)
    queue.add_consumer(busy)
    queue.add_consumer(idle)
    fill(queue, 3)
    node.turns.run()
    assert (busy.bodies(), idle.bodies()) == (["m0"], [])
    busy.settle_all()
    queue.on_ready()
    node.turns.run()
    assert busy.bodies() == [], "it has not said that it has credit"
    queue.has_credit(busy)
    queue.on_ready()
    node.turns.run()
    assert busy.bodies() == ["m1"]
    idle.prefetch = 5
    queue.wake()
    node.turns.run()
    assert idle.bodies() == ["m2"]


def test_partitions_take_turns_and_each_keeps_its_order(node: Node, wide: Queue) -> None:
    taker = Taker(1)
    wide.add_consumer(taker)
    for partition in wide.partitions:
        for number in range(2):
            partition.log.append(records(f"{number}"), waited=False)
    order = []
    for _ in range(2 * PARTITIONS):
        wide.wake()
        node.turns.run()
        (delivery,) = taker.deliveries
        order.append((delivery.partition_index, *taker.bodies()))
        taker.settle_all()
    assert sorted(order[:PARTITIONS]) == [(at, "0") for at in range(PARTITIONS)]
    assert sorted(order[PARTITIONS:]) == [(at, "1") for at in range(PARTITIONS)]
    assert (wide.ready, wide.unacked) == (0, 0)


def test_what_comes_back_is_handed_out_again(node: Node, queue: Queue) -> None:
    taker = Taker()
    queue.add_consumer(taker)
    fill(queue, 2, 2)
    node.turns.run()
    (delivery,) = taker.take()
    give_back(delivery)
    node.turns.run()
    assert [(d.redelivered, d.count) for d in taker.deliveries] == [(True, 2)]
    for each in taker.take():
        settle(each)
    assert (queue.ready, queue.unacked) == (0, 0)


@pytest.mark.parametrize("first_is_exclusive", [True, False])
def test_an_exclusive_consumer_is_alone(queue: Queue, first_is_exclusive: bool) -> None:
    first = Taker(exclusive=first_is_exclusive)
    queue.add_consumer(first)
    with pytest.raises(ConsumptionRefused):
        queue.add_consumer(Taker(exclusive=not first_is_exclusive))
    assert queue.consumers == [first]


def test_those_who_are_gone_are_handed_nothing(node: Node, queue: Queue) -> None:
    takers = [Taker() for _ in range(3)]
    for taker in takers:
        queue.add_consumer(taker)
    Dispatcher.detach(queue, [takers[0], takers[2], Taker()])
    fill(queue, 4)
    node.turns.run()
    assert [len(taker.bodies()) for taker in takers] == [0, 4, 0]


def test_a_deleted_queue_tells_its_consumers_and_hands_out_nothing(
    node: Node, queue: Queue
) -> None:
    takers = [Taker(), Taker()]
    for taker in takers:
        queue.add_consumer(taker)
    fill(queue, 2)
    Dispatcher.delete(queue)
    node.turns.run()
    assert [(taker.deleted, taker.deliveries) for taker in takers] == [(1, []), (1, [])]


@pytest.mark.parametrize(
    ("sizes", "cost"), [([1], DELIVERY_BYTES_MIN), ([20_000], None), ([1] * 1000, None)]
)
def test_a_delivery_costs_its_bytes_and_those_of_its_frames(
    node: Node, queue: Queue, sizes: list[int], cost: int | None
) -> None:
    taker = Taker()
    queue.add_consumer(taker)
    batch = records(*(b"x" * size for size in sizes))
    queue.publish(batch, waited=False)
    node.turns.run()
    (delivery,) = taker.deliveries
    each = batch.batch_bytes // len(sizes) + FRAMES_BYTES
    assert delivery_cost(delivery) == (cost or each * len(sizes))


def test_who_waits_for_consumers_is_told_once_when_none_is_behind(node: Node, queue: Queue) -> None:
    told: list[int] = []
    queue.add_consumer(Taker(1))
    queue.on_caught_up = lambda: told.append(queue.ready)
    fill(queue, 3)
    node.turns.run()
    assert (queue.is_behind, told, queue.on_caught_up) == (False, [2], None)
