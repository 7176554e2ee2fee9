"""A partition as its queue sees it, against a plain list of what became of each message."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.queue_samples import (
    Taker,
    bodies,
    declare_queue,
    fill,
    numbered,
    records,
    running_node,
)
from support.sampling import examples
from unit.log_backend.open_store import flushed

from routelog.exchanges import QueueNotFound
from routelog.log_backend import LogOptions, PartitionLog, Reason
from routelog.log_backend.journal.journal_groups import JournalGroups
from routelog.log_backend.partitions.loaded_pieces import PieceBudget
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.upkeep.partition_snapshot import snapshot
from routelog.vhosts import (
    Delivery,
    Queue,
    QueuePartition,
    QueueProperties,
    ReturnReason,
    value_of,
)

READY, HELD, RETURNED, SETTLED = "ready", "held", "returned", "settled"


class Owner:
    """A store that keeps everything in memory."""

    segment_bytes = 1 << 20
    loaded_pieces = PieceBudget(1 << 20)

    def __init__(self) -> None:
        self.intake = LogIntake(JournalGroups(never, never), 1 << 40, never, never)

    def has_unflushed(self, partition: PartitionLog) -> None: ...


def never(*arguments: object) -> None:
    raise AssertionError


def memory_partition() -> QueuePartition:
    log = PartitionLog(cast(Any, Owner()), 1, Path("nowhere"), durable=False)
    return QueuePartition(log, never)


class PartitionAgainstList(RuleBasedStateMachine):
    """Random publishes, deliveries, settlements and returns, told to both."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = memory_partition()
        self.fates: list[str] = []
        self.deliveries: list[int] = []  # of each message
        self.unused: set[int] = set()  # the last of them was none

    def places(self, fate: str) -> list[int]:
        return [offset for offset, each in enumerate(self.fates) if each == fate]

    def held_run(self, data: st.DataObject) -> tuple[int, int]:
        """Some held messages in a row."""
        first = data.draw(st.sampled_from(self.places(HELD)))
        end = first + 1
        while end < len(self.fates) and self.fates[end] == HELD and data.draw(st.booleans()):
            end += 1
        return first, end

    @rule(count=st.integers(1, 6))
    def publish(self, count: int) -> None:
        first = len(self.fates)
        self.partition.log.append(records(*numbered(first, first + count)))
        self.fates += [READY] * count
        self.deliveries += [0] * count

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        delivery = self.partition.take(count, 1 << 20)
        expected = [*self.places(RETURNED), *self.places(READY)]
        if not expected:
            assert delivery is None
            return
        assert delivery is not None
        taken = range(delivery.offset, delivery.offset + delivery.count)
        assert 1 <= delivery.count <= count
        assert list(taken) == expected[: delivery.count]
        assert bodies(delivery) == [f"m{offset}" for offset in taken]
        for offset in taken:
            self.deliveries[offset] -= offset in self.unused
            assert delivery.redelivered == (self.deliveries[offset] > 0)
            self.deliveries[offset] += 1
        self.unused.difference_update(taken)
        self.fates[taken.start : taken.stop] = [HELD] * delivery.count

    @precondition(lambda self: HELD in self.fates)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        first, end = self.held_run(data)
        self.partition.settle(first, end)
        self.fates[first:end] = [SETTLED] * (end - first)

    @precondition(lambda self: HELD in self.fates)
    @rule(data=st.data(), reason=st.sampled_from(ReturnReason))
    def give_back(self, data: st.DataObject, reason: ReturnReason) -> None:
        first, end = self.held_run(data)
        self.partition.give_back(first, end, reason)
        self.fates[first:end] = [RETURNED] * (end - first)
        if reason is ReturnReason.UNUSED:
            self.unused.update(range(first, end))

    @precondition(lambda self: RETURNED in self.fates or READY in self.fates)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        gone = self.partition.withdraw(data.draw(st.integers(1, 4)), len(self.fates))
        assert gone is not None
        self.partition.finish(*gone, Reason.EXPIRED)
        self.fates[slice(*gone)] = [SETTLED] * (gone[1] - gone[0])

    @precondition(lambda self: HELD in self.fates)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        first, end = self.held_run(data)
        again = self.partition.redeliver(first, end, 1 << 20, never)
        assert again is not None
        count, deliveries = again
        assert 1 <= count <= end - first
        assert all(each.redelivered for each in deliveries)
        held = [body for each in deliveries for body in bodies(each)]
        assert held == [f"m{offset}" for offset in range(first, first + count)]
        for offset in range(first, first + count):
            self.deliveries[offset] += 1

    @rule()
    def purge(self) -> None:
        expected = len(self.places(READY)) + len(self.places(RETURNED))
        assert self.partition.purge() == expected
        self.fates = [SETTLED if fate in (READY, RETURNED) else fate for fate in self.fates]

    @rule()
    def look_again(self) -> None:
        """As after a restart: what is not settled is ready, and nothing is held."""
        self.partition = QueuePartition(self.partition.log, never)
        self.fates = [fate if fate == SETTLED else READY for fate in self.fates]
        self.unused.clear()  # nobody knows

    @invariant()
    def both_say_the_same(self) -> None:
        waiting = len(self.places(READY)) + len(self.places(RETURNED))
        assert self.partition.ready == waiting
        assert self.partition.in_flight == len(self.places(HELD))
        settled = self.partition.cursor.settled
        assert [offset in settled for offset in range(len(self.fates))] == [
            fate == SETTLED for fate in self.fates
        ]

    @invariant()
    def the_counts_are_right(self) -> None:
        for offset, deliveries in enumerate(self.deliveries):
            if self.fates[offset] != SETTLED:
                assert self.partition.delivery_count(offset) == max(0, deliveries - 1)

    @invariant()
    def what_was_unused_is_known_as_long_as_it_is_ready(self) -> None:
        unused = {o for first, end in self.partition._unused or () for o in range(first, end)}
        assert unused == {offset for offset in self.unused if self.fates[offset] == RETURNED}

    @invariant()
    def returned_ranges_are_disjoint_and_ascending(self) -> None:
        edges = [edge for span in self.partition.returned for edge in span]
        assert edges == sorted(set(edges))
        assert not edges or edges[-1] <= self.partition.next_offset


TestPartitionAgainstList = PartitionAgainstList.TestCase
TestPartitionAgainstList.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, derandomize=True
)


# -- messages that are on disk only

TIGHT = LogOptions(journal_file_bytes=1024 * 1024, memory_tail_bytes=32 * 1024, flush_seconds=3600)


async def taken(queue: Queue, count: int = 3) -> Delivery:
    """The next delivery, loaded if it must be."""
    (partition,) = queue.partitions
    async with asyncio.timeout(60):
        while (delivery := partition.take(count, 1 << 20)) is None:
            loaded = asyncio.Event()
            assert partition.prepare(loaded.set)
            await loaded.wait()
    return delivery


async def test_messages_on_disk_are_loaded(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        assert done is not None
        await done
        bulk = "x" * 4000
        for number in range(40):
            queue.publish(records(f"m{number}", bulk), waited=False)
        await flushed(node.logs)
        assert queue.partitions[0].log.tail_bytes() < 40 * 4000
        assert queue.partitions[0].take(1, 1 << 20) is None
        assert queue.ready == 80
        seen = []
        while queue.ready:
            seen += bodies(await taken(queue))
        assert seen[::2] == numbered(0, 40)
        assert queue.unacked == 80


async def test_what_is_handed_out_again_is_loaded_first(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        for letter in "xyz":
            queue.publish(records(letter * 60_000), waited=False)
        (partition,) = queue.partitions
        while partition.take(1, 1 << 20):
            pass
        await flushed(node.logs)
        assert partition.log.needs_load(0)
        loaded = asyncio.Event()
        assert partition.redeliver(0, 3, 1 << 20, loaded.set) is None
        async with asyncio.timeout(60):
            await loaded.wait()
        again = partition.redeliver(0, 3, 1 << 20, never)
        assert again is not None
        assert [body[0] for body in bodies(again[1][0])] == list("xyz")[: again[0]]


async def test_the_queue_is_woken_when_its_messages_are_loaded(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        queue.publish(records("x" * 60_000), waited=False)
        queue.publish(records("y" * 60_000), waited=False)
        await flushed(node.logs)
        taker = Taker()
        queue.add_consumer(taker)
        async with asyncio.timeout(60):
            while len(taker.deliveries) < 2:
                node.turns.run()
                await asyncio.sleep(0)
        assert [body[0] for body in taker.bodies()] == ["x", "y"]


async def test_who_waits_for_a_load_hears_of_the_end_of_the_queue(tmp_path: Path) -> None:
    async with running_node(tmp_path, TIGHT) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        for letter in "xyz":
            queue.publish(records(letter * 60_000), waited=False)
        await flushed(node.logs)
        waiting = queue.get()
        node.vhost.delete_queue(queue)
        async with asyncio.timeout(60):
            with pytest.raises(QueueNotFound):
                await value_of(waiting)


async def test_what_was_settled_out_of_order_is_skipped_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        assert done is not None
        await done
        fill(queue, 20, 4)
        (partition,) = queue.partitions
        while partition.take(9, 1 << 20):
            pass
        for first, end in ((2, 5), (7, 8), (9, 15)):
            partition.settle(first, end)
        partition.give_back(5, 6, ReturnReason.RETURNED)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        assert (queue.ready, queue.unacked) == (10, 0)
        seen = []
        while queue.ready:
            seen += bodies(await taken(queue))
        assert seen == [f"m{n}" for n in (0, 1, 5, 6, 8, 15, 16, 17, 18, 19)]
        assert queue.unacked == 10


async def test_what_was_handed_out_comes_as_redelivered_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        assert done is not None
        await done
        fill(queue, 20, 10)
        (partition,) = queue.partitions
        before = [partition.take(4, 1 << 20) for _ in range(3)]  # 0 to 3, 4 to 7, 8 and 9
        assert [each.redelivered for each in before if each] == [False] * 3
        assert partition.take(1, 1 << 20)
        partition.settle(2, 6)
        partition.give_back(7, 9, ReturnReason.RETURNED)
        again = partition.take(9, 1 << 20)
        assert again is not None
        assert (again.offset, again.count, again.redelivered) == (7, 2, True)
    async with running_node(tmp_path) as node:
        queue = node.vhost.queues["q"]
        (partition,) = queue.partitions
        seen = []
        while queue.ready:
            delivery = await taken(queue, 9)
            places = range(delivery.offset, delivery.offset + delivery.count)
            counts = [partition.delivery_count(offset) for offset in places]
            seen.append((bodies(delivery), delivery.redelivered, counts))
        assert seen == [
            (numbered(0, 2), True, [1, 1]),
            (numbered(6, 11), True, [1, 2, 2, 1, 1]),
            (numbered(11, 20), False, [0] * 9),
        ]


async def test_a_delivery_ends_where_the_messages_of_an_earlier_run_do(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        assert done is not None
        await done
        fill(queue, 10, 10)
        assert queue.partitions[0].take(3, 1 << 20)
    async with running_node(tmp_path) as node:
        for count, redelivered in ((3, True), (7, False)):
            delivery = await taken(node.vhost.queues["q"], 100)
            assert (delivery.count, delivery.redelivered) == (count, redelivered)


async def test_a_purge_takes_the_counts_of_what_it_takes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q"), object())
        fill(queue, 10, 10)
        (partition,) = queue.partitions
        for _ in range(2):
            delivery = partition.take(4, 1 << 20)
            assert delivery is not None
            partition.give_back(1, 4, ReturnReason.RETURNED)
        assert [partition.delivery_count(offset) for offset in range(4)] == [0, 1, 1, 1]
        partition.purge()
        assert partition.cursor.delivery_counts.chunks == {}


@pytest.mark.parametrize("priorities", [None, 3])
async def test_while_some_come_back_nothing_is_handed_out(
    tmp_path: Path, priorities: int | None
) -> None:
    arguments = {} if priorities is None else {"x-max-priority": priorities}
    async with running_node(tmp_path) as node:
        queue, _ = declare_queue(node.vhost, QueueProperties("q", arguments=arguments), object())
        fill(queue, 10, 10)
        (partition,) = queue.partitions
        assert partition.take(5, 1 << 20)
        taker = Taker(0)
        partition.pause()
        partition.pause()  # somebody else returns some, too
        partition.give_back(0, 2)
        partition.resume()
        queue.add_consumer(taker)
        waiting = queue.get()
        partition.give_back(2, 5)
        node.turns.run()
        assert isinstance(waiting, asyncio.Future)
        assert not waiting.done()
        partition.resume()
        first = await waiting
        assert first is not None
        taker.prefetch = None
        queue.wake()
        node.turns.run()
        assert bodies(first) + taker.bodies() == numbered(0, 10)


async def test_what_a_commit_settles_is_known_before_it_is_settled(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
        assert done is not None
        await done
        fill(queue, 10, 10)
        (partition,) = queue.partitions
        assert partition.take(10, 1 << 20)
        part = partition.settlement(((0, 3), (5, 7)), Reason.ACKED)
        assert part is not None
        partition.committed(settled := [part])
        assert (partition.cursor.low_water, queue.unacked) == (0, 10)
        snapshot(partition.log)
        assert (partition.cursor.low_water, queue.unacked) == (3, 10)
        assert partition.cursor.settled.count_from(0, 10) == 5
        partition.settle(0, 3)
        partition.settle(5, 7)
        partition.carried_out(settled)
        assert queue.unacked == 5
        assert partition.cursor.settled.count_from(0, 10) == 5


async def test_an_ack_after_the_end_of_a_queue_leaves_its_successors_files_alone(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node:

        async def filled() -> Queue:
            queue, done = declare_queue(node.vhost, QueueProperties("q", durable=True), object())
            assert done is not None
            await done
            fill(queue, 10, 10)
            await flushed(node.logs)
            return queue

        old = await filled()
        delivery = old.get()
        assert delivery is not None
        (partition,) = old.partitions
        while partition.take(9, 1 << 20):
            pass
        node.vhost.delete_queue(old)
        (successor,) = (await filled()).partitions
        partition.settle(0, 10)
        assert (partition.in_flight, old.unacked) == (0, 0)
    assert successor.log.segments[0].path.exists()
