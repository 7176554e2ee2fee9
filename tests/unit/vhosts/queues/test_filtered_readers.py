"""Readers and groups with a filter: what they are given, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.message_samples import batch, message
from support.queue_samples import Node, Taker, declare_queue, give_back, running_node, settle

from routelog.log_backend import Lane, LogOptions
from routelog.vhosts import (
    ConsumeOptions,
    ConsumerGroup,
    ConsumerSource,
    FilterRefused,
    GroupInequivalent,
    GroupOptions,
    Queue,
    QueueProperties,
    ReaderFilter,
    filter_arguments,
    reader_filter,
)
from routelog.vhosts.filters.reader_filter import LOOK_SECONDS

STREAM = {"x-queue-type": "stream", "x-durability": "memory"}  # visible at once
KEPT = {"x-retention": "1h", "x-durability": "memory"}
OPTIONS = LogOptions(journal_file_bytes=1024 * 1024, flush_seconds=3600)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, OPTIONS, clocked=True) as running:
        yield running


async def declare(node: Node, **arguments: object) -> Queue:
    properties = QueueProperties("q", durable=True, arguments=arguments)
    queue, durable = declare_queue(node.vhost, properties, object())
    assert durable is not None
    await durable
    return queue


async def made(arguments: dict[str, object]) -> ReaderFilter:
    checked = filter_arguments(arguments)
    assert checked is not None
    found = reader_filter(checked)
    return await found if isinstance(found, asyncio.Future) else found


async def joined(node: Node, queue: Queue, name: str, wanted: ReaderFilter | None) -> ConsumerGroup:
    groups = node.vhost.hosted.groups
    group, durable = groups.join(queue, GroupOptions(name), "first", 0, wanted)
    if durable is not None:
        await durable
    return group


def colours(*names: str) -> list[tuple[bytes, bytes, bytes]]:
    """Messages with a header, of which the body is the name too."""
    return [message(headers={"x-stream-filter-value": name}, body=name.encode()) for name in names]


def publish(queue: Queue, *names: str) -> None:
    queue.publish(batch(*colours(*names)), waited=False)


def taken(taker: Taker) -> list[tuple[int, str]]:
    """Offsets and bodies since the last call."""
    return [
        (each.offset + at, each.records.body(each.index + at).decode())
        for each in taker.take()
        for at in range(each.count)
    ]


@pytest.mark.parametrize("arguments", [STREAM, KEPT])
async def test_a_reader_is_given_what_matches(node: Node, arguments: dict[str, object]) -> None:
    queue = await declare(node, **arguments)
    publish(queue, "red", "blue", "blue", "red")
    publish(queue, "green", "green")
    publish(queue, "red")
    everything, some = Taker(), Taker()
    queue.add_reader(everything, "first", 0)
    queue.add_reader(some, "first", 0, await made({"x-stream-filter": "red"}))
    node.turns.run()
    assert [offset for offset, _ in taken(everything)] == list(range(7))
    assert taken(some) == [(0, "red"), (3, "red"), (6, "red")]
    publish(queue, "blue", "red")
    node.turns.run()
    assert taken(some) == [(8, "red")]


async def test_a_reader_has_no_more_than_its_credit(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, "red", "blue", "red", "red", "red")
    taker = Taker(prefetch=2)
    queue.add_reader(taker, "first", 0, await made({"x-stream-filter": "red"}))
    node.turns.run()
    assert taken(taker) == [(0, "red"), (2, "red")]
    taker.unacked = 0
    queue.wake()
    node.turns.run()
    assert taken(taker) == [(3, "red"), (4, "red")]


async def test_a_reader_begins_within_a_batch(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, "red", "blue", "red")
    taker = Taker()
    queue.add_reader(taker, 1, 0, await made({"x-stream-filter": "red"}))
    node.turns.run()
    assert taken(taker) == [(2, "red")]


async def test_partitions_are_filtered_each(node: Node) -> None:
    queue = await declare(node, **STREAM, **{"x-partitions": 4})
    for number in range(40):
        parts = message(str(number), body=b"%d" % number)
        queue.publish(batch(parts), waited=False)
    taker, member = Taker(), Taker()
    wanted = await made({"x-filter": "routing_key LIKE '%7'"})
    queue.add_reader(taker, "first", 0, wanted)
    queue.join_group(await joined(node, queue, "g", wanted), member)
    node.turns.run()
    for each in (taker, member):
        assert sorted(body for _, body in taken(each)) == ["17", "27", "37", "7"]


async def test_a_long_look_goes_on_behind_other_work(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, *(["blue"] * 99), "red")
    wanted = await made({"x-filter": "[x-stream-filter-value] <> 'blue'"})
    reader, member = Taker(), Taker()
    queue.add_reader(reader, "first", 0, wanted)
    queue.join_group(await joined(node, queue, "g", wanted), member)
    node.turns.clock.look_microseconds = 20  # three looks, and the turn is over
    node.turns.one()
    waiting = node.turns.scheduler.waiting
    assert (waiting(Lane.FRESH), waiting(Lane.BACKLOG)) == (0, 2)
    turns = 1
    while not (reader.deliveries and member.deliveries):
        assert node.turns.one()
        turns += 1
    assert turns > 10
    assert taken(reader) == taken(member) == [(99, "red")]


async def test_a_look_that_finds_nothing_ends_long_before_its_lane_s_share(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, *(["blue"] * 1_000), "red")
    wanted = await made({"x-filter": "[x-stream-filter-value] <> 'blue'"})
    taker = Taker()
    queue.add_reader(taker, "first", 0, wanted)
    clock = node.turns.clock
    clock.look_microseconds = 1
    while not taker.deliveries:
        began = clock.microseconds
        assert node.turns.one()
        assert clock.microseconds - began < 1_000_000 * LOOK_SECONDS + 20  # of the scheduler
    assert taken(taker) == [(1_000, "red")]


async def test_matches_are_given_as_long_as_there_is_time(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, *(["red", "blue"] * 10))
    wanted = await made({"x-stream-filter": "red"})
    reader, member = Taker(), Taker()
    queue.add_reader(reader, "first", 0, wanted)
    node.turns.clock.look_microseconds = 1
    node.turns.one()
    assert len(reader.deliveries) == 10
    queue.join_group(await joined(node, queue, "g", wanted), member)
    node.turns.one()
    assert len(member.deliveries) == 10


async def test_one_turn_looks_at_few_messages_however_many_came(node: Node) -> None:
    queue = await declare(node, **STREAM)
    group = await joined(node, queue, "g", await made({"x-stream-filter": "red"}))
    member = Taker()
    queue.join_group(group, member)
    node.turns.run()
    node.turns.clock.look_microseconds = 20
    publish(queue, *(["red", "blue"] * 50))
    node.turns.one()
    assert 1 <= len(taken(member)) < 20
    while group.ready:
        assert node.turns.one()
    assert group.unacked == 50


async def test_a_group_passes_what_does_not_match(node: Node) -> None:
    queue = await declare(node, **STREAM)
    publish(queue, "blue", "red", "blue", "blue", "red", "blue")
    group = await joined(node, queue, "g", await made({"x-stream-filter": "red"}))
    assert group.ready == 6  # nobody has looked
    member = Taker()
    queue.join_group(group, member)
    node.turns.run()
    assert (group.ready, group.unacked) == (0, 2)
    assert group.partitions[0].cursor.low_water == 1
    first, second = member.take()
    give_back(first)
    settle(second)
    node.turns.run()
    assert taken(member) == [(1, "red")]
    assert group.partitions[0].cursor.low_water == 1
    group.partitions[0].settle(1, 2)
    assert group.partitions[0].cursor.low_water == 6


async def test_members_share_what_matches(node: Node) -> None:
    queue = await declare(node, **STREAM)
    group = await joined(node, queue, "g", await made({"x-stream-filter": "red"}))
    members = Taker(), Taker()
    for each in members:
        queue.join_group(group, each)
    for _ in range(10):
        publish(queue, "red", "blue", "red")
    node.turns.run()
    shares = [taken(each) for each in members]
    assert all(shares)
    offsets = sorted(offset for share in shares for offset, _ in share)
    assert offsets == [each for each in range(30) if each % 3 != 1]


async def test_what_a_group_had_when_the_broker_ended_comes_again_filtered(tmp_path: Path) -> None:
    durable = {"x-queue-type": "stream"}
    async with running_node(tmp_path, OPTIONS) as node:
        queue = await declare(node, **durable)
        publish(queue, "blue", "red", "blue", "red", "red")
        await node.logs.journal.drain()
        wanted = await made({"x-stream-filter": ["red"], "x-filter": "TRUE"})
        group = await joined(node, queue, "g", wanted)
        member = Taker(prefetch=2)
        queue.join_group(group, member)
        node.turns.run()
        group.partitions[0].settle(3, 4)
    async with running_node(tmp_path, OPTIONS) as node:
        queue = node.vhost.queues["q"]
        group = queue.groups["g"]
        arguments = {"x-stream-filter": ["red"], "x-filter": "TRUE"}
        assert group.record.filter == arguments
        with pytest.raises(GroupInequivalent):
            await joined(node, queue, "g", None)
        member = Taker()
        queue.join_group(await joined(node, queue, "g", await made(arguments)), member)
        publish(queue, "blue", "red")
        await node.logs.journal.drain()
        while len(member.bodies()) < 3:
            node.turns.run()
            await asyncio.sleep(0)  # something is loaded
        first, *others = member.deliveries
        assert (first.offset, first.redelivered) == (1, True)
        assert not any(each.redelivered for each in others)
        assert taken(member) == [(1, "red"), (4, "red"), (6, "red")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "'x-stream-filter' for group 'g' of queue 'q' in vhost '/': received none but "),
        ({"x-stream-filter": "blue"}, "received 'blue' but current is 'red'"),
        ({"x-stream-filter": "red", "x-filter": "a"}, "'x-filter' .* received 'a' but .* none"),
        ({"x-stream-filter": "red", "x-filter-match-type": "any"}, "'x-filter-match-type'"),
        ({"x-stream-filter": "red", "x-stream-match-unfiltered": True}, "match-unfiltered'"),
    ],
)
async def test_a_group_has_one_filter(
    node: Node, arguments: dict[str, object] | None, text: str
) -> None:
    queue = await declare(node, **STREAM)
    group = await joined(node, queue, "g", await made({"x-stream-filter": "red"}))
    other = None if arguments is None else await made(arguments)
    with pytest.raises(GroupInequivalent, match=f"^inequivalent arg .*{text}"):
        await joined(node, queue, "g", other)
    assert await joined(node, queue, "g", await made({"x-stream-filter": "red"})) is group


async def test_true_is_another_value_than_one(node: Node) -> None:
    queue = await declare(node, **STREAM)
    await joined(node, queue, "g", await made({"x-stream-filter": {"a": True}}))
    with pytest.raises(GroupInequivalent):
        await joined(node, queue, "g", await made({"x-stream-filter": {"a": 1}}))


async def test_a_group_that_is_moved_keeps_its_filter(node: Node) -> None:
    queue = await declare(node, **STREAM)
    wanted = await made({"x-stream-filter": "red"})
    group = await joined(node, queue, "g", wanted)
    moved = node.vhost.hosted.groups.move(group, "first", 0)
    assert moved is not None
    await moved
    assert queue.groups["g"].record.filter == {"x-stream-filter": "red"}
    assert await joined(node, queue, "g", wanted) is queue.groups["g"]


@pytest.mark.parametrize("arguments", [{}, KEPT])
async def test_a_queue_s_own_consumer_has_no_filter(
    node: Node, arguments: dict[str, object]
) -> None:
    queue = await declare(node, **arguments)
    wanted = await made({"x-stream-filter": "red"})

    def begin(source: ConsumerSource) -> None:
        raise AssertionError

    with pytest.raises(FilterRefused, match="only streams and groups have filters"):
        queue.attach(Taker(), ConsumeOptions(wanted=wanted), begin)
    assert queue.consumer_count == 0
