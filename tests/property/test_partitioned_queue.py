"""Random work on a queue of several partitions, restarts included, against lists of messages."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, bodies, declare_queue, give_back, running_node, settle
from unit.log_backend.log_records import records
from unit.log_backend.open_store import flushed

from routelog.log_backend import LogOptions, key_partition
from routelog.vhosts import Delivery, Queue, QueueProperties, value_of

PARTITIONS = 3
SMALL = LogOptions(
    journal_file_bytes=1024 * 1024,
    segment_bytes=2_000,
    memory_tail_bytes=2_000,
    flush_seconds=3600,
)
KEYS = [
    next(key for key in (b"k%d" % at for at in range(99)) if key_partition(key, PARTITIONS) == p)
    for p in range(PARTITIONS)
]

RUNS = st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=12)
WORK = st.one_of(
    st.tuples(st.just("publish"), RUNS),
    st.tuples(st.just("get"), st.integers(1, 9)),
    st.tuples(st.just("settle"), st.integers(0, 99)),
    st.tuples(st.just("give back"), st.integers(0, 99)),
    st.tuples(st.sampled_from(["purge", "flush", "restart"]), st.none()),
)


class QueueModel:
    """The messages of each partition that are not settled, oldest first, and those handed out."""

    def __init__(self) -> None:
        self.serial = 0
        self.ready: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.held: list[tuple[Delivery, int, int]] = []  # with its partition and number

    def publish(self, queue: Queue, run: Sequence[int]) -> None:
        """Publish numbered messages, one of each partition named."""
        numbers = range(self.serial, self.serial + len(run))
        self.serial += len(run)
        contents = [b"%d" % number + b" " * 50 for number in numbers]
        keys = [KEYS[partition] for partition in run]
        queue.publish(records(contents, routing_keys=keys), waited=False)
        for partition, number in zip(run, numbers, strict=True):
            self.ready[partition].append(number)

    async def get(self, queue: Queue) -> None:
        """Get one message: the oldest of some partition, if there is any."""
        delivery = await loaded_get(queue)
        if delivery is None:
            assert not any(self.ready)
            return
        number = int(bodies(delivery)[0])
        partition = next(p for p in range(PARTITIONS) if number in self.ready[p])
        assert self.ready[partition].pop(0) == number
        self.held.append((delivery, partition, number))

    def settle(self, choice: int) -> None:
        """Ack one of the messages held."""
        if self.held:
            settle(self.held.pop(choice % len(self.held))[0])

    def give_back(self, choice: int) -> None:
        """Requeue one of the messages held."""
        if self.held:
            delivery, partition, number = self.held.pop(choice % len(self.held))
            give_back(delivery)
            self.ready[partition] = sorted([*self.ready[partition], number])

    def purge(self, queue: Queue) -> None:
        """Purge."""
        assert queue.purge() == sum(map(len, self.ready))
        self.ready = [[] for _ in range(PARTITIONS)]

    def restarted(self) -> None:
        """What was held is ready again."""
        for _, partition, number in self.held:
            self.ready[partition] = sorted([*self.ready[partition], number])
        self.held.clear()

    def check(self, queue: Queue) -> None:
        """The queue counts as we do."""
        assert queue.ready == sum(map(len, self.ready))
        assert queue.unacked == len(self.held)


async def loaded_get(queue: Queue) -> Delivery | None:
    async with asyncio.timeout(60):
        return await value_of(queue.get())


async def declared(node: Node) -> Queue:
    properties = QueueProperties("q", durable=True, arguments={"x-partitions": PARTITIONS})
    queue, durable = declare_queue(node.vhost, properties, object())
    if durable is not None:
        await durable
    return queue


async def carry_out(node: Node, model: QueueModel, work: list[tuple[str, object]]) -> bool:
    """Do the work up to a restart; returns whether there was one."""
    queue = await declared(node)
    model.check(queue)
    while work:
        match work.pop(0):
            case "publish", list() as run:
                model.publish(queue, run)
            case "get", int() as count:
                for _ in range(count):
                    await model.get(queue)
            case "settle", int() as choice:
                model.settle(choice)
            case "give back", int() as choice:
                model.give_back(choice)
            case "purge", _:
                model.purge(queue)
            case "flush", _:
                await flushed(node.logs)
            case _:
                return True
        model.check(queue)
    for _ in range(sum(map(len, model.ready)) + 1):
        await model.get(queue)
    return False


@settings(max_examples=60, deadline=None)
@given(work=st.lists(WORK, max_size=25))
def test_any_work_keeps_each_partition_in_order_and_loses_nothing(
    work: list[tuple[str, object]],
) -> None:
    async def run() -> None:
        model, left = QueueModel(), list(work)
        again = True
        while again:
            async with running_node(Path(data), SMALL) as node:
                again = await carry_out(node, model, left)
            model.restarted()

    with tempfile.TemporaryDirectory(prefix="partitioned-") as data:
        asyncio.run(run())
