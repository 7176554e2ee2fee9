"""Keys that are in a queue once: against a set of what is in it, over restarts."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pamqp import commands
from support.queue_samples import Node, declare_queue, got, running_node
from unit.log_backend.open_store import crash, durable, flushed

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import PERSISTENT, LogOptions, Reason, Records, encode_records
from routelog.vhosts import Queue, QueueProperties, value_of
from routelog.vhosts.publishing.internal_publish import OutgoingMessage

SMALL = LogOptions(journal_file_bytes=1024 * 1024, segment_bytes=65_536, memory_tail_bytes=32_768)
BEGIN = 1_000_000_000_000  # us since 1970, when clocks of tests begin
UNIQUE = {"x-message-deduplication": True}


def keyed(*keys: str | None, padding: int = 0, time: int = 0) -> Records:
    """A batch of persistent messages with these keys, whose bodies are the keys."""
    rows, source = array("i"), bytearray()
    for key in keys:
        headers = {} if key is None else {"x-deduplication-header": key}
        properties = commands.Basic.Properties(headers=headers or None).marshal()
        body = str(key).encode().ljust(padding)
        at = len(source)
        rows.extend((0, 0, at, len(properties), at + len(properties), len(body)))
        source += properties + body
    view, table = memoryview(source), memoryview(rows)
    batch: Records = encode_records(view, table, None, len(keys), b"", b"k", PERSISTENT, time)
    return batch


async def declared(node: Node, **arguments: object) -> Queue:
    properties = QueueProperties("q", durable=True, arguments=UNIQUE | arguments)
    queue, done = declare_queue(node.vhost, properties, object())
    if done is not None:
        await done
    return queue


def known(queue: Queue) -> int:
    assert queue.rules is not None
    assert queue.rules.unique_keys is not None
    return len(queue.rules.unique_keys)


def settled_some(queue: Queue, choice: random.Random) -> list[str]:
    """Take some messages and settle or return each; the keys of those that are settled."""
    gone: list[str] = []
    for _ in range(choice.randrange(4)):
        delivery = got(queue)
        if delivery is None:
            return gone
        body = bytes(delivery.records.body(delivery.index)).decode().strip()
        end = delivery.offset + 1
        if choice.random() < 0.7:
            delivery.partition.settle(delivery.offset, end)
            gone.append(body)
        else:
            delivery.partition.give_back(delivery.offset, end)
    return gone


@pytest.mark.parametrize("partitions", [1, 3])
async def test_no_key_is_in_the_queue_twice(tmp_path: Path, partitions: int) -> None:
    choice = random.Random(partitions)
    there: set[str] = set()
    unkeyed = 0
    for _ in range(3):
        async with running_node(tmp_path, SMALL) as node:
            arguments = {"x-partitions": partitions} if partitions > 1 else {}
            queue = await declared(node, **arguments)
            assert queue.ready == len(there) + unkeyed
            for _ in range(150):
                keys = [f"k{choice.randrange(40)}" for _ in range(choice.randint(1, 6))]
                unkeyed += 1
                queue.publish(keyed(*keys, None), waited=True)
                there.update(keys)
                counts = Counter(settled_some(queue, choice))
                unkeyed -= counts.pop("None", 0)
                assert set(counts) <= there
                there -= set(counts)
                assert queue.ready == len(there) + unkeyed
                assert max(counts.values(), default=0) <= 1


async def test_keys_are_read_from_segments_after_a_restart(tmp_path: Path) -> None:
    names = [f"k{number}" for number in range(200)]
    async with running_node(tmp_path, SMALL) as node:
        queue = await declared(node)
        for name in names:
            queue.publish(keyed(name, padding=1_000), waited=True)
        await flushed(node.logs)
    async with running_node(tmp_path, SMALL) as node:
        queue = node.vhost.queues["q"]
        assert queue.partitions[0].log.needs_load(0)
        assert known(queue) == 200
        queue.publish(keyed(*names), waited=True)
        assert queue.ready == 200


async def test_keys_of_messages_that_have_gone_are_forgotten(tmp_path: Path) -> None:
    async with running_node(tmp_path, SMALL) as node:
        queue = await declared(node)
        for number in range(3_000):
            queue.publish(keyed(f"k{number}"), waited=False)
            delivery = got(queue)
            if delivery is not None and number % 100:
                delivery.partition.settle(delivery.offset, delivery.offset + 1)
        assert queue.partitions[0].in_flight == 30
        assert 30 <= known(queue) <= 2 * 30 + 2


async def test_a_dropped_message_waits_until_the_one_that_is_there_is_safe(tmp_path: Path) -> None:
    async with running_node(tmp_path, SMALL) as node:
        queue = await declared(node)
        first = queue.publish(keyed("a"), waited=True)
        assert first > 0
        assert queue.publish(keyed("a"), waited=True) == first
        assert queue.publish(keyed(None), waited=True) > 0


def bodies_of(queue: Queue) -> Sequence[str]:
    found = []
    while (delivery := got(queue)) is not None:
        found.append(bytes(delivery.records.body(delivery.index)).decode())
    return found


async def test_the_first_of_a_batch_stays(tmp_path: Path) -> None:
    async with running_node(tmp_path, SMALL) as node:
        queue = await declared(node)
        queue.publish(keyed("a", "b", "a", None, "b", None), waited=True)
        assert bodies_of(queue) == ["a", "b", "None", "None"]


async def test_a_queue_that_does_not_ask_for_it_has_no_keys(tmp_path: Path) -> None:
    async with running_node(tmp_path, SMALL) as node:
        properties = QueueProperties("plain", arguments={"x-message-deduplication": False})
        queue, _ = declare_queue(node.vhost, properties, object())
        assert queue.rules is None
        queue.publish(keyed("a", "a"), waited=True)
        assert queue.ready == 2


async def test_a_dead_letter_that_is_a_duplicate_settles_its_original_at_once(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:
        queue = await declared(node)
        address = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
        source, done = declare_queue(
            node.vhost, QueueProperties("source", durable=True, arguments=address), object()
        )
        assert done is not None
        await done
        position = queue.publish(keyed("a"), waited=True)
        source.publish(keyed("a"), waited=True)
        journal = node.logs.journal
        while journal.durable < position or journal.groups.first.count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        delivery = source.get()
        assert delivery is not None
        delivery.partition.settle(delivery.offset, delivery.offset + 1, Reason.REJECTED)
        node.turns.run()
        assert queue.ready == 1
        assert source.partitions[0].cursor.low_water == 1


@pytest.mark.parametrize("exchange", ["", "once"])
async def test_a_letter_of_a_start_is_a_duplicate_of_what_earlier_runs_have_seen(
    tmp_path: Path, exchange: str
) -> None:
    def expires(node: Node) -> None:
        node.turns.pass_seconds(10)
        assert node.vhost.queues["source"].ready == 0

    async with running_node(tmp_path / "a", SMALL, clocked=True) as node:
        if exchange:
            asked = {"x-cache-size": 10, "x-cache-persistence": "disk"}
            kind = "x-message-deduplication"
            made = Exchange(exchange, kind, durable=True, arguments=asked)
            await value_of(node.vhost.declare_exchange(made))
        await declared(node, **{"x-message-deduplication": not exchange})
        if exchange:
            await value_of(node.vhost.bind(Binding(exchange, "q", "queue", "")))
        address = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "q"}
        arguments = address | {"x-message-ttl": 5_000}
        properties = QueueProperties("source", durable=True, arguments=arguments)
        source, done = declare_queue(node.vhost, properties, object())
        assert done is not None
        await done
        message = OutgoingMessage(keyed("a").properties(0), (b"q",), b"a")
        node.vhost.post.publish(exchange, [message], PERSISTENT)
        await durable(node.logs, source.publish(keyed("a", time=BEGIN), waited=True))
        killed = await crash(node.logs, tmp_path / "a")
    async with running_node(killed, SMALL, clocked=True, before_loading=expires) as node:
        node.turns.pass_seconds(1)
        target, source = node.vhost.queues["q"], node.vhost.queues["source"]
        assert target.partitions[0].log.next_offset == 1
        await durable(node.logs, target.publish(keyed("b"), waited=True))
        assert source.partitions[0].cursor.low_water == 1
