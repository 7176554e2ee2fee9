"""Expiry on a clock that is set: at the head only, by ranges where messages share their time."""

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands
from support.queue_samples import (
    Node,
    Taker,
    bodies,
    declare_queue,
    give_back,
    got,
    numbered,
    running_node,
)
from support.waiting import until

from routelog.log_backend import EXPIRING, PERSISTENT, Lane, Records, encode_records
from routelog.vhosts import Queue, QueueProperties, value_of
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.messages.property_list import expiration
from routelog.vhosts.rules import expiry
from routelog.vhosts.rules.expiry import MESSAGES_MAX, RANGES_MAX, TAKEN_RANGES_MAX

SECOND = 1_000  # ms


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, clocked=True) as node:
        yield node


def declared(node: Node, name: str = "q", **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    return declare_queue(node.vhost, QueueProperties(name, arguments=hyphened), None)[0]


def timed(
    node: Node, *contents: str, own: dict[str, int] | None = None, kept: bool = False
) -> Records:
    """A batch that comes in now; some of its messages have an expiration in milliseconds.

    Args:
        kept: a restart does not lose it.
    """
    rows, source = array("i"), bytearray()
    for content in contents:
        milliseconds = (own or {}).get(content)
        text = None if milliseconds is None else str(milliseconds)
        properties = commands.Basic.Properties(expiration=text).marshal()
        for part in (b"", properties, content.encode()):
            rows.extend((len(source), len(part)))
            source += part
    attributes = (EXPIRING if own else 0) | (PERSISTENT if kept else 0)
    time = node.turns.clock.now()
    batch: Records = encode_records(
        memoryview(source), memoryview(rows), None, len(contents), b"", b"k", attributes, time
    )
    return batch


def put(node: Node, queue: Queue, *contents: str, own: dict[str, int] | None = None) -> None:
    queue.publish(timed(node, *contents, own=own), waited=False)


def left(queue: Queue) -> list[str]:
    found = []
    while (delivery := got(queue)) is not None:
        found += bodies(delivery)
    return found


async def test_all_that_came_in_before_is_over_at_its_time(node: Node) -> None:
    queue = declared(node, x_message_ttl=10 * SECOND)
    put(node, queue, "a", "b")
    node.turns.pass_seconds(4)
    put(node, queue, "c")
    node.turns.pass_seconds(5.999)
    assert queue.ready == 3
    node.turns.pass_seconds(0.001)
    assert queue.ready == 1
    node.turns.pass_seconds(4)
    assert queue.ready == 0
    assert queue.partitions[0].cursor.low_water == 3


async def test_the_longest_time_of_a_policy_is_for_ever(node: Node) -> None:
    queue = declared(node)
    queue.follow(Policy("never", "", {"message-ttl": 2**63 - 1}), None)
    put(node, queue, "a", "b")
    queue.counts()
    node.turns.pass_seconds(60)
    assert left(queue) == ["a", "b"]


async def test_the_shorter_time_counts(node: Node) -> None:
    queue = declared(node, x_message_ttl=10 * SECOND)
    put(node, queue, "a", "b", own={"a": 2 * SECOND, "b": 60 * SECOND})
    node.turns.pass_seconds(2)
    assert queue.ready == 1
    node.turns.pass_seconds(7.9)
    assert queue.ready == 1
    node.turns.pass_seconds(0.1)
    assert queue.ready == 0


async def test_what_is_behind_the_head_waits_until_it_comes_there(node: Node) -> None:
    queue = declared(node)
    put(node, queue, "a", "b", "c", "d", own={"b": SECOND, "c": 2 * SECOND})
    node.turns.pass_seconds(60)
    assert queue.ready == 4
    assert left(queue) == ["a", "d"]


async def test_no_more_expirations_are_read_than_messages_are_taken(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def counted(properties: bytes) -> int | None:
        read.append(properties)
        return expiration(properties)

    monkeypatch.setattr(expiry, "expiration", counted)
    queue = declared(node)
    contents = numbered(0, 200)
    put(node, queue, *contents, own=dict.fromkeys(contents, SECOND))
    node.turns.run()
    read.clear()
    taken = []
    while (delivery := queue.partitions[0].take(1, 1 << 20)) is not None:
        taken += bodies(delivery)
        node.turns.run()
    assert taken == contents
    assert len(read) <= 4 * len(contents)
    put(node, queue, "a", "b", "c", own={"a": 60 * SECOND, "b": SECOND, "c": 60 * SECOND})
    node.turns.pass_seconds(2)
    assert left(queue) == ["a", "c"]


async def test_a_delivery_ends_before_what_is_over(node: Node) -> None:
    queue = declared(node)
    taker = Taker(0)
    queue.add_consumer(taker)
    put(node, queue, "a", "b", "c", "d", own={"c": SECOND})
    node.turns.pass_seconds(2)
    taker.prefetch = 10
    queue.wake()
    node.turns.run()
    assert taker.bodies() == ["a", "b", "d"]


async def test_the_head_is_looked_at_again_when_another_message_is_there(node: Node) -> None:
    queue = declared(node)
    put(node, queue, "a", "b", own={"b": SECOND})
    node.turns.pass_seconds(0.5)
    assert got(queue) is not None
    node.turns.pass_seconds(0.5)
    assert queue.ready == 0


async def test_a_head_that_is_over_goes_with_the_delivery_before_it(node: Node) -> None:
    queue = declared(node)
    put(node, queue, "a", "b", "c", own={"b": SECOND})
    node.turns.pass_seconds(2)
    taker = Taker(1)
    queue.add_consumer(taker)
    while not taker.deliveries:
        node.turns.one()
    taker.prefetch = 0
    give_back(taker.take()[0])  # "b" would be the head no more
    assert [*queue.partitions[0].ready_ranges()] == [(0, 1), (2, 3)]


async def test_what_comes_back_too_late_is_over(node: Node) -> None:
    queue = declared(node, x_message_ttl=SECOND)
    put(node, queue, *numbered(0, 5))
    delivery = queue._take(3)
    assert delivery is not None
    node.turns.pass_seconds(5)
    assert queue.ready == 0
    give_back(delivery)
    node.turns.run()
    assert queue.ready == 0
    assert queue.partitions[0].cursor.low_water == 5


@pytest.mark.parametrize("own", [None, {"a": 0, "b": 0}])
async def test_no_time_at_all_is_enough_for_a_consumer_that_waits(
    node: Node, own: dict[str, int] | None
) -> None:
    queue = declared(node, **({} if own else {"x_message_ttl": 0}))
    put(node, queue, "a", "b", own=own)
    node.turns.run()
    assert queue.ready == 0
    taker = Taker()
    queue.add_consumer(taker)
    put(node, queue, "a", "b", own=own)
    node.turns.run()
    assert taker.bodies() == ["a", "b"]


async def test_a_consumer_is_offered_all_of_what_has_no_time_in_several_turns(node: Node) -> None:
    queue = declared(node, x_message_ttl=0)
    taker = Taker()
    queue.add_consumer(taker)
    contents = [f"{number:06}" + "x" * 300_000 for number in range(8)]
    for content in contents:
        put(node, queue, content)
    node.turns.run()
    assert taker.bodies() == contents


async def test_many_deaths_are_spread_over_turns(node: Node) -> None:
    queue = declared(node)
    count = 3 * MESSAGES_MAX
    names = numbered(0, count)
    put(node, queue, *names, own=dict.fromkeys(names, SECOND))
    held = [queue.partitions[0].take(1, 1 << 20) for _ in range(2 * RANGES_MAX + 20)]
    for delivery in held[::2]:
        assert delivery is not None
        give_back(delivery)
    node.turns.run()
    node.turns.clock.microseconds += 2_000_000
    queue.rules.expiry.look_soon()
    turns = 0
    while node.turns.one():
        turns += 1
    assert turns > 1
    assert queue.ready == 0


async def test_whoever_takes_a_message_passes_all_that_is_over(node: Node) -> None:
    queue = declared(node)
    for number in range(TAKEN_RANGES_MAX + 10):
        put(node, queue, f"m{number}", own={f"m{number}": SECOND})
    put(node, queue, "alive")
    node.turns.run()
    node.turns.clock.microseconds += 2_000_000
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.scheduler.begin(Lane.BACKLOG)
    queue._dispatch()
    assert (queue.ready, taker.bodies()) == (11, [])
    node.turns.run()
    assert taker.bodies() == ["alive"]


async def test_every_partition_has_its_head(node: Node) -> None:
    queue = declared(node, x_partitions=3, x_message_ttl=SECOND)
    for partition in queue.partitions:
        partition.log.append(timed(node, "a", "b"))
    queue.publish(timed(node, "c"), waited=False)
    node.turns.pass_seconds(1)
    assert queue.ready == 0


async def test_another_time_can_be_given_to_what_is_there(node: Node) -> None:
    queue = declared(node)
    put(node, queue, "a")
    node.turns.pass_seconds(10)
    queue.apply({"x-message-ttl": 15 * SECOND})
    node.turns.pass_seconds(4)
    assert queue.ready == 1
    node.turns.pass_seconds(1)
    assert queue.ready == 0
    queue.apply({})
    assert queue.rules is None
    put(node, queue, "b")
    node.turns.pass_seconds(100)
    assert left(queue) == ["b"]


async def test_a_stream_and_its_readers_know_no_expiration(node: Node) -> None:
    arguments = {"x-queue-type": "stream", "x-durability": "memory"}
    properties = QueueProperties("s", durable=True, arguments=arguments)
    stream, durable = declare_queue(node.vhost, properties, None)
    assert durable is not None
    await durable
    put(node, stream, "a", own={"a": 1})
    node.turns.pass_seconds(10)
    assert stream.rules is None
    assert stream.ready == 1


async def test_an_unused_queue_is_deleted_when_its_lease_is_over(node: Node) -> None:
    queue = declared(node, x_expires=10 * SECOND)
    node.turns.pass_seconds(6)
    got(queue)
    node.turns.pass_seconds(6)
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.pass_seconds(60)
    queue.detach([taker])
    node.turns.pass_seconds(9)
    declared(node, x_expires=10 * SECOND)
    node.turns.pass_seconds(9.9)
    assert "q" in node.vhost.queues
    node.turns.pass_seconds(0.1)
    assert "q" not in node.vhost.queues
    node.turns.pass_seconds(60)


async def test_the_lease_of_a_queue_whose_declaration_failed_deletes_nothing(node: Node) -> None:
    declared(node, x_expires=SECOND)
    del node.vhost.queues["q"]  # as a declaration that could not be stored does
    node.turns.pass_seconds(2)
    assert "q" not in node.vhost.queues


async def test_no_lease_ends_before_a_start_that_takes_long(tmp_path: Path) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        for name in ("q", "z"):  # the second one is opened when the time of the first one is over
            properties = QueueProperties(name, True, arguments={"x-expires": SECOND // 2})
            done = declare_queue(node.vhost, properties, None)[1]
            assert done is not None
            await done
    async with running_node(tmp_path, clocked=True, slow=True) as node:
        assert {"q", "z"} <= set(node.vhost.queues)
        node.turns.pass_seconds(1)
        assert not {"q", "z"} & set(node.vhost.queues)


async def test_a_lease_can_be_changed_and_taken_back(node: Node) -> None:
    queue = declared(node, x_expires=10 * SECOND)
    node.turns.pass_seconds(5)
    queue.apply({"x-expires": 20 * SECOND})
    node.turns.pass_seconds(19)
    queue.apply({})
    node.turns.pass_seconds(100)
    assert "q" in node.vhost.queues
    queue.apply({"x-expires": 1})
    node.turns.pass_seconds(1)
    assert "q" not in node.vhost.queues


async def test_a_message_before_one_that_moves_is_over_at_its_time(node: Node) -> None:
    queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), None)
    assert done is not None
    await done
    journal, intake = node.logs.journal, node.logs.intake
    journal.hold()
    queue.publish(timed(node, "before", own={"before": SECOND}, kept=True), waited=True)
    intake.is_moving = True
    queue.publish(timed(node, "moved", own={"moved": 0}, kept=True), waited=True)
    intake.is_moving = False
    node.turns.run()
    ready = [queue.ready]
    node.turns.clock.microseconds += 2_000_000
    taker = Taker()
    queue.add_consumer(taker)
    node.turns.run()
    ready.append(queue.ready)
    taken = taker.bodies()
    journal.let_go()
    await journal.drain()
    queue.transaction_ended(failed=False)
    node.turns.run()
    assert (ready, taken) == ([1, 0], [])
    assert taker.bodies() == ["moved"]


RULES: tuple[dict[str, object], ...] = (
    {},
    {"x_queue_type": "quorum"},
    {"x_delivery_limit": 3},
    {"x_expires": 60 * SECOND},
    {"x_max_priority": 3, "x_expires": 60 * SECOND},
    {"x_dead_letter_exchange": "nowhere"},
    {"x_max_length": 10, "x_overflow": "reject-publish"},
    {"x_message_deduplication": True},
)


async def kept(node: Node, **arguments: object) -> None:
    """Publish `m`, which expires after a second, and `n` to a durable queue."""
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    queue, done = declare_queue(node.vhost, QueueProperties("q", True, arguments=hyphened), None)
    assert done is not None
    await done
    queue.publish(timed(node, "m", own={"m": SECOND}, kept=True), waited=True)
    queue.publish(timed(node, "n", kept=True), waited=True)


async def coming(node: Node, queue: Queue) -> list[str]:
    """What `basic.get` has, perhaps from the disk."""
    answer = queue.get()
    if isinstance(answer, asyncio.Future):
        waiting = answer

        def is_there() -> bool:
            node.turns.run()
            return waiting.done()

        await until(is_there)
    delivery = await value_of(answer)
    return [] if delivery is None else bodies(delivery)


@pytest.mark.parametrize("arguments", RULES)
async def test_what_is_over_is_not_delivered_after_a_restart(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        await kept(node, **arguments)
    async with running_node(tmp_path, clocked=True) as node:
        node.turns.pass_seconds(2)
        queue = node.vhost.queues["q"]
        assert await coming(node, queue) == ["n"]
        assert queue.partitions[0].cursor.low_water == 1


@pytest.mark.parametrize("arguments", RULES[-3:])
async def test_what_takes_room_or_has_a_key_goes_without_a_consumer_after_a_restart(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        await kept(node, **arguments)
    async with running_node(tmp_path, clocked=True) as node:
        queue = node.vhost.queues["q"]

        def is_gone() -> bool:
            node.turns.pass_seconds(1)
            return queue.ready == 1

        await until(is_gone)


async def test_an_expiration_counts_when_the_queue_has_no_dead_letters_any_more(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        await kept(node, x_dead_letter_exchange="", x_delivery_limit=3)
    async with running_node(tmp_path, clocked=True) as node:
        queue = node.vhost.queues["q"]
        node.turns.run()
        await node.vhost.change_queue(queue, {"x-dead-letter-exchange": None})
        node.turns.pass_seconds(2)
        assert await coming(node, queue) == ["n"]
