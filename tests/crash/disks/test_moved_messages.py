"""A power cut before any call of the disk while the broker moves messages: each is in one place afterwards.

A message is where it was confirmed, or in all the queues that it moves to: not in both, and not in neither. It
moves as a dead letter, or out of a delayed exchange when it is due.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from crash.disks.node import Node, NodeStill, whole_log
from crash.disks.powered_disk import PoweredDisk
from support.sampling import sampled
from support.waiting import WAIT_SECONDS
from unit.log_backend.log_records import records
from unit.log_backend.open_store import unsettled
from unit.vhosts.delays.test_held_messages import message

from routelog.exchanges import Binding, Exchange
from routelog.log_backend import PartitionLog, Reason, SystemClock
from routelog.vhosts.messages.delivery import ReturnReason
from routelog.vhosts.rules.rule_services import RuleServices

pytestmark = pytest.mark.crash

CUTS = os.environ.get("ROUTELOG_TEST_CUTS", "12")
SEED = int(os.environ.get("ROUTELOG_TEST_SEED", "1"))
ROUNDS = 16
BATCH = 6
TARGETS = ("morgue", "crypt")


class DeadLetters:
    """Messages die in the queue `source`, for nobody wants them."""

    def __init__(self, **arguments: object) -> None:
        self._arguments = arguments

    async def declare(self, node: Node) -> None:
        """Declare what the messages come from, as all others do."""
        for name in TARGETS:
            node.vhost.bind(Binding("amq.fanout", name, "queue", ""))
        await node.declare("source", x_dead_letter_exchange="amq.fanout", **self._arguments)

    def publish(self, node: Node, numbers: Sequence[int], size: int) -> int:
        """Publish messages; returns the journal position of their confirm."""
        bodies = [(b"%d " % each).ljust(size, b".") for each in numbers]
        return node.queue("source").publish(records(bodies), waited=True)

    def sources(self, node: Node) -> Sequence[PartitionLog]:
        """The logs that they leave."""
        return [node.log("source")]

    async def leave(self, node: Node) -> None:
        """Make messages leave, if that takes more than time."""


class Rejected(DeadLetters):
    """A consumer rejects all but the second of each delivery, which stays in hand."""

    async def leave(self, node: Node) -> None:
        """See `DeadLetters`."""
        partition = node.queue("source").partitions[0]
        async for first, end in deliveries(node):
            partition.settle(first, first + 1, Reason.REJECTED)
            if end > first + 2:
                partition.settle(first + 2, end, Reason.REJECTED)


class Returned(DeadLetters):
    """A consumer returns all."""

    async def leave(self, node: Node) -> None:
        """See `DeadLetters`."""
        async for first, end in deliveries(node):
            node.queue("source").partitions[0].give_back(first, end, ReturnReason.FAILED)


class Delayed(DeadLetters):
    """A delayed exchange holds messages for some milliseconds: more than one of its parts."""

    async def declare(self, node: Node) -> None:
        """See `DeadLetters`."""
        done = node.vhost.declare_exchange(
            Exchange(
                "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
            )
        )
        assert done is not None
        await done
        for name in TARGETS:
            node.vhost.bind(Binding("later", name, "queue", ""))

    def publish(self, node: Node, numbers: Sequence[int], size: int) -> int:
        """See `DeadLetters`; a delay is as long as the number of its message is high."""
        held = node.vhost.hosted.delays.held("later")
        assert held is not None
        return held.publish(message(*numbers, size=size, now=SystemClock().now()), waited=True)

    def sources(self, node: Node) -> Sequence[PartitionLog]:
        """See `DeadLetters`."""
        held = node.vhost.hosted.delays.held("later")
        return () if held is None else held.logs


async def deliveries(node: Node) -> AsyncIterator[tuple[int, int]]:
    """Take what is ready in the source: offsets from the first to before the last."""
    queue = node.queue("source")
    async with asyncio.timeout(WAIT_SECONDS):
        while queue.ready:
            delivery = queue.partitions[0].take(BATCH, 1 << 20)
            if delivery is None:
                await asyncio.sleep(0)  # it is being loaded
                continue
            yield delivery.offset, delivery.offset + delivery.count


WAYS = {
    "rejected": Rejected(),
    "at least once": Rejected(x_dead_letter_strategy="at-least-once", x_overflow="reject-publish"),
    "delivered too often": Returned(x_delivery_limit=0),
    "expired": DeadLetters(x_message_ttl=1),
    "too many": DeadLetters(x_max_length=4),
    "delayed": Delayed(),
}


class Undertaking:
    """Publishes numbered messages, lets them leave, and keeps at each call of the disk what was confirmed."""

    def __init__(self, way: DeadLetters) -> None:
        self._way = way
        self.confirmed: set[int] = set()
        self.stills: list[tuple[NodeStill, frozenset[int]]] = []

    def watch(self, node: Node) -> None:
        """See `Node`."""
        self.stills.append((node.still(), frozenset(self.confirmed)))

    async def run(self, node: Node, size: int) -> None:
        """Work until half of the messages have moved, at least."""
        await node.declare(*TARGETS)
        await self._way.declare(node)
        for number in range(ROUNDS):
            numbers = range(number * BATCH, (number + 1) * BATCH)
            await node.confirmed(self._way.publish(node, numbers, size))
            self.confirmed.update(numbers)
            if number % 5 == 4:
                await node.store.checkpoints.flush()
            await self._way.leave(node)
        async with asyncio.timeout(WAIT_SECONDS):
            while node.log(TARGETS[-1]).next_offset < ROUNDS * BATCH // 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await node.confirmed(node.queue(TARGETS[0]).publish(records([b"-1 "]), waited=True))


def _number(body: bytes) -> int:
    return int(body.split()[0])


async def check(node: Node, way: DeadLetters, confirmed: frozenset[int]) -> None:
    """Hold a node to it that each message is in one place."""
    source: set[int] = set()
    for log in way.sources(node):
        source |= {_number(body) for _, body in await unsettled(log)}
    for name in TARGETS:
        moved = [_number(body) for body in (await whole_log(node.log(name))).values()]
        assert len(set(moved)) == len(moved), f"twice in {name}"
        assert not source.intersection(moved), f"in both: {sorted(source.intersection(moved))}"
        lost = confirmed - source.union(moved)
        assert not lost, f"in neither: {sorted(lost)}"


@pytest.mark.parametrize(("way", "size"), sampled(product(WAYS, (100, 900)), 5))
async def test_a_power_cut_before_any_call_leaves_a_moved_message_in_one_place(
    way: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(f"{SEED} {size}")
    work = Undertaking(WAYS[way])
    node = Node(PoweredDisk(tmp_path / "0", choice), watch=work.watch)
    await node.start()
    await work.run(node, size)
    node.watch = lambda node: None
    await node.stop()
    monkeypatch.setattr(RuleServices, "is_pressed", lambda services: True)  # nothing moves any more
    stills = [each for each in work.stills if each[1]]  # from the first confirm on
    if CUTS != "all":
        stills = choice.sample(stills, min(int(CUTS), len(stills)))
    for number, (still, confirmed) in enumerate(stills):
        root = tmp_path / f"cut-{number}"
        node = Node(still.disk.place(root, choice))
        await node.start(still.metadata)
        try:
            await check(node, WAYS[way], confirmed)
        except AssertionError as error:
            pytest.fail(f"cut before call {still.operation}: {error}")
        finally:
            await node.stop()
        shutil.rmtree(root)
