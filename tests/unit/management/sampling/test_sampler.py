"""The sampler takes what has changed, for a day, and knows the sums of all lengths."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.queue_samples import Node, SetClock, Taker, declare_queue, records, running_node

from routelog.management.sampling import sampler as sampler_module
from routelog.management.sampling.sampler import (
    DISK_FREE,
    SAMPLE_SECONDS,
    WEIGHT,
    ConsumerCapacity,
    Sampler,
)
from routelog.vhosts import MessageCounters, Queue, QueueProperties, wanted_group

PUBLISH = MessageCounters.NAMES.index("publish")
READY = len(MessageCounters.NAMES)


class Sampled:
    """A node whose sampler goes by a clock of the test."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.clock = SetClock()
        self.disk_free = 0
        self.sampler = Sampler(node.vhosts, self.clock, lambda: self.disk_free)
        node.vhosts.counters.changed.is_watched = True

    async def later(self, samples: int = 1) -> None:
        for _ in range(samples):
            self.clock.microseconds += int(SAMPLE_SECONDS * 1_000_000)
            await self.sampler.sample()

    def queue(self, name: str = "q") -> Queue:
        return declare_queue(self.node.vhost, QueueProperties(name), object())[0]

    def rate(self, of: object, column: int = PUBLISH) -> float:
        return self.sampler.rate(self.sampler.history(of), [column])

    def sums(self, of: object) -> tuple[int, ...]:
        history = self.sampler.history(of)
        return () if history is None else history.last


@pytest.fixture
async def sampled(tmp_path: Path) -> AsyncIterator[Sampled]:
    async with running_node(tmp_path) as node:
        yield Sampled(node)


def publish(queue: Queue, count: int) -> None:
    queue.publish(records(*(f"m{at}" for at in range(count))), waited=False)


async def test_a_rate_is_there_with_the_first_sample_of_a_queue(sampled: Sampled) -> None:
    queue = sampled.queue()
    await sampled.later()
    publish(queue, 50)
    await sampled.later()
    assert sampled.rate(queue.counters) == pytest.approx(10.0)
    assert sampled.rate(queue.counters, READY) == pytest.approx(10.0)
    assert sampled.rate(sampled.node.vhosts.counters.queues["classic"]) == pytest.approx(10.0)


async def test_a_rate_ends_with_the_traffic_and_begins_anew(sampled: Sampled) -> None:
    queue = sampled.queue()
    publish(queue, 50)
    await sampled.later(2)
    assert sampled.rate(queue.counters) == 0.0
    await sampled.later(3)
    publish(queue, 25)
    await sampled.later()
    assert sampled.rate(queue.counters) == pytest.approx(5.0)  # of the last five seconds alone


async def test_idle_queues_have_no_samples(sampled: Sampled) -> None:
    idle, busy = sampled.queue("idle"), sampled.queue("busy")
    for _ in range(5):
        publish(busy, 1)
        await sampled.later()
    assert sampled.sampler.history(idle.counters) is None
    history = sampled.sampler.history(busy.counters)
    assert history is not None
    assert len(history) == 6


async def test_samples_are_let_go_of_when_nothing_changes_for_a_day(sampled: Sampled) -> None:
    queue = sampled.queue()
    publish(queue, 1)
    await sampled.later()
    sampled.clock.microseconds += 86_395 * 1_000_000
    await sampled.later()
    assert sampled.sampler.history(queue.counters) is not None
    await sampled.later()
    assert sampled.sampler.history(queue.counters) is None
    publish(queue, 1)
    await sampled.later()
    assert sampled.rate(queue.counters) == 0.0  # nobody knows since when


async def test_those_of_connections_are_let_go_of_after_ten_minutes(sampled: Sampled) -> None:
    counters = sampled.node.vhosts.counters
    connection, queue = counters.connection(), sampled.queue()
    connection.received(1)
    publish(queue, 1)
    await sampled.later()
    assert sampled.sampler.history(connection) is not None
    sampled.clock.microseconds += 600 * 1_000_000
    await sampled.later()
    assert sampled.sampler.history(connection) is None
    for lasting in (queue.counters, counters, counters.traffic, sampled.node.vhost.counters):
        assert sampled.sampler.history(lasting) is not None


async def test_a_day_is_kept_of_a_busy_queue(sampled: Sampled) -> None:
    queue = sampled.queue()
    for _ in range(400):
        publish(queue, 1)
        await sampled.later()
    history = sampled.sampler.history(queue.counters)
    assert history is not None
    assert len(history) < 121 + 1_400 / 30 + 2
    begin = sampled.clock.monotonic() - 2_000
    assert (history.first_time, history.at(begin + 500, [PUBLISH])) == (begin, 100)


async def test_very_many_objects_keep_less_each_but_for_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "LASTING_ROWS_MAX", 100)
    async with running_node(tmp_path) as node:
        sampled = Sampled(node)
        queues = [sampled.queue(f"q{at}") for at in range(60)]
        for _ in range(10):
            for queue in queues:
                publish(queue, 5)
            await sampled.later()
        histories = [sampled.sampler.history(queue.counters) for queue in queues]
        assert max(len(each) for each in histories if each is not None) == 2
        rates = [sampled.rate(queue.counters) for queue in queues]
        assert rates[-30:] == [1.0] * 30
        of_node = sampled.sampler.history(node.vhosts.counters.queues["classic"])
        assert of_node is not None
        assert len(of_node) == 11


async def test_what_changed_longest_ago_is_let_go_of_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "PASSING_ROWS_MAX", 40)
    async with running_node(tmp_path) as node:
        sampled = Sampled(node)
        connections = [node.vhosts.counters.connection() for _ in range(30)]
        for connection in connections:
            connection.received(1)
            await sampled.later()
        has_samples = [sampled.sampler.history(each) is not None for each in connections]
        assert has_samples == sorted(has_samples)
        assert has_samples.count(True) == 20


async def test_an_idle_past_makes_room_for_what_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "LASTING_ROWS_MAX", 290)
    async with running_node(tmp_path) as node:
        sampled = Sampled(node)
        idle, busy = sampled.queue("idle"), sampled.queue("busy")
        for _ in range(20):
            publish(idle, 1)
            await sampled.later()
        for _ in range(150):
            publish(busy, 1)
            await sampled.later()
        assert sampled.sampler.history(idle.counters) is None
        history = sampled.sampler.history(busy.counters)
        assert history is not None
        assert len(history) > 121


async def test_the_free_disk_has_a_history(sampled: Sampled) -> None:
    await sampled.later()
    assert sampled.sampler.history(DISK_FREE) is None
    for sampled.disk_free in (900, 800, 800):
        await sampled.later()
    history = sampled.sampler.history(DISK_FREE)
    assert history is not None
    assert (len(history), history.last) == (2, (800,))


async def test_what_groups_are_behind_has_a_history_while_they_are_there(sampled: Sampled) -> None:
    declared = QueueProperties("q", arguments={"x-retention": "1D"})
    queue = declare_queue(sampled.node.vhost, declared, object())[0]
    options = wanted_group({"x-group": "g"})
    assert options is not None
    groups = sampled.node.vhost.hosted.groups
    group, _ = groups.join(queue, options, "first", 0)
    for _ in range(3):
        publish(queue, 4)
        await sampled.later()
    history = sampled.sampler.history(group)
    assert history is not None
    assert (len(history), history.last) == (3, (12,))
    groups.delete(group)
    await sampled.later()
    assert sampled.sampler.history(group) is None


async def test_the_sums_of_lengths_follow_their_queues(sampled: Sampled) -> None:
    first, second = sampled.queue("first"), sampled.queue("second")
    assert sampled.sampler.lengths("/") is None
    publish(first, 3)  # before the sampler has looked
    await sampled.later()
    publish(second, 4)
    first.get()
    first.counters.note()  # as who delivers does
    await sampled.later()
    counters = sampled.node.vhost.counters
    assert sampled.sums(counters) == sampled.sums(counters.node) == (6, 1)
    assert sampled.sampler.lengths("/") == (6, 1)
    second.purge()
    sampled.node.vhost.delete_queue(first)
    await sampled.later()
    assert sampled.sums(counters) == sampled.sums(counters.node) == (0, 0)


async def test_messages_that_were_there_before_the_first_sample_have_no_rate(
    sampled: Sampled,
) -> None:
    queue, counters = sampled.queue(), sampled.node.vhost.counters
    publish(queue, 50)
    for _ in range(2):
        await sampled.later()
        for of, column in ((queue.counters, READY), (counters, 0), (counters.node, 0)):
            assert sampled.sums(of)[column] == 50
            assert sampled.rate(of, column) == 0.0
        queue.counters.note()


async def test_totals_that_do_not_change_keep_their_samples_and_have_no_rate(
    sampled: Sampled,
) -> None:
    counters = sampled.node.vhost.counters
    churn = counters.node.churn
    churn.connection_created = 100
    publish(sampled.queue(), 50)
    await sampled.later()
    assert sampled.rate(churn, 0) == pytest.approx(20.0)
    for _ in range(130):
        await sampled.later()
        assert sampled.sums(counters) == sampled.sums(counters.node) == (50, 0)
        assert sampled.sums(churn)[0] == 100
        assert {sampled.rate(of, 0) for of in (counters, counters.node, churn)} == {0.0}


async def test_a_deleted_queue_is_let_go_of(sampled: Sampled) -> None:
    queue = sampled.queue()
    publish(queue, 3)
    await sampled.later()
    counters = queue.counters
    sampled.node.vhost.delete_queue(queue)
    await sampled.later()
    assert counters.owner is None
    assert sampled.sampler.history(counters) is None


async def test_a_stopped_sampler_leaves_nothing_noted(sampled: Sampled) -> None:
    sampled.sampler.start()
    queue = sampled.queue()
    publish(queue, 1)
    await sampled.sampler.stop()
    changed = sampled.node.vhosts.counters.changed
    assert (changed.is_watched, changed.noted) == (False, [])


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
