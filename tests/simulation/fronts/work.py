"""What clients of a cluster do until they are to stop, each in a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from pamqp import commands
from simulation.fronts.client import Client, Delivered, Gone, Machine, Publish, Refused
from simulation.fronts.ledger import Ledger, Sent
from simulation.fronts.node import FrontsNode

if TYPE_CHECKING:
    from simulation.fronts.cluster import FrontsCluster

QUEUES: dict[str, dict[str, Any]] = {
    "s0": {},
    "s1": {},
    "full": {"x-max-length": 6, "x-overflow": "reject-publish"},
    "in": {},
    "out": {},
}
EXCHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "fan": ("fanout", {}),
    "top": ("topic", {}),
    "past": ("x-recent-history", {"x-recent-history-length": 2}),
    "lives": ("direct", {}),
}
BINDINGS = (
    ("s0", "fan", ""),
    ("s1", "fan", ""),
    ("s0", "top", "a.*"),
    ("s1", "top", "#.b"),
    ("s1", "past", ""),
)
ROUTES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "s0", ("s0",)),
    ("", "s1", ("s1",)),
    ("", "full", ("full",)),
    ("fan", "", ("s0", "s1")),
    ("top", "a.c", ("s0",)),
    ("top", "a.b", ("s0", "s1")),
    ("past", "", ("s1",)),
)
BURSTS = (1, 1, 1, 1, 3, 3, 10, 30)  # the last one, of long messages, is more than a front's window
PROOF_SECONDS = 0.02  # behind an ack: what is published then is behind it in the session


@dataclass(eq=False)
class Life:
    """A queue, or a binding of it, that is declared and ends again.

    Attributes:
        version: rises with each change that is asked for.
        epoch: of the cluster, for what goes with the leader; None: it stays.
    """

    version: int = 0
    epoch: int | None = None
    confirmed: set[bytes] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)


@dataclass(eq=False)
class Place:
    """A connection, and where it goes."""

    client: Client
    node: FrontsNode
    acks: list[tuple[Sent, str, object, int]] = field(default_factory=list)


class Work:
    """See the module."""

    def __init__(self, cluster: "FrontsCluster", randomness: Random) -> None:
        self.ledger = Ledger(randomness.choice((0, 0, 300, 3_000)))
        self.machine = Machine(lambda: cluster.scheduler.now, cluster.scheduler.after)
        self.consumed: set[str] = set()  # they go with their last consumer
        self.stops = self.is_set_up = False
        self._cluster = cluster
        self._randomness = randomness
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._places: dict[Any, Place] = {}  # by task
        self._probers: dict[str, Place] = {}
        self._lanes = self._lives = self._probes = 0
        self._pace = randomness.choice((0.03, 0.08, 0.2))

    def set_up(self) -> None:
        """Have declared what there is at first."""
        self._start("setup", self._set_up)

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        task = self.machine.loop.create_task(self._again(name, work))
        self._tasks[task] = name
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        task.result()

    @property
    def pending(self) -> str | None:
        """Who has not stopped yet."""
        found = []
        for task, name in self._tasks.items():
            place = self._places.get(task)
            found.append(
                name if place is None else f"{name} at {place.node.name}: {place.client.awaits}"
            )
        return "; ".join(found) or None

    async def _again(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while not self.stops:
            try:
                await work()
            except Gone:
                self.ledger.counts["connections lost"] += 1
            except Refused as error:
                self.ledger.counts[f"channels closed: {error.code}"] += 1
            place = self._places.pop(asyncio.current_task(), None)
            if place is not None and not place.client.is_gone:
                place.client.drop()
            if name == "setup" and self.is_set_up:
                return
            await self._pause(0.1)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(self._randomness.expovariate(1 / seconds))

    async def connect(self, node: FrontsNode | None = None, *, forever: bool = False) -> Place:
        """Connect with a node that takes clients."""
        while forever or not self.stops:
            to = node or self._randomness.choice(list(self._cluster.nodes.values()))
            wire = self._cluster.wire(self.machine, to.host)
            client = Client(self.ledger.wrong)
            client.connection_made(wire.near)
            wire.near.set_protocol(client)
            if to.connect(wire):
                try:
                    await client.begin()
                except Gone:
                    pass
                else:
                    self.ledger.counts["connections"] += 1
                    place = Place(client, to)
                    self._places[asyncio.current_task()] = place
                    return place
            await self._pause(0.2)
        raise Gone

    # -- what there is at first

    async def _set_up(self) -> None:
        place = await self.connect()
        call = place.client.call
        for name, (kind, arguments) in EXCHANGES.items():
            method: Any = commands.Exchange.Declare(
                exchange=name, exchange_type=kind, durable=True, arguments=arguments
            )
            await call(method, commands.Exchange.DeclareOk)
        for name, arguments in QUEUES.items():
            method = commands.Queue.Declare(queue=name, durable=True, arguments=arguments)
            await call(method, commands.Queue.DeclareOk)
        for queue, exchange, key in BINDINGS:
            method = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=key)
            await call(method, commands.Queue.BindOk)
        await place.client.close()
        self.is_set_up = True

    def start(self) -> None:
        """Let clients work."""
        choice = self._randomness.choice
        for node in self._cluster.nodes.values():
            self._start(f"prober of {node.name}", partial(self._probe, node))
        for work, counts in (
            (self._publish, (1, 1, 2)),
            (self._consume, (0, 1, 2)),
            (self._get, (0, 1)),
            (self._transact, (0, 1)),
            (self._live, (0, 1, 2, 3)),
            (self._own, (0, 1)),
        ):
            for number in range(choice(counts)):
                self._start(f"{work.__name__} {number}", work)

    # -- messages

    def _send(self, place: Place, lane: int) -> Publish:
        exchange, key, queues = self._randomness.choice(ROUTES)
        return self._sent(place, lane, exchange, key, queues)

    def _sent(
        self, place: Place, lane: int, exchange: str, key: str, queues: tuple[str, ...]
    ) -> Publish:
        body = self.ledger.new_body()
        mandatory = self._randomness.random() < 0.5
        self._trace(f"publishes {body.strip().decode()} to {exchange} {key} at {place.node.name}")
        published = place.client.publish(exchange, key, body, mandatory=mandatory)
        self.ledger.add(Sent(body, lane, queues), published)
        return published

    def _new_lane(self) -> int:
        self._lanes += 1
        return self._lanes

    async def _publish(self) -> None:
        place = await self.connect()
        await place.client.confirms()
        lane = self._new_lane()
        published = self._send(place, lane)
        while not self.stops:
            for _ in range(self._randomness.choice(BURSTS)):
                published = self._send(place, lane)
                if self._randomness.random() < 0.3:
                    self._sent(place, lane, "", "in", ("in",))
            if self._randomness.random() < 0.5:
                await published.outcome
            await self._pause(self._pace)
            await self._perhaps_leave(place, 0.03)
            if place.client.is_gone or not place.client.is_open:
                return
        await published.outcome
        await place.client.close()

    async def _perhaps_leave(self, place: Place, chance: float) -> None:
        if self._randomness.random() > chance:
            return
        match self._randomness.randrange(3):
            case 0:
                await place.client.close()
            case 1:
                place.client.drop()
            case _:
                await place.client.close_channel()
        raise Gone

    async def _consume(self) -> None:
        choice = self._randomness
        place = await self.connect()
        client = place.client
        await client.confirms()
        queue, lane, held = choice.choice(("s0", "s1", "full")), self._new_lane(), list[Any]()
        if prefetch := choice.choice((0, 1, 3, 20)):
            qos = commands.Basic.Qos(prefetch_count=prefetch)
            await client.call(qos, commands.Basic.QosOk)

        def came(delivered: Delivered) -> None:
            sent = self._came(place, queue, delivered)
            held.append((delivered, sent))

        client.on_delivery = came
        consume = commands.Basic.Consume(queue=queue, consumer_tag="c")
        await client.call(consume, commands.Basic.ConsumeOk)
        while not self.stops and client.is_open:
            await self._pause(self._pace)
            for _ in range(choice.choice((0, 1, 2, 20))):
                if held:
                    delivered, sent = held.pop(0)
                    self._settle(place, delivered, sent, queue)
            if choice.random() < 0.2:
                await self._prove(place, lane)
            if choice.random() < 0.05 and client.is_open:
                await client.call(commands.Basic.Cancel("c"), commands.Basic.CancelOk)
                for delivered, sent in held:
                    self._settle(place, delivered, sent, queue)
                held.clear()
                await client.call(consume, commands.Basic.ConsumeOk)
            await self._perhaps_leave(place, 0.03)
        while held:
            delivered, sent = held.pop()
            self._settle(place, delivered, sent, queue)
        await self._is_served(place, queue, lane, held)
        await client.close()

    async def _is_served(
        self, place: Place, queue: str, lane: int, held: list[tuple[Delivered, Sent]]
    ) -> None:
        """Wait until a consumer gets something, or other ones have got all."""
        left = 1
        while left and not held and place.client.is_open:
            await self._sent(place, lane, "", queue, (queue,)).outcome
            await asyncio.sleep(0.1)
            passive = commands.Queue.Declare(queue=queue, passive=True)
            declared = await place.client.call(passive, commands.Queue.DeclareOk)
            left = declared.message_count

    def _came(self, place: Place, queue: str, delivered: Delivered) -> Sent:
        text = f"gets {delivered.body.strip().decode()} of {queue} at {place.node.name}"
        self._trace(f"{text}, {'re' * delivered.redelivered}delivered")
        delivered.session = place.node.session
        return self.ledger.delivered(queue, delivered, place.node.epoch)

    def _trace(self, what: str) -> None:
        self._cluster.trace("client", what)

    def _settle(self, place: Place, delivered: Delivered, sent: Sent, queue: str) -> None:
        if not place.client.is_open or place.client.is_gone:
            return
        chance = self._randomness.random()
        how = "acks" if chance < 0.65 else "drops" if chance < 0.75 else "returns"
        self._trace(f"{how} {sent} of {queue} at {place.node.name}")
        if chance < 0.65:
            place.client.settle(delivered.tag)
        elif chance < 0.75:
            place.client.settle(delivered.tag, ack=False, requeue=False)
        else:
            return place.client.settle(delivered.tag, ack=False)
        sent.settled.setdefault(queue, 0)
        place.acks.append((sent, queue, delivered.session, place.node.epoch))

    async def _prove(self, place: Place, lane: int) -> None:
        # What is confirmed behind acknowledgements in one session proves that they are carried out.
        await asyncio.sleep(PROOF_SECONDS)
        acks, place.acks = place.acks, []
        published = self._sent(place, lane, "", "s0", ("s0",))

        def told(outcome: "asyncio.Future[bool | None]") -> None:
            for sent, queue, session, epoch in acks:
                if outcome.result() and session is not None and session is place.node.session:
                    self._trace(f"is sure of {sent} of {queue}")
                    sent.settled[queue] = epoch
                    self.ledger.counts["acks that are sure"] += 1

        published.outcome.add_done_callback(told)

    async def _get(self) -> None:
        place = await self.connect()
        client, lane = place.client, self._new_lane()
        await client.confirms()
        while not self.stops and client.is_open:
            await self._pause(2 * self._pace)
            queue = self._randomness.choice(("s0", "s1", "full"))
            got = await client.call(
                commands.Basic.Get(queue=queue), commands.Basic.GetOk, commands.Basic.GetEmpty
            )
            if isinstance(got, Delivered):
                sent = self._came(place, queue, got)
                self._settle(place, got, sent, queue)
            if self._randomness.random() < 0.2:
                await self._prove(place, lane)
            await self._perhaps_leave(place, 0.03)
        await client.close()

    async def _transact(self) -> None:
        place = await self.connect()
        client = place.client
        await client.call(commands.Tx.Select(), commands.Tx.SelectOk)
        while not self.stops and client.is_open:
            moved = list[Delivered]()
            for _ in range(self._randomness.choice((1, 1, 3))):
                got = await client.call(
                    commands.Basic.Get(queue="in"), commands.Basic.GetOk, commands.Basic.GetEmpty
                )
                if isinstance(got, Delivered):
                    moved.append(got)
            for delivered in moved:
                self._came(place, "in", delivered)
                client.publish("", "out", delivered.body, mandatory=False)
                client.settle(delivered.tag)
            published = list[Publish]()
            if self._randomness.random() < 0.3:  # it may be full: then nothing is done
                published.append(self._sent(place, self._new_lane(), "", "full", ("full",)))
            client.forget_publishes()
            if self._randomness.random() < 0.15:
                await client.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
                return await client.close()
            epoch = place.node.epoch
            await client.call(commands.Tx.Commit(), commands.Tx.CommitOk)
            for each in published:
                each.outcome.set_result(True)
            for delivered in moved:
                self.ledger.sent[delivered.body].settled["in"] = epoch
                self.ledger.counts["moves"] += 1
            await self._pause(2 * self._pace)
            await self._perhaps_leave(place, 0.03)
        await client.close()

    # -- definitions

    async def _probe(self, node: FrontsNode) -> None:
        place = await self.connect(node)
        await place.client.confirms()
        self._probers[node.name] = place
        while place.client.is_open and not (self.stops and not place.client.waits):
            await self._pause(0.2)
        self._probers.pop(node.name)
        await place.client.close()

    def _ask(self, life: Life, exchange: str, key: str, *, is_there: bool) -> list[Publish]:
        """Publish by way of each node at once: all that route know what was answered."""
        published = []
        for place in () if self.stops else self._probers.values():
            self._probes += 1
            body = f"probe {self._probes} of {key}".encode()
            probe = place.client.publish(exchange, key, body, mandatory=True)
            self._trace(f"publishes {body!r} at {place.node.name}")
            if is_there:
                life.sent.add(body)
            told = partial(self._told, life, life.version, place.node.name, probe, is_there, key)
            probe.outcome.add_done_callback(told)
            published.append(probe)
        return published

    def _told(
        self,
        life: Life,
        version: int,
        node: str,
        probe: Publish,
        is_there: bool,
        key: str,
        outcome: "asyncio.Future[bool | None]",
    ) -> None:
        if not outcome.result():
            return
        has_gone = life.epoch is not None and life.epoch != self._cluster.coordinator.last.epoch
        if life.version != version or has_gone:
            return
        self.ledger.counts["probes"] += 1
        if is_there and probe.is_returned:
            self.ledger.wrong(f"{key} was declared, and {node} returns what is published to it")
        if not is_there and not probe.is_returned:
            self.ledger.wrong(f"{key} was deleted, and {node} has routed to it")
        if is_there:
            life.confirmed.add(probe.body)

    async def _change(self, life: Life, client: Client, method: Any, answer: type[Any]) -> Any:
        life.version += 1
        self._trace(f"asks {method.marshal()}")
        answered = await client.call(method, answer)
        self._trace(f"is answered {answer.name}")
        self.ledger.counts["changes"] += 1
        return answered

    async def _live(self) -> None:
        place = await self.connect()
        client, choice = place.client, self._randomness
        while not self.stops and client.is_open:
            self._lives += 1
            name, life = f"v{self._lives}", Life()
            durable = choice.random() < 0.7
            if not durable:
                life.epoch = self._cluster.coordinator.last.epoch
            declare = commands.Queue.Declare(queue=name, durable=durable)
            await self._change(life, client, declare, commands.Queue.DeclareOk)
            await self._settled(self._ask(life, "", name, is_there=True))
            if choice.random() < 0.6:
                bound = Life(epoch=life.epoch)
                bind = commands.Queue.Bind(queue=name, exchange="lives", routing_key=name)
                await self._change(bound, client, bind, commands.Queue.BindOk)
                await self._settled(self._ask(bound, "lives", name, is_there=True))
                life.sent |= bound.sent
                life.confirmed |= bound.confirmed
                unbind = commands.Queue.Unbind(queue=name, exchange="lives", routing_key=name)
                await self._change(bound, client, unbind, commands.Queue.UnbindOk)
                await self._settled(self._ask(bound, "lives", name, is_there=False))
            await self._pause(self._pace)
            delete = commands.Queue.Delete(queue=name)
            confirmed, session = len(life.confirmed), place.node.session
            deleted = await self._change(life, client, delete, commands.Queue.DeleteOk)
            # Nobody knows whether a leader that is lost has done it: the next one, asked again, finds nothing.
            stays = life.epoch in (None, self._cluster.coordinator.last.epoch)
            if stays and session is place.node.session and deleted.message_count < confirmed:
                self.ledger.wrong(f"{name} had {deleted.message_count} messages of {confirmed}")
            await self._settled(self._ask(life, "", name, is_there=False))
            await self._perhaps_leave(place, 0.03)
        await client.close()

    async def _settled(self, published: list[Publish]) -> None:
        if published and self._randomness.random() < 0.8:
            outcomes = [each.outcome for each in published]
            await asyncio.wait(outcomes, timeout=self._randomness.choice((0.5, 4.0)))

    async def _own(self) -> None:
        """Queues that go with their connection, or with their last consumer; exchanges."""
        place = await self.connect()
        client, choice = place.client, self._randomness
        while not self.stops and client.is_open:
            self._lives += 1
            exclusive = choice.random() < 0.5
            declare = commands.Queue.Declare(
                queue="" if exclusive else f"a{self._lives}",
                exclusive=exclusive,
                auto_delete=not exclusive,
            )
            name = (await client.call(declare, commands.Queue.DeclareOk)).queue
            exchange = f"e{self._lives}"
            declare_exchange = commands.Exchange.Declare(
                exchange=exchange, exchange_type="fanout", auto_delete=True
            )
            await client.call(declare_exchange, commands.Exchange.DeclareOk)
            bind = commands.Queue.Bind(queue=name, exchange=exchange)
            await client.call(bind, commands.Queue.BindOk)
            client.publish(exchange, "", b"own", mandatory=False, persistent=False)
            client.forget_publishes()
            consume = commands.Basic.Consume(queue=name, consumer_tag="own", no_ack=True)
            await client.call(consume, commands.Basic.ConsumeOk)
            self.consumed.add(name)
            await self._pause(self._pace)
            await client.call(commands.Basic.Cancel("own"), commands.Basic.CancelOk)
            await self._perhaps_leave(place, 0.1)
        await client.close()

    # -- the end

    async def drain(self, queue: str) -> list[bytes]:
        """Take all that a queue has."""
        place = await self.connect(forever=True)
        found: list[bytes] = []

        def came(delivered: Delivered) -> None:
            self._came(place, queue, delivered)
            found.append(delivered.body)

        place.client.on_delivery = came
        passive = commands.Queue.Declare(queue=queue, passive=True)
        expected = (await place.client.call(passive, commands.Queue.DeclareOk)).message_count
        consume = commands.Basic.Consume(queue=queue, consumer_tag="last", no_ack=True)
        await place.client.call(consume, commands.Basic.ConsumeOk)
        for _ in range(50):
            if len(found) >= expected:
                break
            await asyncio.sleep(0.05)
        await place.client.call(commands.Basic.Cancel("last"), commands.Basic.CancelOk)
        await place.client.close()
        if len(found) != expected:
            self.ledger.wrong(f"{queue} has {expected} messages, and {len(found)} came")
        return found
