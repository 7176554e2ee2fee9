"""How much of the time consumers could take a message, from looks at their credit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, SetClock, Taker, declare_queue, running_node

from routelog.management.sampling.consumer_capacity import WEIGHT, ConsumerCapacity
from routelog.management.sampling.sampler import SAMPLE_SECONDS, Sampler
from routelog.vhosts import Queue, QueueProperties


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as node:
        yield node


def declared(node: Node, *consumers: Taker) -> Queue:
    queue = declare_queue(node.vhost, QueueProperties("q"), object())[0]
    for each in consumers:
        queue.add_consumer(each)
    return queue


async def test_without_consumers_it_is_nothing(node: Node) -> None:
    capacity, queue = ConsumerCapacity(), declared(node)
    capacity.look(queue)
    assert capacity.of(queue, is_idle=False) == capacity.of(queue, is_idle=True) == 0


async def test_it_follows_the_looks(node: Node) -> None:
    busy, other = Taker(0), Taker(1)
    capacity, queue = ConsumerCapacity(), declared(node, busy, other)
    capacity.look(queue)
    assert capacity.of(queue, is_idle=False) == 1
    other.prefetch = 0
    capacity.look(queue)
    assert capacity.of(queue, is_idle=False) == round(1 - WEIGHT, 3)
    for _ in range(50):
        capacity.look(queue)
    assert capacity.of(queue, is_idle=False) == 0
    busy.prefetch = 5
    assert capacity.of(queue, is_idle=True) == 1  # nothing happened since: it is as it is now


async def test_queues_without_consumers_and_deleted_ones_are_forgotten(node: Node) -> None:
    taker = Taker(0)
    capacity, queue = ConsumerCapacity(), declared(node, taker)
    capacity.look(queue)
    taker.prefetch = 1
    capacity.forget(queue)
    assert capacity.of(queue, is_idle=False) == 1  # as it is now
    taker.prefetch = 0
    capacity.look(queue)
    queue.detach([taker])
    capacity.look(queue)
    queue.add_consumer(Taker(1))
    assert capacity.of(queue, is_idle=False) == 1


async def test_the_sampler_looks_at_queues_in_which_something_happens(node: Node) -> None:
    clock, taker = SetClock(), Taker(0)
    sampler, queue = Sampler(node.vhosts, clock, lambda: 0), declared(node, taker)
    node.vhosts.counters.changed.is_watched = True

    async def later() -> None:
        clock.microseconds += int(SAMPLE_SECONDS * 1_000_000)
        await sampler.sample()

    queue.counters.note()
    await later()
    assert sampler.consumer_capacity(queue) == 0
    taker.prefetch = 1
    queue.counters.note()
    await later()
    assert 0 < sampler.consumer_capacity(queue) < 1
    await later()
    await later()
    assert sampler.consumer_capacity(queue) == 1
