"""Arguments of a queue that is in use change: clients and messages stay, and the queue goes by the new ones."""

import asyncio
import re
from collections.abc import Mapping
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
)
from unit.vhosts.partitions.test_priority_order import urgent
from unit.vhosts.replicated_nodes import replicated_node
from unit.vhosts.rules.test_unique_keys import keyed

from routelog.log_backend import Compaction, Durability, Reason
from routelog.vhosts import (
    ConsumptionRefused,
    GetRefused,
    InvalidQueueArgument,
    InvalidQueueProperty,
    Policy,
    Queue,
    QueueInequivalent,
    QueueProperties,
    pending,
)
from routelog.vhosts.arguments.group_options import GroupOptions
from routelog.vhosts.arguments.queue_arguments import FOR_LIFE, KNOWN, ONLY_FOR_STREAMS

KEEPS = {"x-retention": "1h"}
REMOTE = ("x-remote-storage", "x-local-max-age", "x-local-max-length-bytes")  # need a bucket

# A value for every argument of a queue that is no stream, with what else it needs.
SAMPLES: Mapping[str, tuple[object, Mapping[str, object]]] = {
    "x-expires": (60_000, {}),
    "x-message-ttl": (3_600_000, {}),
    "x-max-length": (100, {}),
    "x-max-length-bytes": (10_000, {}),
    "x-max-priority": (5, {}),
    "x-overflow": ("reject-publish", {"x-max-length": 100}),
    "x-dead-letter-exchange": ("amq.fanout", {}),
    "x-dead-letter-routing-key": ("dead", {"x-dead-letter-exchange": "amq.fanout"}),
    "x-dead-letter-strategy": ("at-least-once", {"x-dead-letter-exchange": "amq.fanout"}),
    "x-single-active-consumer": (True, {}),
    "x-delivery-limit": (7, {}),
    "x-delayed-retry-type": ("all", {}),
    "x-delayed-retry-min": (10, {"x-delayed-retry-type": "all"}),
    "x-delayed-retry-max": (20, {"x-delayed-retry-type": "all"}),
    "x-consumer-timeout": (60_000, {}),
    "x-queue-type": ("quorum", {}),
    "x-quorum-initial-group-size": (3, {"x-queue-type": "quorum"}),
    "x-retention": ("1h", {}),
    "x-retention-force": (True, KEEPS),
    "x-durability": ("memory", {}),
    "x-message-deduplication": (True, {}),
    "x-compression": ("lz4", {}),
    "x-queue-mode": ("lazy", {}),
    "x-queue-version": (2, {}),
    "x-queue-master-locator": ("random", {}),
    "x-queue-leader-locator": ("balanced", {}),
    "x-max-in-memory-length": (5, {}),
    "x-max-in-memory-bytes": (500, {}),
    "x-stream-max-segment-size-bytes": (1_000, {}),
    "x-initial-cluster-size": (3, {}),
    "mine": ("any", {}),
}


async def declared(
    node: Node, arguments: Mapping[str, object] | None = None, *, durable: bool = True
) -> Queue:
    properties = QueueProperties("q", durable=durable, arguments=arguments or {})
    queue, done = declare_queue(node.vhost, properties, None)
    if done is not None:
        await done
    return queue


async def change(node: Node, **changes: object) -> None:
    """Change arguments, named without their `x-` and with `_` for `-`."""
    asked = {f"x-{name.replace('_', '-')}": value for name, value in changes.items()}
    await node.vhost.change_queue(node.vhost.queues["q"], asked)
    node.turns.run()


def drained(queue: Queue) -> list[str]:
    found: list[str] = []
    while (delivery := got(queue)) is not None:
        found += bodies(delivery)
        delivery.partition.settle(delivery.offset, delivery.offset + delivery.count)
    return found


def test_every_argument_has_a_sample() -> None:
    assert {*SAMPLES} == {*KNOWN, "mine"} - {*FOR_LIFE, *REMOTE, *ONLY_FOR_STREAMS, "x-max-age"}


@pytest.mark.parametrize("argument", SAMPLES)
async def test_messages_and_consumers_stay_whatever_changes(argument: str, tmp_path: Path) -> None:
    value, needed = SAMPLES[argument]
    async with running_node(tmp_path) as node:
        queue = await declared(node, needed)
        taker = Taker(2)
        queue.add_consumer(taker)
        for body in numbered(0, 8):
            queue.publish(records(body, time=node.logs.now()), waited=False)
        node.turns.run()
        await node.vhost.change_queue(queue, {argument: value})
        node.turns.run()
        assert queue.properties.arguments == {**needed, argument: value}
        assert (queue.ready, queue.unacked, queue.consumer_count) == (6, 2, 1)
        taker.settle_all()
        queue.wake()
        node.turns.run()
        assert taker.bodies() == ["m2", "m3"]
        await node.vhost.change_queue(queue, {argument: None})
        assert queue.properties.arguments == needed
        taker.settle_all()
        queue.wake()
        node.turns.run()
        assert (queue.ready, queue.unacked, taker.bodies()) == (2, 2, ["m4", "m5"])
        await node.vhost.change_queue(queue, {argument: value})
        node.turns.run()
        give_back(taker.take()[0])
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        assert queue.properties.arguments == {**needed, argument: value}
        assert queue.ready == 4


@pytest.mark.parametrize(
    ("arguments", "changes", "error", "text"),
    [
        (
            {},
            {"x-queue-type": "stream"},
            QueueInequivalent,
            "inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "
            "received 'stream' but current is 'classic'",
        ),
        (
            {"x-queue-type": "stream"},
            {"x-queue-type": None},
            QueueInequivalent,
            "received 'classic' but current is 'stream'",
        ),
        (
            {"x-partitions": 2},
            {"x-partitions": 3},
            QueueInequivalent,
            "inequivalent arg 'x-partitions' for queue 'q' in vhost '/': "
            "received '3' but current is '2'",
        ),
        (
            {"x-partitions": 2},
            {"x-partition-key": "h"},
            QueueInequivalent,
            "received the value 'h' of type 'longstr' but current is none",
        ),
        (
            {},
            {"x-max-length": "many"},
            InvalidQueueArgument,
            "invalid arg 'x-max-length' for queue 'q' in vhost '/': unacceptable type 'longstr'",
        ),
        (
            {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k"},
            {"x-dead-letter-exchange": None},
            InvalidQueueArgument,
            "there is no 'x-dead-letter-exchange'",
        ),
        ({}, {"x-remote-storage": True}, InvalidQueueArgument, "has no remote storage"),
        ({"x-queue-type": "stream"}, {"x-expires": 5}, InvalidQueueArgument, "no stream can do it"),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_changes(
    node: Node,
    arguments: Mapping[str, object],
    changes: Mapping[str, object],
    error: type[Exception],
    text: str,
) -> None:
    queue = await declared(node, arguments)
    with pytest.raises(error, match=re.escape(text)):
        await node.vhost.change_queue(queue, {**changes, "x-max-length-bytes": 5})
    assert queue.properties.arguments == arguments
    assert queue.effective.values == arguments


async def test_a_queue_that_is_not_durable_becomes_no_quorum_queue(node: Node) -> None:
    await declared(node, durable=False)
    with pytest.raises(InvalidQueueProperty, match="'non-durable'"):
        await change(node, queue_type="quorum")
    await change(node, max_length=5)
    assert node.vhost.queues["q"].properties.arguments == {"x-max-length": 5}


async def test_classic_and_quorum_become_each_other_with_all_that_follows(node: Node) -> None:
    queue = await declared(node, {"x-durability": "os"})
    await node.vhost.policies.put(Policy("p", ".*", {"max-length": 9}, 0, "quorum_queues"))
    fill(queue, 2)
    first = got(queue)
    assert first is not None
    await change(node, queue_type="quorum", durability=None)
    assert (queue.type, queue.counts_deliveries, queue.durability) == ("quorum", True, "disk")
    assert queue.effective.values["x-max-length"] == 9
    assert queue.rules is not None
    assert queue.rules.delivery_limit == 20
    give_back(first)
    again = got(queue)
    assert again is not None
    assert (again.redelivered, again.partition.delivery_count(again.offset)) == (True, 1)
    fill(queue, 1)
    totals = node.vhosts.counters.queues
    assert (totals["classic"].publish, totals["quorum"].publish) == (2, 1)
    await change(node, queue_type="classic", durability="memory")
    assert (queue.type, queue.counts_deliveries, queue.rules) == ("classic", False, None)
    assert queue.durability is Durability.MEMORY
    assert queue.unacked == 1
    again.partition.settle(again.offset, again.offset + 1)
    assert drained(queue) == ["m1", "m0"]


async def test_priorities_come_change_and_go_with_messages_in_every_state(node: Node) -> None:
    queue = await declared(node)
    queue.publish(urgent((0, "a"), (2, "b"), (4, "c"), (0, "d"), (3, "e")), waited=False)
    held = [got(queue), got(queue)]
    assert all(held)
    await change(node, max_priority=5)
    for delivery in held:
        assert delivery is not None
        give_back(delivery)
    first = got(queue)
    assert first is not None
    assert (bodies(first), first.redelivered) == (["c"], False)
    await change(node, max_priority=1)
    second = got(queue)
    assert second is not None
    assert (bodies(second), second.redelivered) == (["b"], True)
    give_back(first)
    await change(node, max_priority=None)
    queue.publish(urgent((5, "f")), waited=False)
    assert queue.ready == 5
    assert drained(queue) == ["a", "c", "d", "e", "f"]
    assert queue.partitions[0].order is None
    give_back(second)
    assert drained(queue) == ["b"]


async def test_one_consumer_is_active_from_the_change_on_and_all_of_them_again(node: Node) -> None:
    queue = await declared(node)
    takers = [Taker(2, priority=priority) for priority in (0, 5, 0)]
    for taker in takers:
        queue.add_consumer(taker)
    fill(queue, 4)
    node.turns.run()
    await change(node, single_active_consumer=True)
    assert [queue.activity(each) for each in takers] == ["waiting", "single_active", "waiting"]
    assert queue.consumer_count == 3
    with pytest.raises(GetRefused):
        queue.get()
    fill(queue, 3)
    for taker in takers:
        taker.settle_all()
    queue.wake()
    node.turns.run()
    assert [len(taker.take()) for taker in takers] == [0, 2, 0]
    await change(node, single_active_consumer=False)
    assert [queue.activity(each) for each in takers] == ["up", "up", "up"]
    node.turns.run()
    assert takers[0].bodies() + takers[2].bodies() == ["m2"]


async def test_who_follows_the_active_consumer_of_a_changed_queue_is_given_messages(
    node: Node,
) -> None:
    queue = await declared(node)
    takers = [Taker(2) for _ in range(3)]
    for taker in takers:
        queue.add_consumer(taker)
    node.turns.run()
    await change(node, single_active_consumer=True)
    queue.detach([takers[0]])
    fill(queue, 4)
    node.turns.run()
    assert [len(taker.bodies()) for taker in takers] == [0, 2, 0]
    queue.stand_aside(takers[1])
    node.turns.run()
    assert [queue.activity(each) for each in takers[1:]] == ["waiting", "single_active"]
    assert [len(taker.bodies()) for taker in takers] == [0, 2, 2]


async def test_an_exclusive_consumer_stays_alone_as_the_single_active_one(node: Node) -> None:
    queue = await declared(node)
    queue.add_consumer(Taker(exclusive=True))
    await change(node, single_active_consumer=True)
    with pytest.raises(ConsumptionRefused):
        queue.add_consumer(Taker())


async def test_a_shorter_queue_drops_its_oldest_and_a_freed_one_takes_all(node: Node) -> None:
    queue = await declared(node)
    fill(queue, 8)
    await change(node, max_length=3)
    assert queue.ready == 3
    await change(node, max_length=None)
    fill(queue, 5)
    node.turns.run()
    assert drained(queue) == [*numbered(5, 8), *numbered(0, 5)]


async def test_a_time_to_live_counts_from_when_the_messages_came(tmp_path: Path) -> None:
    async with running_node(tmp_path, clocked=True) as node:
        queue = await declared(node)
        now = node.turns.clock.now()
        queue.publish(records("old", time=now - 5_000_000), waited=False)
        queue.publish(records("new", time=now), waited=False)
        await change(node, message_ttl=2_000)
        assert drained(queue) == ["new"]


async def test_rejected_messages_are_dead_lettered_from_the_change_on(node: Node) -> None:
    queue = await declared(node)
    dead, done = declare_queue(node.vhost, QueueProperties("dead", durable=True), None)
    await done  # type: ignore[misc]
    fill(queue, 3)
    for _ in range(2):
        delivery = got(queue)
        assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1, Reason.REJECTED)
        await change(node, dead_letter_exchange="", dead_letter_routing_key="dead")
    await node.logs.journal.drain()
    node.turns.run()
    assert drained(dead) == ["m1"]


async def test_keys_of_waiting_messages_count_when_deduplication_begins(node: Node) -> None:
    queue = await declared(node)
    queue.publish(keyed("a"), waited=False)
    await change(node, message_deduplication=True)
    queue.publish(keyed("a", "b"), waited=False)
    assert queue.ready == 2
    await change(node, message_deduplication=None)
    queue.publish(keyed("a"), waited=False)
    assert queue.ready == 3


async def test_a_log_is_kept_from_the_change_on_and_as_long_as_groups_read_it(node: Node) -> None:
    queue = await declared(node)
    fill(queue, 3)
    drained(queue)
    await change(node, retention="1h")
    fill(queue, 3)
    drained(queue)
    log = queue.partitions[0].log
    assert (log.first_offset, log.next_offset) == (3, 6)
    group, created = node.vhost.hosted.groups.join(queue, GroupOptions("g", 1, None), "first", 0)
    if created is not None:
        await created
    with pytest.raises(InvalidQueueArgument, match="consumer groups or stream readers"):
        await change(node, retention=None)
    deleted = node.vhost.hosted.groups.delete(group)
    if deleted is not None:
        await deleted
    await change(node, retention=None, compression="lz4")
    assert (log.first_offset, log.retention, log.compression) == (6, None, "lz4")


async def test_a_policy_still_limits_what_a_change_allows(node: Node) -> None:
    queue = await declared(node, {"x-queue-type": "stream"})
    await node.vhost.policies.put(Policy("p", ".*", {"max-age": "1h"}))
    await change(node, max_age="2h", max_length_bytes=77)
    retention = queue.partitions[0].log.retention
    assert retention is not None
    assert (retention.age_max, retention.bytes_max) == (3_600_000_000, 77)


async def test_a_stream_is_compacted_from_a_change_or_a_policy_on(node: Node) -> None:
    queue = await declared(node, {"x-queue-type": "stream"})
    log = queue.partitions[0].log
    assert log.compaction is None
    await change(node, cleanup_policy="compact", delete_retention="1h")
    assert log.compaction == Compaction("", 3_600_000_000)
    await change(node, cleanup_policy=None, delete_retention=None)
    assert log.compaction is None
    definition = {"cleanup-policy": "compact", "min-compaction-lag": "1h"}
    await node.vhost.policies.put(Policy("p", ".*", definition))
    assert log.compaction == Compaction("", 86_400_000_000, 3_600_000_000)


async def test_changes_at_once_each_begin_with_what_the_other_made(node: Node) -> None:
    queue = await declared(node)
    await asyncio.gather(
        node.vhost.change_queue(queue, {"x-max-length": 5}),
        node.vhost.change_queue(queue, {"x-expires": 60_000}),
    )
    assert queue.properties.arguments == {"x-max-length": 5, "x-expires": 60_000}


async def test_what_the_definitions_take_is_counted_anew(node: Node) -> None:
    before = node.vhosts.budget.bytes
    queue = await declared(node)
    await change(node, max_length=5)
    await pending(node.vhost.delete_queue(queue))  # type: ignore[misc]
    assert node.vhosts.budget.bytes == before


async def test_a_follower_goes_by_the_changed_record_and_leads_with_it(tmp_path: Path) -> None:
    async with replicated_node(tmp_path / "a") as leader:
        await leader.lead(1)
        queue = await declared(leader)
        fill(queue, 2)
        await leader.drained()
        copied, count = await leader.killed("b"), len(leader.made)
        await change(leader, retention="1h", max_priority=2)
        await leader.drained()
        made = leader.made[count:]
    async with replicated_node(copied) as follower:
        (log,) = follower.logs.partitions.values()
        assert log.retention is None
        await follower.follow(made)
        assert log.retention is not None
        assert log.retention.settled_age == 3_600_000_000
        await follower.lead(2)
        queue = follower.vhost.queues["q"]
        assert queue.properties.arguments == {"x-retention": "1h", "x-max-priority": 2}
        assert drained(queue) == ["m0", "m1"]
