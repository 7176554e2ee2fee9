"""Random work of two fronts on one queue, ends of sessions included, against a dictionary of messages.

Nothing is lost. Nobody has what somebody else has, and what was delivered before is marked. Of what is ready in
a partition, the first message goes first.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, got, running_node
from support.sampling import examples
from unit.vhosts.sessions.hand_front import Delivered, HandFront, declared, delivered

from routelog.log_backend import Reason
from routelog.vhosts import Queue, ReturnReason
from routelog.vhosts.sessions.session_message import (
    OUTBOX_BYTES_MAX,
    Kind,
    SessionMessage,
    records_of,
)

KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "counted": {"x_queue_type": "quorum"},
    "partitioned": {"x_partitions": 3, "x_partition_strategy": "round-robin"},
}

FRONT = st.integers(0, 1)
WHICH = st.integers(0, 99)
STEP = st.one_of(
    st.tuples(st.just("publish"), FRONT, st.integers(1, 6)),
    st.tuples(st.just("consume"), FRONT, st.sampled_from([0, 1, 3, -1])),  # -1: without acks
    st.tuples(st.sampled_from(["settle", "reject", "redeliver", "cancel", "detach"]), FRONT, WHICH),
    st.tuples(st.sampled_from(["return", "more", "more"]), FRONT, WHICH),
    st.tuples(st.sampled_from(["get", "stall", "drain", "end"]), FRONT, WHICH),
    st.tuples(st.just("turn"), FRONT, WHICH),
    st.tuples(st.just("turn"), FRONT, WHICH),
)

Place = tuple[int, int]  # partition and offset


@dataclass
class Holding:
    """What a consumer of a front has, or its gets."""

    front: int
    number: int
    no_ack: bool = False
    prefetch: int = 0
    is_gone: bool = False
    places: set[Place] = field(default_factory=set)
    again: set[Place] = field(default_factory=set)  # to be delivered to it once more


class Model:
    """The messages of a queue, and who has them."""

    def __init__(self, node: Node, queue: Queue) -> None:
        self.node = node
        self.queue = queue
        self.serials: dict[Place, int] = {}
        self.ready: list[set[int]] = [set() for _ in queue.partitions]
        self.delivered: set[Place] = set()
        self.first_time: set[Place] = set()  # of these, who had their first delivery last
        self.holdings: list[Holding] = []
        self.paused: tuple[int, int, int] | None = None  # front, partition, holding's number
        self.published = 0
        self.fronts = [self._front(at) for at in range(2)]

    def _front(self, at: int) -> tuple[HandFront, int]:
        front = HandFront(self.node, f"front-{at}")
        front.on_told = lambda message: self._told(at, message)
        subject = front.bind(self.queue)
        self.holdings.append(Holding(at, subject))
        return front, subject

    # -- what the fronts are told

    def _told(self, at: int, message: SessionMessage) -> None:
        if message.kind is Kind.DELIVER:
            self._delivered(self._holding(at, message.subject), delivered(message))

    def _holding(self, at: int, number: int) -> Holding:
        (holding,) = [each for each in self.holdings if (each.front, each.number) == (at, number)]
        return holding

    def _delivered(self, holding: Holding, delivery: Delivered) -> None:
        assert not holding.is_gone
        for offset, body in enumerate(delivery.bodies, delivery.offset):
            place = delivery.partition, offset
            assert self.serials[place] == int(body)
            if place in holding.again:
                assert delivery.redelivered
                self.first_time.discard(place)
                holding.again.remove(place)
                holding.places.add(place)
            else:
                self._hand_out(holding, place, redelivered=delivery.redelivered)

    def _hand_out(self, holding: Holding, place: Place, *, redelivered: bool) -> None:
        partition, offset = place
        assert self.paused is None or self.paused[1] != partition
        assert offset == min(self.ready[partition])
        self.ready[partition].remove(offset)
        assert redelivered is (place in self.delivered)
        if redelivered:
            self.first_time.discard(place)
        else:
            self.delivered.add(place)
            self.first_time.add(place)
        if holding.no_ack:
            del self.serials[place]
        else:
            holding.places.add(place)

    # -- what they do

    async def do(self, what: str, at: int, number: int) -> None:
        front, subject = self.fronts[at]
        if what == "publish":
            self._publish(front, subject, number)
        elif what == "consume":
            self._consume(at, number)
        elif what in ("settle", "reject", "return", "more", "redeliver"):
            self._end(what, at, number)
        elif what in ("cancel", "detach"):
            self._leave(what, at, number)
        elif what == "get":
            self._get(at)
        elif what == "stall":
            front.outbox = OUTBOX_BYTES_MAX + 1
        elif what == "drain":
            front.outbox = 0
            front.session.drained()
        elif what == "end":
            self.resume()
            await self.turn()
            self._lose(at)
            front.session.closed()
            await self.turn()
            self.fronts[at] = self._front(at)
        else:
            await self.turn()

    async def turn(self) -> None:
        for _ in range(3):
            self.node.turns.run()
            await asyncio.sleep(0)

    def _publish(self, front: HandFront, subject: int, count: int) -> None:
        before = [partition.log.next_offset for partition in self.queue.partitions]
        serials = range(self.published, self.published + count)
        self.published += count
        front.publish(subject, *map(str, serials))
        for partition, first in enumerate(before):
            end = self.queue.partitions[partition].log.next_offset
            for offset, serial in zip(range(first, end), serials, strict=False):
                self.serials[partition, offset] = serial
                self.ready[partition].add(offset)

    def _consume(self, at: int, prefetch: int) -> None:
        front, subject = self.fronts[at]
        consumer = front.subject()
        self.holdings.append(Holding(at, consumer, prefetch < 0, max(0, prefetch)))
        front.consume(subject, consumer=consumer, prefetch=max(0, prefetch), no_ack=prefetch < 0)

    def _runs(self, at: int) -> list[tuple[Holding, int, int, int]]:
        # What a front has, as ranges: holding, partition, first, end.
        runs: list[tuple[Holding, int, int, int]] = []
        for holding in self.holdings:
            if holding.front != at:
                continue
            for partition, offset in sorted(holding.places):
                if runs and runs[-1][:2] == (holding, partition) and runs[-1][3] == offset:
                    runs[-1] = (*runs[-1][:3], offset + 1)
                else:
                    runs.append((holding, partition, offset, offset + 1))
        return runs

    def _end(self, what: str, at: int, number: int) -> None:
        runs = self._runs(at)
        if not runs:
            return
        holding, partition, first, end = runs[number % len(runs)]
        if number % 3:  # a part of it
            first = min(first + number % 2, end - 1)
            end = max(first + 1, end - number % 3 + 1)
        front, subject = self.fronts[at]
        places = {(partition, offset) for offset in range(first, end)}
        place: dict[str, Any] = {"partition": partition}
        if what == "redeliver":
            if holding.number != subject:
                span = {"consumer": holding.number, "first": first, "end": end} | place
                holding.places -= places
                holding.again |= places
                front.call("redeliver", span, subject=subject)
                if holding.is_gone:
                    self._make_ready(holding.again)
            return
        if what in ("settle", "reject"):
            reason = Reason.ACKED if what == "settle" else Reason.REJECTED
            front.settle(holding.number, first, end, reason, partition)
            for each in places:
                del self.serials[each]
        elif self.paused is None or self.paused[:2] == (at, partition):
            reasons = [*ReturnReason]
            reason = reasons[number % len(reasons)]
            more = what == "more"
            front.give_back(holding.number, first, end, reason, more=more, **place)
            self.paused = (at, partition, holding.number) if more else None
            if reason is ReturnReason.UNUSED:
                self.delivered -= places & self.first_time
            self._make_ready(set(places))
        else:
            return
        holding.places -= places

    def _make_ready(self, places: set[Place]) -> None:
        for partition, offset in places:
            self.ready[partition].add(offset)
        places.clear()

    def resume(self) -> None:
        """End a series of returns."""
        if self.paused is not None:
            at, partition, number = self.paused
            self.paused = None
            self.fronts[at][0].give_back(number, 0, 0, partition=partition)

    def _leave(self, what: str, at: int, number: int) -> None:
        front, subject = self.fronts[at]
        consumers = [h for h in self.holdings if h.front == at and h.number != subject]
        consumers = [each for each in consumers if not each.is_gone]
        if not consumers:
            return
        gone = consumers[number % len(consumers)]
        argument: Any = gone.number if what == "cancel" else [gone.number]
        front.call(what, argument, subject=subject)
        gone.is_gone = True
        self._make_ready(gone.again)

    def _get(self, at: int) -> None:
        front, subject = self.fronts[at]
        if self.paused is not None or front.outbox:
            return  # it would wait
        answer = front.answer(front.call("get", False, subject=subject))
        if answer is None:
            assert not any(self.ready)
            return
        place = answer["partition"], answer["offset"]
        assert records_of(answer["batch"]).body(0) == str(self.serials[place]).encode()
        self._hand_out(self._holding(at, subject), place, redelivered=answer["redelivered"])
        assert answer["ready"] == sum(map(len, self.ready))

    def _lose(self, at: int) -> None:
        # A session ends.
        for holding in [each for each in self.holdings if each.front == at]:
            self._make_ready(holding.places)
            self._make_ready(holding.again)
            self.holdings.remove(holding)

    def check(self) -> None:
        """Compare the queue."""
        held = [each.places | each.again for each in self.holdings]
        assert self.queue.ready == sum(map(len, self.ready))
        assert self.queue.unacked == sum(map(len, held))
        for holding in self.holdings:
            if holding.prefetch:
                assert len(holding.places | holding.again) <= holding.prefetch
            consumer = self.fronts[holding.front][0].session._consumers.get(holding.number)
            if consumer is not None:
                assert consumer.unacked == len(holding.places) + len(holding.again)
                assert consumer.unsettled.count == len(holding.places)

    async def finish(self) -> None:
        """All sessions end: the rest is there, in order."""
        self.resume()
        self.check()
        for at in range(2):
            front, _ = self.fronts[at]
            assert not front.failures
            front.on_told = lambda message: None
            front.session.closed()
        await self.turn()
        assert (self.queue.unacked, self.queue.consumer_count) == (0, 0)
        rest: list[list[int]] = [[] for _ in self.queue.partitions]
        while (delivery := got(self.queue)) is not None:
            serial = int(delivery.records.body(delivery.index))
            rest[delivery.partition_index or 0].append(serial)
        wanted: list[list[int]] = [[] for _ in self.queue.partitions]
        for (partition, _), serial in sorted(self.serials.items()):
            wanted[partition].append(serial)
        assert rest == wanted


async def _agree(data: Path, kind: str, steps: list[tuple[str, int, int]]) -> None:
    async with running_node(data) as node:
        queue = await declared(node, **KINDS[kind])
        model = Model(node, queue)
        for step in steps:
            await model.do(*step)
            model.check()
        await model.finish()


@pytest.mark.parametrize("kind", KINDS)
@given(steps=st.lists(STEP, min_size=40, max_size=100))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[*HealthCheck])
def test_a_queue_and_a_dictionary_agree(kind: str, steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as data:
        asyncio.run(_agree(Path(data), kind, steps))
