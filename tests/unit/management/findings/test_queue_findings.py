"""Queues and groups: what grows, hangs, is old, or is left, by a clock of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support.queue_samples import Taker, records
from unit.management.managed_node import ManagedNode, managed_node

from routelog.exchanges import Binding
from routelog.management.findings.findings import list_findings
from routelog.management.sampling.sampler import SAMPLE_SECONDS
from routelog.vhosts import Queue, wanted_group


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ManagedNode]:
    async with managed_node(tmp_path, clocked=True) as clocked:
        clocked.vhost.counters.node.changed.is_watched = True  # as a sampler that runs does
        yield clocked


async def rows(node: ManagedNode) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.ask(list_findings))["findings"]
    return found


async def kinds(node: ManagedNode) -> list[tuple[str, str]]:
    return [(row["kind"], row["text"]) for row in await rows(node)]


def publish(node: ManagedNode, queue: Queue, count: int) -> None:
    now = node.broker.clock.now()
    queue.publish(records(*["m"] * count, time=now), waited=False)


async def minutes(
    node: ManagedNode, count: float, each: Callable[[int], object] = lambda at: None
) -> None:
    """Let time pass, with a sample every five seconds; something is done before each."""
    for at in range(int(count * 60 / SAMPLE_SECONDS)):
        node.node.turns.clock.microseconds += int(SAMPLE_SECONDS * 1_000_000)
        each(at)
        await node.sampler.sample()


async def test_a_queue_that_grew_for_fifteen_minutes_to_55_000_messages(
    node: ManagedNode,
) -> None:
    queue = await node.queue("shop.orders")
    taker = Taker()
    queue.add_consumer(taker)
    node.node.turns.run()
    taker.prefetch = 0
    await minutes(node, 2)

    def step(at: int) -> None:
        publish(node, queue, 306 if at else 307)

    await minutes(node, 15, step)
    (row,) = await rows(node)
    assert (row["kind"], row["count"], row["messages"]) == ("backlog", 1, 55_081)
    assert row["text"].startswith("shop.orders takes in 61.2/s")
    assert "55,081 ready, the oldest 14 min old" in row["text"]
    now = node.broker.clock.now() / 1e6
    assert now - row["since"] == pytest.approx(15 * 60, abs=65)
    assert row["named"][0]["trend"][-1] == 55_081
    assert (await node.ask(list_findings))["verdict"] == "One queue falls behind"


async def test_a_group_that_is_62_000_behind(node: ManagedNode) -> None:
    stream = await node.queue("clickstream", x_queue_type="stream", x_durability="memory")
    options = wanted_group({"x-group": "billing"})
    assert options is not None
    group, durable = node.vhost.hosted.groups.join(stream, options, "first", 0)
    if durable is not None:
        await durable
    await minutes(node, 22, lambda at: publish(node, stream, 238))
    (row,) = await rows(node)
    assert (row["kind"], row["messages"], group.ready) == ("group", 62_832, 62_832)
    assert row["text"] == (
        "billing on clickstream is 62,832 messages and 21 min behind, and falls further"
    )
    named = row["named"][0]
    assert (named["type"], named["name"], named["queue"]) == ("group", "billing", "clickstream")
    await minutes(node, 6)  # nothing comes any more, and it is as far behind as it was
    (row,) = await rows(node)
    assert row["text"] == "billing on clickstream is 62,832 messages and 27 min behind"


async def test_single_messages_in_many_queues_push_nothing_away(node: ManagedNode) -> None:
    for at in range(200):
        publish(node, await node.queue(f"tenant-{at}"), 1)
    orders = await node.queue("orders")
    await minutes(node, 6, lambda at: publish(node, orders, 5))
    assert [row["kind"] for row in await rows(node)] == ["backlog"]


async def test_two_hundred_of_a_kind_are_one_row_with_the_largest_named(node: ManagedNode) -> None:
    for at in range(200):
        publish(node, await node.queue(f"q{at:03}"), 3 + at)
    (row,) = await rows(node)
    assert (row["kind"], row["count"], row["messages"]) == ("no consumer", 200, 20_500)
    first = (
        "200 queues hold 20,500 messages that nobody takes, first of all q199 holds 202 messages"
    )
    assert row["text"].startswith(first)
    assert [each["name"] for each in row["named"]] == [f"q{199 - at}" for at in range(20)]
    answer = await node.ask(list_findings)
    assert answer["verdict"] == "200 queues have no consumer"


async def test_a_burst_or_a_queue_that_is_emptied_now_and_then_does_not_grow(
    node: ManagedNode,
) -> None:
    burst, sawtooth = await node.queue("burst"), await node.queue("sawtooth")
    for queue in (burst, sawtooth):
        queue.add_consumer(Taker(0))
    await minutes(node, 10)

    def step(at: int) -> None:
        publish(node, sawtooth, 4)
        if at % 24 == 23:
            sawtooth.purge()

    await minutes(node, 10, step)
    publish(node, burst, 5_000)
    await minutes(node, 0.5)
    assert [row["kind"] for row in await rows(node)] in ([], ["capacity"])


async def test_consumers_that_take_nothing_hang(node: ManagedNode) -> None:
    queue, taker = await node.queue("mail"), Taker(2)
    queue.add_consumer(taker)
    publish(node, queue, 5)
    node.node.turns.run()
    queue.counters.note()
    await minutes(node, 4)
    assert await rows(node) == []
    await minutes(node, 3)
    text = "mail has consumers that take nothing: 3 ready, 2 unacknowledged"
    assert await kinds(node) == [("capacity", text)]
    taker.prefetch = 100
    assert await rows(node) == []


async def test_an_old_message_of_a_queue_with_a_consumer_is_told_of(node: ManagedNode) -> None:
    queue, taker = await node.queue("q"), Taker(1)
    publish(node, queue, 4)
    queue.add_consumer(taker)
    node.node.turns.run()

    def settle(at: int) -> None:
        if at % 24 == 0:  # slow, but at work
            queue.counters.acked(node.vhost.counters.channel(), 1)

    await minutes(node, 9, settle)
    assert await rows(node) == []
    await minutes(node, 2, settle)
    (row,) = await rows(node)
    assert row["kind"] == "age"
    assert "its oldest ready message waits for 11 min: 3 ready" in row["text"]


async def test_dead_letters_are_told_from_other_messages(node: ManagedNode) -> None:
    await node.queue("a", x_dead_letter_exchange="", x_dead_letter_routing_key="by-key")
    await node.queue("b", x_dead_letter_exchange="amq.fanout")
    await node.queue("c", x_dead_letter_exchange="")  # back to where they died
    await node.queue("d", x_dead_letter_exchange="none")
    for name in ("by-key", "by-binding", "other"):
        await node.queue(name)
    for name in ("by-key", "by-binding", "other", "c"):
        publish(node, node.vhost.queues[name], 3)
    publish(node, await node.queue("few"), 2)
    done = node.vhost.restore_binding(Binding("amq.fanout", "by-binding", "queue", "", {}))
    assert done is not None
    await done
    letters, left = await rows(node)
    assert (letters["kind"], letters["count"], letters["messages"]) == ("dead letters", 2, 6)
    assert {each["name"] for each in letters["named"]} == {"by-key", "by-binding"}
    assert (left["kind"], {each["name"] for each in left["named"]}) == (
        "no consumer",
        {"other", "c"},
    )
    answer = await node.ask(list_findings)
    assert answer["verdict"] == "Six dead letters wait"
    assert answer["more"].startswith("and two queues have no consumer. ")


async def test_a_stream_whose_compaction_fails_is_told_of(node: ManagedNode) -> None:
    stream = await node.queue("s", x_queue_type="stream", x_cleanup_policy="compact")
    assert await rows(node) == []
    stream.partitions[0].log.compaction_failure = "no room"
    assert await kinds(node) == [("compaction", "s is not compacted: no room")]
    assert (await node.ask(list_findings))["verdict"] == "One stream is not compacted"


async def test_a_queue_with_all_its_messages_in_one_partition(node: ManagedNode) -> None:
    one_key = await node.queue("orders", x_partitions=8)
    publish(node, one_key, 2)
    one_key.purge()
    assert await rows(node) == []
    publish(node, one_key, 1)
    one_key.purge()  # what was consumed counts, too
    stream = await node.queue("s", x_partitions=4, x_queue_type="stream")
    publish(node, stream, 200)
    assert await kinds(node) == [
        (
            "partitions",
            "2 queues use one of their partitions only, first of all "
            "s has all 200 messages that came in one of its 4 partitions",
        )
    ]
    assert (await node.ask(list_findings))["verdict"] == "Two queues use one partition each"
    next(each for each in stream.partitions if not each.log.next_offset).log.append(records("m"))
    assert [text for _, text in await kinds(node)] == [
        "orders has all 3 messages that came in one of its 8 partitions"
    ]


async def test_a_long_run_by_round_robin_is_no_finding(node: ManagedNode) -> None:
    even = await node.queue("even", x_partitions=8, x_partition_strategy="round-robin")
    publish(node, even, 500)
    even.purge()
    assert await rows(node) == []
