"""Methods on queues that this node may not know of yet, as another one leads."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pamqp import commands
from support.queue_samples import Node
from unit.amqp_front.connections.test_channel_commit import Connection, method
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of, settled_down

from routelog.amqp_front.connections.channel import Channel
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


class Led:
    """A channel of a node whose leader is the test."""

    def __init__(self, node: Node) -> None:
        self.connection, self.leader = Connection(node), ScriptedLeader()
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
