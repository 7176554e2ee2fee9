"""Who waits for the active consumer to go, and who follows it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import (
    Node,
    Taker,
    declare_queue,
    fill,
    give_back,
    got,
    numbered,
    running_node,
    settle,
)

from routelog.vhosts import ConsumptionRefused, GetRefused, Queue, QueueProperties
from routelog.vhosts.queues.single_active import WaitingConsumers


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as node:
        yield node


@pytest.fixture
def queue(node: Node) -> Queue:
    return declare(node, "classic")


def declare(node: Node, queue_type: str) -> Queue:
    arguments = {"x-single-active-consumer": True, "x-queue-type": queue_type}
    properties = QueueProperties(queue_type, durable=True, arguments=arguments)
    return declare_queue(node.vhost, properties, None)[0]


def test_those_of_one_priority_follow_in_the_order_in_which_they_came() -> None:
    waiting = WaitingConsumers()
    takers = [Taker(priority=priority) for priority in (0, 5, 0, -3, 5)]
    for taker in takers:
        waiting.add(taker)
    waiting.remove([takers[2], Taker()])
    order = [waiting.take() for _ in range(4)]
    assert order == [takers[1], takers[4], takers[0], takers[3]]
    assert waiting.take() is None
    assert waiting.take_all() == []


async def test_an_active_consumer_without_credit_stays_active(node: Node, queue: Queue) -> None:
    first, second = Taker(2), Taker()
    queue.add_consumer(first)
    queue.add_consumer(second)
    fill(queue, 5)
    node.turns.run()
    assert (len(first.bodies()), len(second.bodies())) == (2, 0)
    queue.detach([first])
    node.turns.run()
    assert len(second.bodies()) == 3


async def test_it_cannot_be_passed_by(node: Node, queue: Queue) -> None:
    with pytest.raises(GetRefused):
        got(queue)
    with pytest.raises(ConsumptionRefused):
        queue.add_consumer(Taker(exclusive=True))
    queue.add_consumer(Taker())
    with pytest.raises(ConsumptionRefused):
        queue.add_consumer(Taker(exclusive=True))
    assert queue.consumer_count == 1


async def test_all_are_told_that_the_queue_is_gone(node: Node, queue: Queue) -> None:
    takers = [Taker() for _ in range(3)]
    for taker in takers:
        queue.add_consumer(taker)
    assert queue.consumer_count == 3
    node.vhost.delete_queue(queue)
    assert [taker.deleted for taker in takers] == [1, 1, 1]


# -- a newcomer of higher priority


def consume(node: Node, queue: Queue, priority: int, *, no_ack: bool = False) -> Taker:
    taker = Taker(2, priority=priority, no_ack=no_ack)
    queue.add_consumer(taker)
    node.turns.run()
    return taker


def states(queue: Queue, *takers: Taker) -> list[str]:
    return [queue.activity(taker) for taker in takers]


async def test_on_a_quorum_queue_it_takes_over_when_nothing_is_unacked(node: Node) -> None:
    queue = declare(node, "quorum")
    first = consume(node, queue, 0)
    fill(queue, 4)
    node.turns.run()
    later, above = consume(node, queue, 0), consume(node, queue, 5)
    assert states(queue, first, later, above) == ["single_active", "waiting", "waiting"]
    one, two = first.take()
    first.unacked -= 1
    settle(one)
    queue.wake()
    node.turns.run()
    # It still has one: neither gets another.
    assert [taker.bodies() for taker in (first, later, above)] == [[], [], []]
    first.unacked -= 1
    give_back(two)
    queue.wake()
    node.turns.run()
    assert [taker.bodies() for taker in (first, later, above)] == [[], [], numbered(1, 3)]
    assert states(queue, first, later, above) == ["waiting", "waiting", "single_active"]
    queue.detach([above])
    assert states(queue, first, later) == ["waiting", "single_active"]  # who waits longest


async def test_an_idle_one_is_followed_at_once(node: Node) -> None:
    queue = declare(node, "quorum")
    takers = [consume(node, queue, priority) for priority in (-3, 0, 9, 5)]
    assert states(queue, *takers) == ["waiting", "waiting", "single_active", "waiting"]


async def test_automatic_acks_leave_nothing_to_wait_for(node: Node) -> None:
    queue = declare(node, "quorum")
    first, above = consume(node, queue, 0, no_ack=True), consume(node, queue, 1, no_ack=True)
    fill(queue, 2)
    node.turns.run()
    assert (first.bodies(), above.bodies()) == ([], numbered(0, 2))


async def test_the_active_one_goes_on_when_the_newcomer_is_gone(node: Node) -> None:
    queue = declare(node, "quorum")
    first = consume(node, queue, 0)
    fill(queue, 1)
    node.turns.run()
    above = consume(node, queue, 5)
    fill(queue, 1)
    node.turns.run()
    assert (len(first.bodies()), len(above.bodies())) == (1, 0)
    queue.detach([above])
    node.turns.run()
    assert len(first.bodies()) == 2


async def test_one_that_does_not_settle_in_time_takes_over_only_when_it_has(node: Node) -> None:
    queue = declare(node, "quorum")
    hangs, below = consume(node, queue, 5), consume(node, queue, 0)
    fill(queue, 1)
    node.turns.run()
    queue.stand_aside(hangs)
    give_back(*hangs.take())
    node.turns.run()
    assert below.bodies() == ["m0"]
    below.settle_all()
    fill(queue, 1)
    node.turns.run()
    assert states(queue, hangs, below) == ["waiting", "single_active"]
    hangs.unacked = 0  # it settles late
    below.settle_all()
    queue.wake()
    node.turns.run()
    assert states(queue, hangs, below) == ["single_active", "waiting"]


async def test_on_a_classic_queue_it_waits(node: Node, queue: Queue) -> None:
    first, above = consume(node, queue, 0), consume(node, queue, 5)
    fill(queue, 1)
    node.turns.run()
    assert (len(first.bodies()), len(above.bodies())) == (1, 0)
    assert states(queue, first, above) == ["single_active", "waiting"]
