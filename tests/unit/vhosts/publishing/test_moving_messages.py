"""Messages that move to many queues, on a real log store: one block of the journal has all of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.queue_samples import Node, Taker, declare_queue, records, running_node
from unit.vhosts.publishing.test_internal_publisher import HastyClock, reject, with_a_fault

from routelog.exchanges import Binding
from routelog.log_backend import RecordBatch, Settlement
from routelog.log_backend.journal.journal_block import decode_entries
from routelog.vhosts import Queue, QueueProperties
from routelog.vhosts.publishing import internal_publish
from routelog.vhosts.publishing.appending import QUEUES_BETWEEN_LOOKS

TARGETS = [f"q{number:03}" for number in range(3 * QUEUES_BETWEEN_LOOKS)]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Durable queues are bound to the fanout exchange, and there is never time for another look."""
    async with running_node(tmp_path) as node:
        for name in TARGETS:
            await declared(node, name)
            bound = node.vhost.bind(Binding("amq.fanout", name, "queue", ""))
            assert bound is not None
            await bound
        node.vhost.post._ways = replace(node.vhost.post._ways, clock=HastyClock())
        node.turns.hurry()
        yield node


async def declared(node: Node, name: str, **arguments: object) -> Queue:
    hyphened = {key.replace("_", "-"): value for key, value in arguments.items()}
    properties = QueueProperties(name, durable=True, arguments=hyphened)
    queue, done = declare_queue(node.vhost, properties, None)
    assert done is not None
    await done
    return queue


async def dying(node: Node, *bodies: str) -> Queue:
    """A queue whose messages have been rejected, and are stored."""
    queue = await declared(node, "source", x_dead_letter_exchange="amq.fanout")
    await stored(node, queue.publish(records(*bodies), waited=True))
    reject(queue)
    return queue


async def stored(node: Node, position: int) -> None:
    reached = asyncio.Event()
    node.logs.progress.receipt(0, position).when_covered(reached.set)
    async with asyncio.timeout(60):
        await reached.wait()


async def carried_out(node: Node, source: Queue) -> None:
    """Run turns, with time for the journal between them, until all messages are settled."""
    async with asyncio.timeout(60):
        while source.partitions[0].cursor.low_water < source.partitions[0].log.next_offset:
            node.turns.one()
            await asyncio.sleep(0.001)


async def blocks_of_letters(node: Node, source: Queue) -> list[tuple[set[int], int]]:
    """Of each block behind the messages: the queues that it has letters for, and settled messages."""
    found = []
    numbers = {node.vhost.queues[name].partitions[0].log.number for name in TARGETS}
    for block in await node.logs.journal.read(0, 1 << 30):
        entries = decode_entries(block.payload)
        changes = [(entry.partition, entry.change) for entry in entries]
        queues = {at for at, change in changes if isinstance(change, RecordBatch)} & numbers
        settled = sum(
            end - first
            for at, change in changes
            if isinstance(change, Settlement) and at == source.partitions[0].log.number
            for first, end in change.ranges
        )
        if queues or settled:
            found.append((queues, settled))
    return found


async def test_letters_to_many_queues_and_their_settlement_are_one_block(node: Node) -> None:
    source = await dying(node, "a", "b")
    steps = 0
    while not node.logs.journal.is_held:
        assert node.turns.one()
        await asyncio.sleep(0.001)  # the journal would write what is not held
    assert node.vhost.hosted.logs.is_committing
    while node.logs.journal.is_held:
        steps += node.turns.one()
        await asyncio.sleep(0.001)
    assert steps > 1
    await carried_out(node, source)
    first, *behind = await blocks_of_letters(node, source)
    assert first == ({node.vhost.queues[name].partitions[0].log.number for name in TARGETS}, 2)
    assert not any(queues for queues, _ in behind)


async def test_letters_wait_for_a_block_that_somebody_else_holds(node: Node) -> None:
    source = await dying(node, "a", "b")
    node.logs.journal.hold()
    for _ in range(20):
        node.turns.one()
    assert node.vhost.queues[TARGETS[0]].ready == 0
    node.logs.journal.let_go()
    await carried_out(node, source)
    assert all(node.vhost.queues[name].ready == 2 for name in TARGETS)


async def test_a_letter_too_large_for_a_block_is_settled_in_the_last_of_several(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_publish, "MOVED_BYTES_MAX", 1)
    source = await dying(node, "a", "b")
    await carried_out(node, source)
    blocks = await blocks_of_letters(node, source)
    assert len([queues for queues, _ in blocks if queues]) > 2
    assert next(at for at, (_, settled) in enumerate(blocks) if settled) > 0
    assert all(node.vhost.queues[name].ready == 2 for name in TARGETS)


async def test_an_error_of_ours_leaves_no_block_open(node: Node) -> None:
    source = await dying(node, "bad")
    taker = Taker()
    node.vhost.queues[TARGETS[0]].add_consumer(taker)
    with_a_fault(node, TARGETS[-1])
    held = False
    async with asyncio.timeout(60):
        while not held or node.vhost.post._under_way:
            node.turns.one()
            held = held or node.logs.journal.is_held
            await asyncio.sleep(0)
    assert not node.logs.journal.is_held
    await stored(node, node.vhost.queues[TARGETS[-1]].publish(records("behind"), waited=True))
    assert source.partitions[0].cursor.low_water == 0
    node.turns.run()
    assert set(taker.bodies()) == {"bad"}  # those that have it may hand it out nevertheless
