"""Topology methods on a channel that writes down what it answers, and when."""

from asyncio import Future, gather, wait_for
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands
from support.queue_samples import Node, SlowDisk, running_node
from support.waiting import WAIT_SECONDS
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of, settled_down

from routelog.amqp_front.connections import topology_methods
from routelog.exchanges import Exchange
from routelog.log_backend import Change
from routelog.vhosts import (
    AccessRefused,
    Answer,
    FrontConnections,
    FrontVhosts,
    QueueLocked,
    QueueProperties,
    ResourceKind,
    Verb,
    VirtualHost,
    after,
)
from routelog.vhosts.stored.topology_record import exchange_change, queue_change


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as running:
        yield running


class Permissions:
    """What a user may configure begins with a prefix; topic exchanges have keys that are for others."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def authorize(self, kind: ResourceKind, name: str, verb: Verb) -> None:
        """See `PermissionCache`."""
        if verb is Verb.CONFIGURE and not name.startswith(self._prefix):
            raise AccessRefused(name)

    def authorize_topic(self, exchange: str, verb: Verb, routing_key: str) -> None:
        """See `PermissionCache`."""
        if routing_key == "others":
            raise AccessRefused(exchange)

    def authorize_any(self, kind: ResourceKind, name: str) -> None:
        """See `PermissionCache`."""


class Channel:
    """A channel of a connection of its own."""

    def __init__(self, vhost: VirtualHost, prefix: str = "") -> None:
        self.vhost = vhost
        self.permissions: Any = Permissions(prefix)
        self.connection: Any = self
        self.closing = False
        self.last_queue = ""
        self.answers: list[tuple[Awaitable[object] | None, dict[str, Any]]] = []
        self.waits: list[Future[Any]] = []

    def hold_cancels(self) -> None:
        """See `TopologyChannel`."""

    def when(self, answer: Answer[Any], then: Callable[[Any], None], method: Any) -> None:
        """See `TopologyChannel`."""
        coming = after(answer, then)
        if isinstance(coming, Future):
            self.waits.append(coming)

    def reply(
        self, durable: Awaitable[object] | None, nowait: bool, kind: type[Any], **values: Any
    ) -> None:
        """See `TopologyChannel`."""
        self.answers.append((durable, values))


@pytest.mark.parametrize(
    ("prefix", "allowed"), [("", True), ("amq.gen", True), ("mine", False), ("amq.genie", False)]
)
def test_a_queue_that_the_server_names_needs_permission_for_that_name(
    node: Node, prefix: str, allowed: bool
) -> None:
    channel = Channel(node.vhost, prefix)
    method = commands.Queue.Declare(queue="")
    if allowed:
        topology_methods.queue_declare(channel, method)
        ((_, values),) = channel.answers
        assert values["queue"] == channel.last_queue
        assert channel.last_queue.startswith("amq.gen-")
    else:
        with pytest.raises(AccessRefused, match=r"amq\.gen-"):
            topology_methods.queue_declare(channel, method)
        assert node.vhost.queues == {}


async def test_who_asks_for_a_declaration_waits_as_who_made_it(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    maker, other = Channel(vhost), Channel(vhost)
    topology_methods.queue_declare(maker, commands.Queue.Declare(queue="q", durable=True))
    topology_methods.exchange_declare(maker, commands.Exchange.Declare(exchange="x", durable=True))
    topology_methods.queue_declare(other, commands.Queue.Declare(queue="q", passive=True))
    topology_methods.exchange_declare(other, commands.Exchange.Declare(exchange="x", passive=True))
    assert not maker.answers
    assert not other.answers
    for submitted in disk.futures:
        submitted.set_result(1)
    await gather(*maker.waits, *other.waits)
    for channel in (maker, other):
        assert {values.get("queue") for _, values in channel.answers} == {None, "q"}
    topology_methods.queue_declare(other, commands.Queue.Declare(queue="q", passive=True))
    topology_methods.exchange_declare(other, commands.Exchange.Declare(exchange="x", passive=True))
    assert [durable for durable, _ in other.answers[2:]] == [None, None]


async def test_a_declaration_at_a_front_is_one_call_of_the_leader(node: Node) -> None:
    leader = ScriptedLeader()
    leader.open()
    vhosts = FrontVhosts(node.vhosts, leader.link, FrontConnections("b", 1), lambda *_: None)
    vhosts.begin()
    channel, stored = Channel(node.vhost), node.vhost.stored
    topology_methods.queue_declare(channel, commands.Queue.Declare(queue="q", durable=True))
    await settled_down()
    (call,) = leader.said()
    assert call_of(call)[0] == "declare_queue"
    leader.answers(call, [3, 1])  # and somebody else has deleted it
    await gather(*channel.waits)
    said = {"queue": "q", "message_count": 3, "consumer_count": 1}
    assert channel.answers == [(None, said)]
    stored.apply(queue_change("/", QueueProperties("q", durable=True), [9]), None)
    topology_methods.queue_declare(channel, commands.Queue.Declare(queue="q", passive=True))
    await settled_down()
    _, call = leader.said()
    assert call_of(call) == ["counts"]
    leader.answers(call, [3, 1])
    await gather(*channel.waits)
    assert channel.answers[1:] == [(None, said)]
    leader.session.lost("the test is over")


async def test_who_deletes_what_another_one_is_deleting_waits_with_it(node: Node) -> None:
    disk = SlowDisk()
    vhost = node.vhost_with(disk)
    first, other = Channel(vhost), Channel(vhost)
    topology_methods.queue_delete(other, commands.Queue.Delete(queue="q"))
    assert other.answers == [(None, {"message_count": 0})]
    topology_methods.queue_declare(first, commands.Queue.Declare(queue="q", durable=True))
    disk.futures[0].set_result(1)
    topology_methods.queue_delete(first, commands.Queue.Delete(queue="q"))
    topology_methods.queue_delete(other, commands.Queue.Delete(queue="q"))
    assert (len(first.answers), len(other.answers)) == (0, 1)
    disk.futures[1].set_result(2)
    await gather(*first.waits, *other.waits)
    assert first.answers[-1] == other.answers[1] == (None, {"message_count": 0})
    topology_methods.queue_delete(other, commands.Queue.Delete(queue="q"))
    assert other.answers[2] == (None, {"message_count": 0})


MINE = QueueProperties("q", exclusive=True)
LASTING = QueueProperties("q", durable=True)
BINDINGS = [
    commands.Queue.Bind(queue="q", exchange="x", routing_key="others"),
    commands.Queue.Unbind(queue="q", exchange="x", routing_key="others"),
    commands.Exchange.Bind(destination="amq.direct", source="x", routing_key="others"),
    commands.Exchange.Unbind(destination="amq.direct", source="x", routing_key="others"),
]


class Front:
    """A channel at a node whose leader is the test."""

    def __init__(self, node: Node, *, is_open: bool) -> None:
        self.leader = ScriptedLeader()
        no_clients = FrontConnections("b", 1)
        self.vhosts = FrontVhosts(node.vhosts, self.leader.link, no_clients, lambda *_: None)
        self.vhosts.begin()
        if is_open:
            self.leader.open()
        self.channel, self._stored = Channel(node.vhost), node.vhost.stored

    def carry_out(self, method: Any) -> None:
        """A client has sent a method."""
        topology_methods.HANDLERS[type(method)](self.channel, method)

    def has_queue(self, properties: QueueProperties, number: int) -> None:
        """The leader's journal has it, instead of one that was; an exclusive one is another connection's."""
        owner = "c/7" if properties.exclusive else ""
        change = queue_change("/", properties, [number], owner=owner)
        self._stored.apply(Change(change.key, None), None)
        self._stored.apply(change, None)

    def has_exchange(self, kind: str) -> None:
        """The leader's journal has the exchange `x`."""
        self._stored.apply(exchange_change("/", Exchange("x", kind, durable=True)), None)

    async def carried_out(self, method: Any) -> None:
        """Carry out a method that the leader is not needed for."""
        self.carry_out(method)
        await self.answered()

    async def answered(self) -> None:
        """The client is told how it went."""
        await wait_for(gather(*self.channel.waits), WAIT_SECONDS)


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("method", BINDINGS[:2], ids=lambda each: str(each.name))
async def test_anothers_exclusive_queue_that_is_not_known_here_is_not_bound(
    node: Node, method: Any, is_open: bool
) -> None:
    front = Front(node, is_open=is_open)
    front.has_exchange("direct")
    front.carry_out(method)
    await settled_down()
    front.has_queue(MINE, 9)
    if not is_open:
        front.leader.open()
    await front.leader.tells_all()
    with pytest.raises(QueueLocked):
        await front.answered()
    assert not front.leader.said()


@pytest.mark.parametrize("method", BINDINGS, ids=lambda each: str(each.name))
async def test_keys_of_a_topic_exchange_that_is_not_known_here_are_checked(
    node: Node, method: Any
) -> None:
    front = Front(node, is_open=True)
    front.has_queue(LASTING, 9)
    front.carry_out(method)
    await settled_down()
    front.has_exchange("topic")
    await front.leader.tells_all()
    with pytest.raises(AccessRefused):
        await front.answered()
    assert not front.leader.said()


@pytest.mark.parametrize("method", BINDINGS[:2], ids=lambda each: str(each.name))
async def test_an_exclusive_queue_that_is_another_one_by_now_is_bound(
    node: Node, method: Any
) -> None:
    front = Front(node, is_open=False)
    front.has_exchange("direct")
    front.has_queue(MINE, 9)
    front.carry_out(method)
    await settled_down()
    front.has_queue(LASTING, 10)
    front.leader.open()
    await front.leader.tells_all()
    front.leader.answers(await front.leader.asked(), 1)
    await front.answered()
    assert len(front.channel.answers) == 1


@pytest.mark.parametrize("method", BINDINGS, ids=lambda each: str(each.name))
@pytest.mark.parametrize("kind", ["direct", "topic"])
async def test_ends_that_are_known_are_checked_without_the_leader(
    node: Node, method: Any, kind: str
) -> None:
    front = Front(node, is_open=True)
    front.has_exchange(kind)
    front.has_queue(LASTING, 9)
    if kind == "direct":
        front.carry_out(method)
        call = await front.leader.asked()
        assert call_of(call)[0].split("_")[0] in method.name.lower()
        front.leader.answers(call, 1)
        await front.answered()
        assert len(front.channel.answers) == 1
    else:
        with pytest.raises(AccessRefused):
            await front.carried_out(method)
        assert not front.leader.said()


@pytest.mark.parametrize("method", BINDINGS[:2], ids=lambda each: str(each.name))
async def test_ends_are_checked_as_they_are_when_this_node_leads(node: Node, method: Any) -> None:
    front = Front(node, is_open=False)
    front.carry_out(method)
    await settled_down()
    front.vhosts.freeze()
    node.vhost.declare_queue(MINE, "another connection")
    front.vhosts.route_here()
    front.vhosts.lead()
    with pytest.raises(QueueLocked):
        await front.answered()
