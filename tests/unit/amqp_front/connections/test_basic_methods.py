"""Methods on queues that this node may not know of yet, as another one leads."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pamqp import commands
from support.queue_samples import Node
from unit.amqp_front.connections.test_channel_commit import Connection, method
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of

from routelog.amqp_front.connections.channel import Channel
from routelog.exchanges import QueueNotFound
from routelog.vhosts import FrontConnections, FrontVhosts
from routelog.vhosts.sessions.session_message import Kind
from routelog.vhosts.vhost.stored_topology import StoredQueue

Basic, Queue = commands.Basic, commands.Queue
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
