"""A channel whose tx.commit waits, or that is closed while that, or its tx.rollback, is under way."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pamqp import commands
from support.frame_samples import publish
from support.intake_samples import share
from support.loop_services import scheduler_on
from support.queue_samples import Node, records
from unit.amqp_front.publishing_channel import HastyClock, held, runs
from unit.vhosts.sessions.session_pipe import ScriptedLeader

from routelog.amqp_front.connections.channel import Channel
from routelog.amqp_front.consuming import unacked
from routelog.amqp_front.consuming.unacked import FEW_RUNS
from routelog.amqp_front.wire.command import ACK, REQUEUE, Frame, SettleRun
from routelog.amqp_front.wire.errors import PRECONDITION_FAILED, SoftError
from routelog.broker.node.direct_reply import DirectReplies
from routelog.log_backend import Lane, Progress
from routelog.vhosts import (
    FULL_PERMISSION,
    FrontConnections,
    FrontVhosts,
    PermissionBook,
    PermissionCache,
)
from routelog.vhosts.sessions.session_message import Kind, SessionMessage, batch_pieces
from routelog.vhosts.vhost.stored_topology import StoredQueue


class Connection:
    """What a channel needs of its connection; what it waits for is awaited by hand."""

    user, name = "guest", "a client"
    body_frame_max = 4088
    stalled = cancel_notify = outbox_full = returns_refused = False
    consumers = 0
    socket = None

    def __init__(self, node: Node) -> None:
        loop = asyncio.get_running_loop()
        self.vhost = node.vhost
        self.intake = share()
        self.services: Any = SimpleNamespace(
            progress=Progress(loop.call_soon, float),
            in_time=lambda done: done,
            clock=HastyClock(),
            replies=DirectReplies(),
            settlings=deque(),
            publish_rates=SimpleNamespace(are_set=False),
            loop=loop,
            scheduler=scheduler_on(loop, HastyClock()),
        )
        self.book = PermissionBook()
        self.book.put(self.user, node.vhost.name, FULL_PERMISSION)
        self.permissions = PermissionCache(self.book, self.user, node.vhost.name)
        self.written = b""
        self.waits: list[tuple[Awaitable[object], Callable[[], None]]] = []

    def write(self, frames: bytes) -> None:
        """See `ChannelConnection`."""
        self.written += frames

    def write_parts(self, parts: Any) -> None:
        """See `ChannelConnection`."""
        self.written += b"".join(parts)

    def wait_for(self, done: Awaitable[object], then: Callable[[], None], _: Any = None) -> None:
        """See `ChannelConnection`."""
        self.waits.append((done, then))

    def fail(self, error: Exception, *where: object) -> None:
        """See `ConsumingConnection`."""
        raise error

    def rest(self, then: Callable[[], None]) -> None:
        """See `ChannelConnection`."""
        turn = asyncio.get_running_loop().create_future()
        self.services.scheduler.call(Lane.CLIENTS, lambda: turn.set_result(None))
        self.wait_for(turn, then)

    async def rest_over(self) -> None:
        """Let it go on as far as it does without an answer of somebody else."""
        while self.waits:
            done, then = self.waits[0]
            answer = asyncio.ensure_future(done)
            for _ in range(9):
                await asyncio.sleep(0)
            if not answer.done():
                self.waits[0] = answer, then
                return
            await self.go_on()

    async def go_on(self) -> None:
        """Await what was waited for first."""
        done, then = self.waits.pop(0)
        async with asyncio.timeout(60):
            await done
        then()


def method(kind: Any) -> Frame:
    """A method's frame."""
    return Frame(1, 1, kind.index.to_bytes(4, "big") + kind.marshal())


@pytest.fixture
async def connection(node: Node) -> Connection:
    return Connection(node)


@pytest.fixture
async def channel(node: Node, connection: Connection) -> Channel:
    """A channel in the midst of a commit, which settles a message and publishes another one."""
    channel = Channel(cast(Any, connection), 1)
    node.vhost.queues["two"].publish(records("taken"), False)
    channel.frame(method(commands.Tx.Select()))
    channel.frame(method(commands.Basic.Get(queue="two")))
    channel.settle(SettleRun(1, ACK, 1, 1, False))
    for run in runs(publish(1, "", "one", b"m")):
        channel.publish(run)
    connection.written = b""
    channel.frame(method(commands.Tx.Commit()))
    assert len(connection.waits) == 1
    return channel


COMMIT_OK = b"\x00\x5a\x00\x15"
ROLLBACK_OK = b"\x00\x5a\x00\x1f"


@pytest.fixture
async def front(node: Node, leader: ScriptedLeader) -> FrontVhosts:
    """What `node` has, led by `leader`."""
    one = node.vhost.queues["one"]
    no_clients = FrontConnections("front", 1)
    front = FrontVhosts(node.vhosts, leader.link, no_clients, lambda connections, reason: None)
    node.vhost.stored.queues["one"] = StoredQueue(one.properties, [one.number], paused=False)
    front.begin()
    return front


@pytest.fixture
def leader() -> ScriptedLeader:
    return ScriptedLeader()


async def answered(connection: Connection, leader: ScriptedLeader, ok: bytes) -> list[Kind]:
    """Let the leader answer with nothing until the client is told; returns what it was sent."""
    sent: list[Kind] = []
    await connection.rest_over()
    while ok not in connection.written:
        for each in leader.said() if leader.sessions else ():
            sent.append(each.kind)
            if each.kind in (Kind.CALL, Kind.TRANSACTION):
                leader.answers(each, None)
        await connection.rest_over()
    return sent


@pytest.mark.parametrize("led", ["here", "elsewhere"])
async def test_without_a_leader_it_waits_and_is_carried_out_by_the_next_one(
    node: Node, connection: Connection, front: FrontVhosts, leader: ScriptedLeader, led: str
) -> None:
    channel = Channel(cast(Any, connection), 1)
    channel.frame(method(commands.Tx.Select()))
    for run in runs(publish(1, "", "one", b"m")):
        channel.publish(run)
    channel.frame(method(commands.Tx.Commit()))
    await connection.rest_over()
    if led == "here":
        front.freeze()
        front.route_here()
        front.lead()
    else:
        leader.open()
    await answered(connection, leader, COMMIT_OK)
    assert held(node, "one") == ["m"] * (led == "here")
    channel.release()


@pytest.mark.usefixtures("front")
async def test_the_leader_has_what_it_returns_when_it_is_answered(
    connection: Connection, leader: ScriptedLeader
) -> None:
    leader.open()
    channel = Channel(cast(Any, connection), 1)
    channel.frame(method(commands.Tx.Select()))
    channel.frame(method(commands.Basic.Get(queue="one")))
    content = b"".join(batch_pieces(SessionMessage(Kind.PUBLISH), records("m"))[2:])
    got = {"ready": 0, "partition": 0, "offset": 0, "redelivered": False, "count": 0}
    leader.answers(leader.said()[-1], got | {"batch": content})
    await connection.rest_over()
    channel.settle(SettleRun(1, REQUEUE, 1, 1, False))
    channel.frame(method(commands.Tx.Commit()))
    assert Kind.RETURN in await answered(connection, leader, COMMIT_OK)
    channel.release()


async def test_it_is_answered_in_a_later_turn(
    node: Node, connection: Connection, channel: Channel
) -> None:
    assert connection.written == b""
    while connection.waits:
        await connection.go_on()
    assert COMMIT_OK in connection.written
    channel.release()
    assert (held(node, "one"), held(node, "two")) == (["m"], [])


@pytest.mark.parametrize("side", ["broker", "connection"])
async def test_a_channel_closed_meanwhile_commits_nothing_and_returns_what_it_held(
    node: Node, connection: Connection, channel: Channel, side: str
) -> None:
    if side == "broker":
        channel.refuse(SoftError(PRECONDITION_FAILED, "for another reason"), 60, 20)
    else:
        channel.release()
        channel.end()
    await connection.go_on()
    assert connection.waits == []
    assert COMMIT_OK not in connection.written
    assert (held(node, "one"), held(node, "two")) == ([], ["taken"])


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_rollback_in_many_turns_is_over_when_its_channel_is_closed(
    node: Node, connection: Connection, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(unacked, "SORTED_AT_ONCE_MAX", 1)
    channel = Channel(cast(Any, connection), 1)
    bodies = [f"m{at}" for at in range(3 * FEW_RUNS)]
    node.vhost.queues["two"].publish(records(*bodies), False)
    channel.frame(method(commands.Tx.Select()))
    for _ in bodies:
        channel.frame(method(commands.Basic.Get(queue="two")))
    for tag in range(1, len(bodies), 2):
        channel.settle(SettleRun(1, ACK, tag, tag, False))
    connection.written = b""
    channel.frame(method(commands.Tx.Rollback()))
    assert connection.written == b""
    for _ in range(turns):
        await asyncio.sleep(0)
    released = channel.release()
    assert released is not None
    await released
    assert held(node, "two") == bodies
    await connection.go_on()
    assert ROLLBACK_OK in connection.written


async def test_what_a_transaction_had_taken_comes_back_in_its_place_when_its_channel_is_closed(
    node: Node, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacked, "SORTED_AT_ONCE_MAX", 1)
    channel = Channel(cast(Any, connection), 1)
    bodies = [f"m{at}" for at in range(3 * FEW_RUNS)]
    node.vhost.queues["two"].publish(records(*bodies), False)
    channel.frame(method(commands.Tx.Select()))
    for _ in bodies:
        channel.frame(method(commands.Basic.Get(queue="two")))
    for tag in range(len(bodies) - 1, 0, -2):
        channel.settle(SettleRun(1, ACK, tag, tag, False))
    released = channel.release()
    assert released is not None
    await released
    assert held(node, "two") == bodies
    assert node.vhost.queues["two"].partitions[0].returned == []
