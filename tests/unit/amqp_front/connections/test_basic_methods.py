"""Methods on queues that this node may not know of yet, as another one leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from pamqp import commands
from support.queue_samples import Node, records
from unit.amqp_front.connections.test_channel_commit import Connection, method
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of, settled_down

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.wire.errors import SoftError
from routelog.amqp_front.wire.refusals import refusal
from routelog.exchanges import QueueNotFound
from routelog.vhosts import AccessRefused, FrontConnections, FrontVhosts, SessionLost
from routelog.vhosts.sessions.session_message import Kind
from routelog.vhosts.vhost.stored_topology import StoredQueue

Basic, Exchange, Queue = commands.Basic, commands.Exchange, commands.Queue
METHODS = {
    Basic.Consume(queue="one", no_ack=True): Basic.ConsumeOk,
    Basic.Get(queue="one"): Basic.GetEmpty,
    Queue.Purge(queue="one"): Queue.PurgeOk,
    Queue.Declare(queue="one", passive=True): Queue.DeclareOk,
}
ANSWERS: dict[str, object] = {"purge": 0, "counts": [0, 0]}


@pytest.mark.parametrize(("asked", "ok"), METHODS.items(), ids=lambda each: str(each.name))
@pytest.mark.parametrize("led", ["here", "elsewhere", "elsewhere without it"])
async def test_a_queue_that_others_were_told_of_is_found_when_the_leader_is(
    node: Node, asked: Any, ok: Any, led: str
) -> None:
    connection, leader, vhost = Connection(node), ScriptedLeader(), node.vhost
    front = FrontVhosts(node.vhosts, leader.link, FrontConnections("b", 1), lambda *why: None)
    front.begin()
    channel = Channel(cast(Any, connection), 1)
    channel.frame(method(asked))
    await connection.rest_over()
    assert connection.written == b""
    if led == "here":
        front.freeze()
        front.route_here()
        front.lead()
    elif led == "elsewhere":
        one = vhost.queues["one"]
        vhost.stored.queues["one"] = StoredQueue(one.properties, [one.number], paused=False)
    if led != "here":
        leader.open()

    async def carried_out() -> None:
        await connection.rest_over()
        while connection.waits:
            for each in leader.said() if leader.sessions else ():
                if each.kind is Kind.CALL:
                    leader.answers(each, ANSWERS.get(call_of(each)[0]))
            await connection.rest_over()

    if led == "elsewhere without it":
        with pytest.raises(QueueNotFound):
            await carried_out()
    else:
        await carried_out()
        assert ok.index.to_bytes(4, "big") in connection.written
    channel.release()


PERMITTED = [
    *METHODS,
    Queue.Declare(queue="new", durable=True),
    Queue.Delete(queue="one"),
    Queue.Bind(queue="one", exchange="amq.direct", routing_key="key"),
    Queue.Unbind(queue="one", exchange="amq.direct", routing_key="key"),
    Exchange.Declare(exchange="new"),
    Exchange.Declare(exchange="amq.direct", passive=True),
    Exchange.Delete(exchange="old"),
    Exchange.Bind(destination="amq.fanout", source="amq.direct", routing_key="key"),
    Exchange.Unbind(destination="amq.fanout", source="amq.direct", routing_key="key"),
]


class Refusing(Connection):
    """A connection that closes the channel of what is refused."""

    def fail(self, error: Exception, *where: Any) -> None:
        """See `ConsumingConnection`."""
        answer = refusal(error)
        assert isinstance(answer, SoftError)
        _, _, channel = where
        channel.refuse(answer, 0, 0)

    def wait_for(
        self, done: Awaitable[object], then: Callable[[], None] = lambda: None, _: Any = None
    ) -> None:
        """See `ChannelConnection`."""
        super().wait_for(done, then)

    def answered(self, method: Any) -> bool:
        """Whether a method is among what was written."""
        return method.index.to_bytes(4, "big") in self.written


class Led:
    """A channel of a node whose leader is the test."""

    def __init__(self, node: Node, connection: Connection | None = None) -> None:
        self.connection, self.leader = connection or Connection(node), ScriptedLeader()
        self.front = FrontVhosts(
            node.vhosts, self.leader.link, FrontConnections("b", 1), lambda *why: None
        )
        self.front.begin()
        one, stored = node.vhost.queues["one"], node.vhost.stored.queues
        stored["one"] = StoredQueue(one.properties, [one.number], paused=False)
        self.leader.open()
        self.channel = Channel(cast(Any, self.connection), 1)

    async def carry_out(self, asked: Any, met: str) -> None:
        """A client sends a method; the session is lost before, or before it is answered."""
        if met == "no leader":
            self.leader.session.lost("another node leads")
        self.channel.frame(method(asked))
        await self.connection.rest_over()
        if met == "its end":
            self.leader.said()
            self.leader.session.lost("another node leads")
            await settled_down()

    async def next_leader_is_asked(self) -> list[str]:
        """What for, beside what it has told others."""
        calls: list[str] = []
        self.leader.open()
        await self.connection.rest_over()
        while self.connection.waits:
            for each in self.leader.said():
                if each.kind is Kind.CALL:
                    name = call_of(each)[0]
                    if name != "carried_out":
                        calls.append(name)
                    self.leader.answers(each, ANSWERS.get(name, 0))
            await self.connection.rest_over()
        return calls

    def lead(self) -> None:
        """The node leads itself."""
        self.front.freeze()
        self.front.route_here()
        self.front.lead()


@pytest.mark.parametrize("met", ["no leader", "its end"])
@pytest.mark.parametrize("asked", PERMITTED, ids=lambda each: str(each.name))
@pytest.mark.parametrize("end", ["permission", "channel", "permission, here"])
async def test_who_may_no_more_behind_a_wait_for_a_leader_is_refused(
    node: Node, asked: Any, met: str, end: str
) -> None:
    led = Led(node)
    await led.carry_out(asked, met)
    if end == "channel":
        led.channel.closing = True  # its user was deleted, and came back
    else:
        led.connection.book.remove(
            "guest", "/"
        )  # this is answered while no leader knows of this node
    once = Basic.Get | Queue.Purge | Exchange.Delete | Queue.Unbind | Exchange.Unbind
    refusal = SessionLost if met == "its end" and isinstance(asked, once) else AccessRefused
    calls: list[str] = []
    if end == "permission, here":
        led.lead()
    try:
        if end == "permission, here":
            await led.connection.rest_over()
        else:
            calls = await led.next_leader_is_asked()
    except refusal:
        pass
    else:
        assert end == "channel"  # there is nobody to tell
    assert calls == []
    assert "one" in node.vhost.queues
    assert node.vhost.queues["one"].consumer_count == 0
    assert led.connection.written == b""


@pytest.mark.parametrize("led_by", ["here", "elsewhere"])
async def test_who_consumed_when_the_leader_was_lost_is_a_consumer_of_the_next_one(
    node: Node, led_by: str
) -> None:
    led = Led(node)
    await led.carry_out(Basic.Consume(queue="one", no_ack=True), "its end")
    if led_by == "here":
        led.lead()
        await led.connection.rest_over()
    else:
        led.leader.session.lost("it, too, before it was asked")
        assert await led.next_leader_is_asked() == ["consume"]
    assert led.connection.written.count(Basic.ConsumeOk.index.to_bytes(4, "big")) == 1
    led.channel.release()


@pytest.mark.parametrize("may", [True, False], ids=["he may", "he may no more"])
@pytest.mark.parametrize(
    ("asked", "ok"),
    [
        (Basic.Consume(queue="one", no_ack=True), Basic.ConsumeOk),
        (Queue.Delete(queue="one", if_unused=True), Queue.DeleteOk),
    ],
    ids=lambda each: str(each.name),
)
async def test_behind_a_wait_for_other_nodes_consumers_a_client_may_what_he_may_then(
    node: Node, asked: Any, ok: Any, may: bool
) -> None:
    connection, one = Refusing(node), node.vhost.queues["one"]
    channel = Channel(cast(Any, connection), 1)
    node.vhosts.await_consumers()  # it has begun to lead
    channel.frame(method(asked))
    await connection.rest_over()
    assert connection.written == b""
    if not may:
        connection.book.remove("guest", "/")
    node.vhosts.consumers_back()
    while connection.waits:
        await connection.go_on()
    assert connection.answered(ok) == may
    assert connection.answered(commands.Channel.Close) == channel.closing == (not may)
    assert one.deleted == (may and ok is Queue.DeleteOk)
    assert one.consumer_count == (may and ok is Basic.ConsumeOk)
    channel.release()


async def test_who_may_no_more_when_the_leader_has_his_consumer_is_refused(node: Node) -> None:
    connection = Refusing(node)
    led = Led(node, connection)
    await led.carry_out(Basic.Consume(queue="one", no_ack=True), "a wait")
    consume = led.leader.said()[-1]
    led.leader.delivers(
        call_of(consume)[1]["consumer"], 0, records("m")
    )  # no_ack: it is his no more
    connection.book.remove("guest", "/")
    led.leader.answers(consume, None)
    assert [call_of(each)[0] for each in led.leader.said()] == ["detach"]
    assert connection.written.startswith(b"\x01\x00\x01")
    assert connection.answered(commands.Channel.Close)
    assert not connection.answered(Basic.ConsumeOk)
    assert not connection.answered(Basic.Deliver)


@pytest.mark.parametrize("met", ["no leader", "a leader"])
@pytest.mark.parametrize("may", [True, False], ids=["he may", "he may no more"])
async def test_a_leader_that_waited_for_consumers_is_asked_again_by_who_still_may(
    node: Node, met: str, may: bool
) -> None:
    led = Led(node)
    await led.carry_out(Queue.Delete(queue="one", if_unused=True), met)
    if met == "no leader":
        led.leader.open()
        await led.leader.tells_all()
    call = await led.leader.asked()
    if not may:
        led.connection.book.remove("guest", "/")
    led.leader.answers(call, SessionLost("queue 'one'", ""))
    await settled_down()
    again = led.leader.said()
    assert [call_of(each)[0] for each in again] == ["delete_queue"] * may
    for each in again:
        led.leader.answers(each, 3)
    if not may:
        with pytest.raises(AccessRefused):
            await led.connection.rest_over()
    await led.connection.rest_over()
    assert (led.connection.written != b"") == may


async def test_who_may_no_more_when_the_consumers_of_a_new_leader_are_back_deletes_nothing(
    node: Node,
) -> None:
    led = Led(node)
    await led.carry_out(Queue.Delete(queue="one", if_unused=True), "no leader")
    node.vhosts.await_consumers()
    led.lead()
    await led.connection.rest_over()
    led.connection.book.remove("guest", "/")
    node.vhosts.consumers_back()
    with pytest.raises(AccessRefused):
        await led.connection.go_on()
    assert "one" in node.vhost.queues
