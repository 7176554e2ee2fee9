"""Random histories of a front's queue whose sessions are cut: nothing is lost, and doubles are marked."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_samples import Node, bodies, declare_queue, records, running_node
from support.sampling import examples
from unit.vhosts.sessions.session_pipe import PipedFront, RemoteTaker

from routelog.log_backend import Receipt
from routelog.vhosts import ConsumeOptions, Delivery, Queue, QueueProperties, ReturnReason
from routelog.vhosts.errors import SessionLost
from routelog.vhosts.publishing.appending import Appending

QUEUES: list[dict[str, object]] = [
    {},
    {"x-queue-type": "quorum"},
    {"x-max-length": 12, "x-overflow": "reject-publish"},
    {"x-partitions": 3, "x-partition-strategy": "round-robin"},
    {"x-single-active-consumer": True},
]

SMALL = st.integers(0, 5)
STEP = st.one_of(
    st.tuples(st.just("publish"), SMALL, SMALL),
    st.tuples(st.just("publish"), SMALL, SMALL),
    st.tuples(st.just("attach"), SMALL, SMALL),
    st.tuples(st.just("settle"), SMALL, SMALL),
    st.tuples(st.just("settle"), SMALL, SMALL),
    st.tuples(st.just("return"), SMALL, SMALL),
    st.tuples(st.just("channel"), SMALL, SMALL),
    st.tuples(st.just("cancel"), SMALL, SMALL),
    st.tuples(st.just("stall"), SMALL, SMALL),
    st.tuples(st.just("stall"), SMALL, SMALL),
    st.tuples(st.just("get"), SMALL, SMALL),
    st.tuples(st.just("carry"), SMALL, SMALL),
    st.tuples(st.just("carry"), SMALL, st.just(1)),
    st.tuples(st.just("carry"), SMALL, st.just(1)),
    st.tuples(st.just("cut"), SMALL, SMALL),
    st.tuples(st.just("open"), SMALL, SMALL),
)


class Client(RemoteTaker):
    """A consumer whose deliveries are settled one by one."""

    def __init__(self, history: History, prefetch: int) -> None:
        super().__init__(prefetch)
        self.history = history
        self.held: list[Delivery] = []
        self.ends: dict[int, int] = {}  # by partition: behind what was delivered for the first time

    def deliver(self, delivery: Delivery) -> None:
        """See `Consumer`."""
        super().deliver(delivery)
        if not delivery.redelivered:
            number = delivery.partition.number
            in_order = delivery.offset >= self.ends.get(number, 0)
            assert in_order or self.history.has_left, "order"
            self.ends[number] = delivery.offset + delivery.count
        self.held.append(delivery)
        self.history.saw(delivery)


class History:
    """One history.

    Attributes:
        seen: messages that clients were delivered.
        acked: those that were acknowledged in a session that was open then.
        has_left: what waited for a consumer that has left may come for the first time behind what others had.
        published: batches whose confirm was not looked at.
    """

    def __init__(self, node: Node, local: Queue, front: PipedFront, *, is_whole: bool) -> None:
        self.node, self.local, self.front = node, local, front
        self.front.is_whole = is_whole
        self.queue = front.queue(local)
        self.is_open = True
        self.seen: set[str] = set()
        self.acked: set[str] = set()
        self.has_left = False
        self.count = 0
        self.published: list[tuple[Receipt, Appending, list[str]]] = []
        self.confirmed: set[str] = set()
        self.clients: list[Client] = []
        self.got: list[Delivery] = []
        self.getting: list[asyncio.Future[Delivery | None]] = []
        self.attaching: list[asyncio.Future[None]] = []

    def saw(self, delivery: Delivery) -> None:
        for body in bodies(delivery):
            assert delivery.redelivered or body not in self.seen, "a double is marked"
            self.seen.add(body)

    # -- steps

    def step(self, name: str, one: int, other: int) -> None:
        getattr(self, f"do_{name}")(one, other)

    def do_publish(self, one: int, other: int) -> None:
        contents = [f"m{self.count + at}" for at in range(1 + one)]
        self.count += len(contents)
        appending = Appending(self.node.turns.scheduler)
        appending.begin(True)
        batch = records(*contents, persistent=other > 0)
        receipt = appending.append_run(batch, (self.queue,), range(len(contents)))
        self.published.append((receipt, appending, contents))

    def do_attach(self, one: int, other: int) -> None:
        if len(self.clients) < 4:
            client = Client(self, one)
            self.clients.append(client)
            options = ConsumeOptions(cancel_on_failover=other == 5)
            with suppress(SessionLost):  # what cannot be asked for at once is not
                self.attaching.append(self.queue.attach(client, options, client.begin))

    def client(self, one: int) -> Client | None:
        attached = [each for each in self.clients if each.source is not None]
        return attached[one % len(attached)] if attached else None

    def do_settle(self, one: int, other: int) -> None:
        self.end_some(one, other, None)

    def do_return(self, one: int, other: int) -> None:
        self.end_some(one, other, list(ReturnReason)[other % 2])

    def end_some(self, one: int, other: int, reason: ReturnReason | None) -> None:
        client = self.client(one)
        if self.got and other == 0:
            self.end(self.got.pop(), reason)
        elif client is not None and client.held:
            delivery = client.held.pop(other % len(client.held))
            client.unacked -= delivery.count
            client.source.has_credit(client)
            self.end(delivery, reason)

    def end(self, delivery: Delivery, reason: ReturnReason | None) -> None:
        source, first, end = delivery.partition, delivery.offset, delivery.offset + delivery.count
        if reason is not None:
            source.give_back(first, end, reason)
        else:
            source.settle(first, end)
            self.acked.update(bodies(delivery))
        source.on_ready()

    def do_channel(self, one: int, other: int) -> None:
        # A channel closes, and with it a consumer that holds deliveries.
        client = self.client(one)
        if client is not None:
            sources = {id(each.partition): each.partition for each in client.held}
            for source in sources.values():
                source.pause()
            self.queue.detach([client])
            for each in client.held:
                end = each.offset + each.count
                each.partition.give_back(each.offset, end, ReturnReason.FAILED)
            for source in sources.values():
                source.resume()
            self.clients.remove(client)
            self.has_left = True

    def do_cancel(self, one: int, other: int) -> None:
        client = self.client(one)
        if client is not None:
            self.queue.cancel(client)
            self.clients.remove(client)
            self.has_left = True
            self.got += client.held
            client.held = self.got

    def do_stall(self, one: int, other: int) -> None:
        client = self.client(one)
        if client is not None:
            client.is_stalled = not client.is_stalled
            client.source.has_credit(client)
            client.source.on_ready()

    def do_get(self, one: int, other: int) -> None:
        if not self.local.effective.values.get("x-single-active-consumer"):
            self.getting.append(self.queue.get())

    def do_carry(self, one: int, other: int) -> None:
        for _ in range(1 + one):
            if self.is_open:
                self.front.carry()
            if other:
                self.node.turns.run()
        self.look()

    def do_cut(self, one: int, other: int) -> None:
        if self.is_open:
            self.is_open = False
            self.front.cut()
        elif other == 5:
            self.front.link.give_up("no leader")

    def do_open(self, one: int, other: int) -> None:
        if not self.is_open:
            self.node.turns.run()  # the leader has taken back what the last session had
            self.is_open = True
            self.front.open()

    def look(self) -> None:
        # What has been answered.
        for each in list(self.published):
            receipt, appending, contents = each
            if appending.learn_outcomes() and receipt.is_covered():
                self.published.remove(each)
                refused = [contents[at] for at in appending.refused]
                self.confirmed.update(set(contents) - set(refused))
        for getting in [each for each in self.getting if each.done()]:
            self.getting.remove(getting)
            if not isinstance(getting.exception(), SessionLost) and getting.result():
                delivery = getting.result()
                assert delivery is not None
                self.saw(delivery)
                self.got.append(delivery)
        for attaching in [each for each in self.attaching if each.done()]:
            self.attaching.remove(attaching)
            assert isinstance(attaching.exception(), SessionLost | None)

    async def rest(self) -> None:
        quiet = 0
        while quiet < 3:
            self.node.turns.run()
            quiet = 0 if self.front.carry() else quiet + 1
            await asyncio.sleep(0)
        self.look()

    async def check(self) -> None:
        """Let one client take what is left: all that was confirmed was seen, and nothing is unsettled."""
        self.do_open(0, 0)
        await self.rest()
        assert self.front.refusals == []
        for client in list(self.clients):
            if client.source is not None:
                client.is_stalled = False
                client.source.has_credit(client)
                client.source.on_ready()
        await self.rest()
        for client in list(self.clients):
            self.queue.detach([client])
            for delivery in client.held:
                self.end(delivery, ReturnReason.RETURNED)
        for delivery in self.got:
            self.end(delivery, ReturnReason.RETURNED)
        await self.rest()
        assert self.local.unacked == 0
        acked, self.acked = self.acked, set()
        self.has_left = False
        last = Client(self, 0)
        self.queue.attach(last, ConsumeOptions(), last.begin)
        async with asyncio.timeout(30):
            while self.local.ready or any(
                r.durable > self.front.session.progress.durable
                for r, *_ in self.published
                if r.progress is self.front.session.progress
            ):
                await self.rest()
        await self.rest()
        assert self.confirmed <= self.seen
        taken = last.bodies()
        assert len(taken) == len(set(taken)), "a batch is sent once"
        assert self.confirmed <= acked | set(taken)
        for delivery in last.held:
            self.end(delivery, None)
        await self.rest()
        assert (self.local.ready, self.local.unacked) == (0, 0)


@pytest.mark.parametrize("arguments", QUEUES)
@given(
    steps=st.lists(STEP, min_size=5, max_size=50), seed=st.integers(0, 99), is_whole=st.booleans()
)
@settings(max_examples=examples(60), deadline=None)
def test_sessions_lose_nothing_and_doubles_are_marked(
    arguments: dict[str, Any], steps: list[tuple[str, int, int]], seed: int, is_whole: bool
) -> None:
    with tempfile.TemporaryDirectory() as data:
        asyncio.run(_happens(Path(data), arguments, steps, seed, is_whole))


async def _happens(
    data: Path,
    arguments: dict[str, Any],
    steps: list[tuple[str, int, int]],
    seed: int,
    is_whole: bool,
) -> None:
    async with running_node(data) as node:
        properties = QueueProperties("q", durable=True, arguments=arguments)
        queue, durable = declare_queue(node.vhost, properties, object())
        if durable is not None:
            await durable
        history = History(node, queue, PipedFront(node, seed), is_whole=is_whole)
        for prefetch in (0, 3):
            history.do_attach(prefetch, 0)
        await history.rest()
        for step in steps:
            history.step(*step)
        await history.check()
        history.front.cut()
        node.turns.run()
