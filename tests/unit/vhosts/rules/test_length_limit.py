"""Limits of length on a real log store: who leaves, who is refused, and what a policy may change."""

import asyncio
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
from unit.log_backend.open_store import flushed
from unit.vhosts.queues.test_credit_ring import Counting

from routelog.log_backend import LogOptions
from routelog.vhosts import PublishRefused, Queue, QueueProperties
from routelog.vhosts.rules.dead_letters import LETTERS_MAX
from routelog.vhosts.rules.length_limit import RANGES_MAX, RANGES_MORE, length_options

REFUSING = {"x_overflow": "reject-publish"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    options = LogOptions(journal_file_bytes=1 << 20, memory_tail_bytes=1 << 18, flush_seconds=60)
    async with running_node(tmp_path, options) as node:
        yield node


def declared(node: Node, name: str = "q", **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    return declare_queue(node.vhost, QueueProperties(name, arguments=hyphened), None)[0]


def left(queue: Queue) -> list[str]:
    found = []
    while (delivery := got(queue)) is not None:
        found += bodies(delivery)
    return found


def refused(queue: Queue, *contents: str) -> list[int]:
    """Publish; returns the indexes of what was refused."""
    try:
        queue.publish(records(*contents), waited=False)
    except PublishRefused as error:
        return list(error.refused)
    return []


def test_arguments_say_how_long_a_queue_may_be() -> None:
    assert length_options({"x-overflow": "reject-publish"}) is None
    options = length_options({"x-max-length": 3, "x-overflow": "reject-publish-dlx"})
    assert options is not None
    assert (options.count_max, options.bytes_max) == (3, None)
    assert (options.refuses, options.keeps_refused) == (True, True)
    options = length_options({"x-max-length-bytes": 0})
    assert options is not None
    assert (options.count_max, options.bytes_max, options.refuses) == (None, 0, False)


async def test_without_consumers_the_oldest_leave_before_publish_returns(node: Node) -> None:
    queue = declared(node, x_max_length=3)
    fill(queue, 10, batch=4)
    assert queue.ready == 3
    assert left(queue) == numbered(7, 10)


async def test_consumers_with_credit_come_before_the_limit(node: Node) -> None:
    queue = declared(node, x_max_length=2)
    taker = Taker(5)
    queue.add_consumer(taker)
    fill(queue, 10, batch=10)
    node.turns.run()
    assert taker.bodies() == numbered(0, 5)
    assert left(queue) == numbered(8, 10)


async def test_what_comes_back_to_a_full_queue_pushes_the_oldest_out(node: Node) -> None:
    queue = declared(node, x_max_length=3)
    fill(queue, 3)
    first = queue._take(2)
    assert first is not None
    queue.publish(records("a", "b"), waited=False)
    give_back(first)
    node.turns.run()
    assert left(queue) == ["m2", "a", "b"]


async def test_bytes_are_those_of_ready_bodies(node: Node) -> None:
    queue = declared(node, x_max_length_bytes=100)
    queue.publish(records("a" * 60, "b" * 30), waited=False)
    delivery = queue._take(1)
    assert delivery is not None
    queue.publish(records("c" * 60), waited=False)
    assert queue.ready == 2
    give_back(delivery)
    node.turns.run()
    assert left(queue) == ["b" * 30, "c" * 60]


async def test_the_fullest_partition_gives_first(node: Node) -> None:
    queue = declared(node, x_partitions=2, x_max_length=6)
    one, two = queue.partitions
    one.log.append(records(*numbered(0, 2)))
    two.log.append(records(*numbered(0, 10)))
    node.turns.run()
    queue.rules.length.enforce_soon()
    node.turns.run()
    assert (one.ready, two.ready) == (2, 4)


async def test_a_full_queue_takes_what_fits_and_refuses_the_rest(node: Node) -> None:
    queue = declared(node, x_max_length=3, **REFUSING)
    assert refused(queue, "a", "b") == []
    assert refused(queue, "c", "d", "e") == [1, 2]
    assert refused(queue, "f") == [0]
    assert left(queue) == ["a", "b", "c"]


async def test_a_small_message_fits_behind_a_large_one_that_did_not(node: Node) -> None:
    queue = declared(node, x_max_length_bytes=10, **REFUSING)
    assert refused(queue, "a" * 11, "b" * 6, "c" * 5, "d" * 4) == [0, 2]
    assert left(queue) == ["b" * 6, "d" * 4]


async def test_credit_is_room_unless_the_queue_holds_nothing(node: Node) -> None:
    queue = declared(node, x_max_length=1, **REFUSING)
    taker = Taker(3)
    queue.add_consumer(taker)
    assert refused(queue, *numbered(0, 6)) == [4, 5]
    node.turns.run()
    assert taker.bodies() == numbered(0, 3)
    none = declared(node, "none", x_max_length=0, **REFUSING)
    none.add_consumer(Taker(3))
    assert refused(none, "a") == [0]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
@pytest.mark.parametrize("limit", [{"x_max_length": 5}, {"x_max_length_bytes": 25}])
async def test_consumers_with_full_hands_are_not_asked(
    node: Node, overflow: str, limit: dict[str, object]
) -> None:
    queue = declared(node, x_overflow=overflow, **limit)
    takers = [Counting(1) for _ in range(20)]
    for taker in takers:
        queue.add_consumer(taker)
    refused(queue, *"a" * 5)
    assert {taker.looks for taker in takers} == {0}  # there is room without them
    refused(queue, *"b" * 15)
    node.turns.run()
    refused(queue, *["c" * 5] * 5)
    asked = [taker.looks for taker in takers]
    for _ in range(10):
        assert len(refused(queue, "d" * 5)) == (overflow != "drop-head")
        node.turns.run()
    assert [taker.looks for taker in takers] == asked
    takers[3].settle_all()
    queue.has_credit(takers[3])
    assert refused(queue, "e" * 5) == []


async def test_a_limit_of_bytes_counts_what_is_there_also_on_the_disk(node: Node) -> None:
    properties = QueueProperties("q", durable=True)
    queue, durable = declare_queue(node.vhost, properties, None)
    assert durable is not None
    await durable
    for _ in range(60):
        queue.publish(records("x" * 10_000, "y" * 5_000), waited=False)
    await flushed(node.logs)
    partition = queue.partitions[0]
    assert partition.log.needs_load(0)
    delivery = None
    while delivery is None:
        delivery = partition.take(1, 1 << 20)
        await turn(node)
    queue.apply({"x-max-length-bytes": 1 << 30})
    length = queue.rules and queue.rules.length
    assert length is not None
    while not length._bytes[partition].counted:
        await turn(node)
    assert length.ready_bytes == 60 * 15_000 - 10_000
    queue.apply({"x-max-length-bytes": 100_000})
    while queue.ready > 14:
        await turn(node)
    assert queue.ready in (13, 14)


async def test_a_message_that_comes_back_from_the_disk_counts_as_it_did(node: Node) -> None:
    properties = QueueProperties("q", durable=True, arguments={"x-max-length-bytes": 1 << 30})
    queue, durable = declare_queue(node.vhost, properties, None)
    assert durable is not None
    await durable
    queue.publish(records("x", "y" * 50_000, "z"), waited=False)
    partition = queue.partitions[0]
    delivery = partition.take(1, 1 << 20)
    assert delivery is not None
    for _ in range(10):
        queue.publish(records("f" * 50_000), waited=False)
    await flushed(node.logs)
    assert partition.log.needs_load(0)
    assert queue.rules is not None
    length = queue.rules.length
    assert length is not None
    assert length.ready_bytes == 11 * 50_000 + 1
    give_back(delivery)
    assert length.ready_bytes == 11 * 50_000 + 2
    while partition.take(1, 1 << 20) is None:
        await turn(node)
    assert length.ready_bytes == 11 * 50_000 + 1


async def test_places_within_batches_are_forgotten_when_their_messages_are_settled(
    node: Node,
) -> None:
    queue = declared(node, x_max_length_bytes=1 << 30)
    assert queue.rules is not None
    length = queue.rules.length
    assert length is not None
    counted = length._bytes[queue.partitions[0]]
    kept = None
    for _ in range(100):
        queue.publish(records(*numbered(0, 10)), waited=False)
        for _ in range(10):
            delivery = got(queue)
            assert delivery is not None
            if kept is None:
                kept = delivery
            else:
                settle(delivery)
        assert len(counted._inside) < 25
    assert length.ready_bytes == 0


async def test_many_ranges_leave_in_several_turns(node: Node) -> None:
    queue = declared(node)
    fill(queue, 4 * RANGES_MAX, batch=RANGES_MAX)
    held = [queue._take(1) for _ in range(4 * RANGES_MAX)]
    for delivery in held[::2]:
        assert delivery is not None
        give_back(delivery)
    queue.apply({"x-max-length": 0})
    turns = 0
    while node.turns.one():
        turns += 1
    assert queue.ready == 0
    assert turns > 2


async def test_many_runs_of_one_turn_let_many_ranges_leave_once(node: Node) -> None:
    queue = declared(node)
    fill(queue, 4 * RANGES_MAX, batch=RANGES_MAX)
    held = [queue._take(1) for _ in range(4 * RANGES_MAX)]
    for delivery in held[::2]:
        assert delivery is not None
        give_back(delivery)
    queue.apply({"x-max-length": 0})
    left = []
    for _ in range(3):
        before = queue.ready
        queue.publish(records("more"), waited=False)
        left.append(before + 1 - queue.ready)
    assert left == [RANGES_MAX, RANGES_MORE, RANGES_MORE]
    node.turns.run()
    assert queue.ready == 0


async def test_refused_messages_become_dead_letters_in_slices(tmp_path: Path) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        node.turns.clock.look_microseconds = 2_000  # a turn is over with the second look
        morgue = declared(node, "morgue")
        queue = declared(
            node,
            x_max_length=1,
            x_overflow="reject-publish-dlx",
            x_dead_letter_exchange="",
            x_dead_letter_routing_key="morgue",
        )
        count = 4 * LETTERS_MAX + 3
        assert refused(queue, *numbered(0, count)) == list(range(1, count))
        while not morgue.ready:
            node.turns.one()
        assert morgue.ready <= 2 * LETTERS_MAX
        node.turns.clock.look_microseconds = 0
        node.turns.run()
        assert left(morgue) == numbered(1, count)


async def test_a_limit_can_be_changed_and_lifted(node: Node) -> None:
    queue = declared(node)
    fill(queue, 10)
    queue.apply({"x-max-length": 4})
    node.turns.run()
    assert queue.ready == 4
    queue.apply({})
    assert queue.rules is None
    fill(queue, 10)
    assert queue.ready == 14


async def test_a_purge_makes_room(node: Node) -> None:
    queue = declared(node, x_max_length_bytes=10, **REFUSING)
    assert refused(queue, "a" * 10) == []
    queue.purge()
    assert refused(queue, "b" * 10) == []
    assert left(queue) == ["b" * 10]


async def test_a_queue_of_streams_knows_no_length_but_its_retention(node: Node) -> None:
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 10,
        "x-durability": "memory",
    }
    properties = QueueProperties("s", durable=True, arguments=arguments)
    stream, durable = declare_queue(node.vhost, properties, None)
    assert durable is not None
    await durable
    fill(stream, 10)
    assert stream.rules is None
    assert stream.ready == 10


async def turn(node: Node) -> None:
    node.turns.one()
    await asyncio.sleep(0)
