"""Who waits for the active consumer to go, and who follows it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, Taker, declare_queue, fill, got, running_node

from routelog.vhosts import ConsumptionRefused, GetRefused, Queue, QueueProperties
from routelog.vhosts.queues.single_active import WaitingConsumers


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as node:
        yield node


@pytest.fixture
def queue(node: Node) -> Queue:
    arguments = {"x-single-active-consumer": True}
    return declare_queue(node.vhost, QueueProperties("q", arguments=arguments), None)[0]


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
