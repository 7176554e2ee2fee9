"""A node that does not lead: when its sessions may be used, and when its publishers wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.queue_samples import records, running_node
from support.waiting import WAIT_SECONDS, until
from unit.broker.sessions.leading_nodes import Cluster

from routelog.broker.loop.cork import Cork
from routelog.broker.node.direct_reply import DirectReplies, node_token
from routelog.broker.sessions.front_node import FrontHost, FrontNode
from routelog.broker.waiting.gate import Gate
from routelog.log_backend import Clock, Histogram, JournalFailed, Records, SystemClock
from routelog.vhosts import (
    CountOf,
    NodeAnswer,
    QueueProperties,
    SessionLost,
    SharedCounts,
    value_of,
)
from routelog.vhosts.sessions.session_message import Kind, SessionMessage, message_pieces
from routelog.vhosts.vhost.stored_topology import StoredQueue


class Storage:
    """A journal whose blocks are applied when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.position = 0

    def when_applied(self, position: int, done: Callable[[], None]) -> None:
        """See `JournalStorage`."""
        self.waiting.append((position, done))
        self.apply(self.position)

    def apply(self, position: int) -> None:
        """Blocks up to a position are applied."""
        self.position = position
        due = [done for wanted, done in self.waiting if wanted <= position]
        self.waiting = [each for each in self.waiting if each[0] > position]
        for done in due:
            done()


class FollowingCluster(Cluster):
    """A cluster as a node sees it that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.storage: Any = Storage()
        self.ready: list[bool] = []
        self.replies: list[tuple[bytes, bytes]] = []
        self.own = SharedCounts()  # of the front
        self.firehoses: list[Sequence[str]] = []
        self.latencies = Histogram()  # of the front's confirms

    async def answer(self, question: bytes) -> AsyncGenerator[bytes, None]:
        """What the front says when it is asked."""
        yield question.upper()


@asynccontextmanager
async def following(
    tmp_path: Path, *queues: str, clock: Clock | None = None
) -> AsyncIterator[tuple[FollowingCluster, FrontNode, Gate]]:
    """A node whose leader is the test, and what it opens when it leads."""
    loop, cluster = asyncio.get_running_loop(), FollowingCluster()
    gate = Gate(loop)
    async with running_node(tmp_path) as node:
        vhost = node.vhosts.get("/")
        for name in queues:
            queue = vhost.declare_queue(properties := QueueProperties(name, durable=True), None)
            opened = await queue if asyncio.isfuture(queue) else queue
            vhost.stored.queues[name] = StoredQueue(properties, [opened.number], False)
        front_host = FrontHost(
            name="front",
            process=1,
            lease_seconds=60.0,
            confirm_seconds=60.0,
            vhosts=node.vhosts,
            clock=clock or SystemClock(),
            cork=Cork(),
            gate=gate,
            close=lambda connections, reason: None,
            serve=lambda serves: cluster.ready.append(serves and front.session.is_open),
            deliver_reply=lambda address, records: cluster.replies.append(
                (address, records.body(0))
            ),
            answer=cluster.answer,
            counts=cluster.own,
            trace=cluster.firehoses.append,
            latencies=cluster.latencies,
        )
        front = FrontNode(front_host, cluster)
        front.begin()
        yield cluster, front, gate
        await front.aclose("the test is over")
        for host in cluster.hosts.values():
            host.close_all("the test is over")


async def test_a_session_is_used_when_its_leaders_definitions_are_known(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.gate(40)  # of a change before it comes
        cluster.lead(leader)
        await until(lambda: cluster.storage.waiting)
        assert not front.session.is_open
        cluster.storage.apply(39)
        assert not front.session.is_open
        assert not cluster.ready
        cluster.storage.apply(40)
        assert front.session.is_open
        assert front.session.leader == "n1"  # for errors
        assert cluster.ready == [True]


async def test_confirms_of_all_sessions_are_measured_together(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        cluster.lead(cluster.host(1))
        await until(lambda: front.session.is_open)
        first = front.session
        cluster.lead(None)
        await until(lambda: front.session is not first)
        assert first.progress.latencies is front.session.progress.latencies is cluster.latencies


async def test_clients_are_let_in_while_there_was_a_session_lately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.broker.sessions.front_node.SEEKING_SECONDS_MAX", 0.05)
    async with following(tmp_path) as (cluster, _, _gate):
        await until(lambda: cluster.ready)
        assert not any(cluster.ready)
        cluster.lead(cluster.host(1))
        await until(lambda: cluster.ready[-1])
        cluster.lead(None)
        assert cluster.ready[-1]
        await until(lambda: not cluster.ready[-1])


async def test_who_waits_for_a_leader_waits_for_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.broker.sessions.front_node.SEEKING_SECONDS_MAX", 0.05)
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.gate(40)  # what is never known here
        cluster.lead(leader)
        first = front.session
        await until(lambda: first.is_lost)
        assert not front.session.is_lost


async def test_a_session_opens_however_long_its_definitions_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routelog.broker.sessions.front_node.SEEKING_SECONDS_MAX", 0.05)
    async with following(tmp_path) as (cluster, front, _):
        front._apply_seconds = 0.01
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.gate(40)
        cluster.hosts[leader].barrier.expect(["front"], 40)  # it asks at once
        cluster.lead(leader)
        await until(lambda: cluster.storage.waiting)
        for _ in range(3):  # those who wait are refused, and the session is made all the same
            waiting = front.ask_whether_open(b"there")
            with pytest.raises(SessionLost):
                await value_of(waiting)
        cluster.counts.add(CountOf.USER_CONNECTIONS, "ann", 1)
        cluster.hosts[leader].tell_counts()
        await until(lambda: cluster.own.all(CountOf.USER_CONNECTIONS, "ann"))
        front._apply_seconds = 60.0
        cluster.hosts[leader].barrier.gate(41)
        await until(lambda: len(cluster.storage.waiting) == 2)
        cluster.storage.apply(41)
        assert front.session.is_open
        assert cluster.attempts == 1
        assert await cluster.hosts[leader].ask(b"who") == {"front": NodeAnswer([b"WHO"])}
        await until(lambda: cluster.hosted[0].messages)
        assert [(each.kind, each.number) for each in cluster.hosted[0].messages] == [
            (Kind.APPLIED, 40),
            (Kind.APPLIED, 41),
        ]


async def test_what_waits_goes_to_the_first_leader_whose_session_is_used(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        waiting = front.ask_whether_open(b"there")
        first, second = cluster.host(1), cluster.host(2)
        cluster.hosts[first].barrier.gate(40)
        cluster.hosts[second].barrier.gate(80)
        cluster.lead(first)
        await until(lambda: cluster.storage.waiting)
        cluster.lead(second)
        await until(lambda: len(cluster.storage.waiting) == 2)
        cluster.storage.apply(40)  # for which the leader of before was waited for
        assert not front.session.is_open
        cluster.storage.apply(80)
        assert (front.session.is_open, front.session.epoch) == (True, 2)
        await until(lambda: cluster.hosted[1].messages)
        (call,) = cluster.hosted[1].messages
        cluster.hosted[1].write(
            message_pieces(SessionMessage(Kind.ANSWER, number=call.number, content=b"\xc3"))
        )
        assert await value_of(waiting)
        assert not cluster.hosted[0].messages


async def test_the_leader_hears_when_a_change_is_known_here(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        gate = cluster.hosts[leader].barrier.gate(7)
        assert gate is not None
        await until(lambda: cluster.storage.waiting)
        cluster.storage.apply(7)
        await until(lambda: cluster.hosted[0].messages)
        assert [(each.kind, each.number) for each in cluster.hosted[0].messages] == [
            (Kind.APPLIED, 7)
        ]


async def test_a_leader_asks_a_front_about_its_clients(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        hosts = cluster.hosts[leader]
        assert await hosts.ask(b"who") == {}
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        assert await hosts.ask(b"who") == {"front": NodeAnswer([b"WHO"])}
        asked = asyncio.ensure_future(hosts.ask(b"again"))
        await asyncio.sleep(0)
        cluster.lead(None)
        assert await asked == {"front": None}
        await until(lambda: not hosts._sockets)
        assert await hosts.ask(b"nobody") == {"front": None}, "it may have clients"


async def test_both_know_how_many_clients_the_other_has(tmp_path: Path) -> None:
    connections = CountOf.USER_CONNECTIONS, "ann"
    async with following(tmp_path) as (cluster, front, _):
        cluster.own.add(*connections, 2)
        leader = cluster.host(1)
        cluster.counts.add(*connections, 1)
        front.tell_counts()  # to nobody
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        await until(lambda: cluster.counts.all(*connections) == 3)
        await until(lambda: cluster.own.all(*connections) == 3)
        cluster.own.add(*connections, 1)
        front.tell_counts()
        await until(lambda: cluster.counts.all(*connections) == 4)
        cluster.counts.add(*connections, -1)
        cluster.hosts[leader].tell_counts()
        await until(lambda: cluster.own.all(*connections) == 3)
        cluster.lead(None)
        await until(lambda: cluster.counts.all(*connections) == 0)


async def test_a_front_hears_where_messages_are_copied(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        cluster.traced = ["/"]
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        assert cluster.firehoses == [["/"]]
        cluster.traced = []
        cluster.hosts[leader].tell_traced()
        await until(lambda: len(cluster.firehoses) == 2)
        assert cluster.firehoses[-1] == []


async def test_messages_are_copied_in_vhosts_that_come_before_the_session_opens(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as (cluster, front, gate):
        cluster.traced = ["later"]
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.expect([], 5)
        cluster.lead(leader)
        await until(lambda: cluster.storage.waiting)
        told = SessionMessage(Kind.PRESSURE, content=msgspec.msgpack.encode(["disk"]))
        cluster.hosted[0].write(message_pieces(told))
        await until(lambda: "disk" in gate.reasons)  # it has read what was sent before
        assert cluster.firehoses == []
        cluster.storage.apply(5)
        assert front.session.is_open
        assert cluster.firehoses == [["later"]]


async def test_what_a_lost_session_was_asked_does_not_end_the_next_one(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        asked = front.session
        cluster.hosts[leader].barrier.gate(7)
        await until(lambda: cluster.storage.waiting)
        cluster.lead(None)
        assert asked.is_lost
        cluster.lead(cluster.host(2))
        await until(lambda: front.session.is_open)
        front._too_late(asked)
        assert front.session.is_open
        assert not cluster.hosted[1].is_closed


async def test_a_node_whose_definitions_are_late_does_not_route(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        front._apply_seconds = 0.01
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        session = front.session
        cluster.hosts[leader].barrier.gate(7)
        await until(lambda: session.is_lost)
        await until(lambda: cluster.hosted[0].is_closed)


async def test_direct_replies_go_from_node_to_node(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        host = cluster.hosts[leader]
        token = node_token("front")
        assert not host.takes_replies(token)
        host.send_reply(token, b"address", records("nobody is there"))
        cluster.lead(leader)
        await until(lambda: front.session.is_open)
        assert front.takes_replies(token)
        assert host.takes_replies(token)
        address = DirectReplies("front").open(Asker()).encode()
        assert host.ask_whether_open(address)
        assert not host.ask_whether_open(DirectReplies("other").open(Asker()).encode())
        host.send_reply(token, address, records("answer"))
        await until(lambda: cluster.replies)
        assert cluster.replies == [(address, b"answer")]
        front.send_reply(node_token("other"), b"there", records("asked"))
        asked = front.ask_whether_open(b"there")
        await until(lambda: len(cluster.hosted[0].messages) == 2)
        reply, call = cluster.hosted[0].messages
        assert (reply.kind, bytes(reply.content[:5])) == (Kind.REPLY, b"there")
        assert msgspec.msgpack.decode(call.content) == ["is_reply_open", b"there"]
        cluster.lead(None)
        with pytest.raises(SessionLost):
            await value_of(asked)
        await until(lambda: not host.has_session("front"))
        host.barrier.gone("front")
        assert not host.takes_replies(token)


class Asker:
    """Waits for replies."""

    def reply(self, records: Records) -> None:
        """See `ReplyConsumer`."""


def is_as_told(gate: Gate, reasons: set[str]) -> bool:
    """Whether publishers wait for these reasons."""
    return gate.reasons == reasons


async def test_publishers_wait_as_the_leaders_do(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, gate):
        cluster.lead(cluster.host(1))
        await until(lambda: front.session.is_open)
        for reasons in ({"disk"}, set[str]()):
            content = msgspec.msgpack.encode([*reasons])
            message = SessionMessage(Kind.PRESSURE, content=content)
            cluster.hosted[0].write(message_pieces(message))
            await until(partial(is_as_told, gate, reasons))
        front.session.on_window(True)
        assert gate.reasons == {"journal"}
        front.session.on_window(False)
        assert not gate.closed


async def test_nothing_is_routed_without_a_session(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, _, gate):
        assert gate.closed
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.gate(40)
        cluster.lead(leader)
        await until(lambda: cluster.storage.waiting)
        assert gate.closed  # what is known here is older than what others were answered
        cluster.storage.apply(40)
        await until(lambda: not gate.closed)
        cluster.lead(None)
        assert gate.closed


class LateClock(SystemClock):
    """A clock of a process that stands still for a while."""

    late = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return super().monotonic() + self.late


async def test_a_process_that_stood_still_routes_when_its_leader_has_answered(
    tmp_path: Path,
) -> None:
    clock = LateClock()
    async with following(tmp_path, clock=clock) as (cluster, front, gate):
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: not gate.closed)
        assert clock.monotonic() < gate.lapses_at
        clock.late = 60.0
        assert clock.monotonic() >= gate.lapses_at
        gate.lapse()
        assert gate.closed
        beat(front)
        await until(lambda: not gate.closed)


async def test_a_leader_that_is_not_sure_itself_tells_how_old_its_knowledge_is(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as (cluster, front, gate):
        leader = cluster.host(1)
        cluster.age = 20.0
        cluster.lead(leader)
        await until(lambda: not gate.closed)
        aged = gate.lapses_at
        cluster.age = 0.0
        beat(front)
        await until(lambda: gate.lapses_at > aged + 15.0)
        cluster.age = 20.0  # what was known before is known
        before = gate.lapses_at
        beat(front)
        await until(lambda: front._seeker._socket is not None)
        assert gate.lapses_at >= before


async def test_beats_do_not_count_behind_a_change_that_is_not_known_here(tmp_path: Path) -> None:
    clock = LateClock()
    async with following(tmp_path, clock=clock) as (cluster, front, gate):
        leader = cluster.host(1)
        cluster.lead(leader)
        await until(lambda: not gate.closed)
        before, beaten = gate.lapses_at, front._beaten_at
        cluster.hosts[leader].barrier.gate(7)
        await until(lambda: cluster.storage.waiting)
        clock.late = 10.0
        beat(front)
        await until(lambda: front._beaten_at > beaten + 9.0)
        assert gate.lapses_at == before
        cluster.storage.apply(7)
        assert gate.lapses_at > before


def beat(front: FrontNode) -> None:
    """Send a beat, before its time."""
    socket = front._seeker._socket
    assert socket is not None
    socket._send_beat()


async def test_a_session_that_opens_too_late_is_followed_by_another_one(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, _):
        leader = cluster.host(1)
        cluster.hosts[leader].barrier.gate(40)
        cluster.lead(leader)
        await until(lambda: cluster.storage.waiting)
        front._look(front.session)
        cluster.storage.apply(40)
        await until(lambda: front.session.is_open)


async def test_a_node_that_leads_seeks_nobody(tmp_path: Path) -> None:
    async with following(tmp_path) as (cluster, front, gate):
        cluster.lead(cluster.host(1))
        await until(lambda: front.session.is_open)
        session = front.session
        await front.end()
        assert gate.closed
        front.hand_over(frozenset({"disk"}))
        assert session.is_lost
        assert gate.reasons == {"disk"}  # of this node


async def test_a_declaration_that_meets_the_change_of_leader_is_carried_out_here(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as (cluster, front, _):
        cluster.lead(cluster.host(1))
        await until(lambda: front.session.is_open)
        vhost = front._vhosts._vhosts.get("/")
        properties = QueueProperties("early", durable=True)
        early = vhost.definitions.declare_queue_of(properties, None)
        await until(lambda: cluster.hosted[0].messages)
        await front.end()
        properties = QueueProperties("late", durable=True)
        late = vhost.definitions.declare_queue_of(properties, None)
        await asyncio.sleep(0)
        front.hand_over(frozenset())
        async with asyncio.timeout(WAIT_SECONDS):
            for name, declared in (("early", early), ("late", late)):
                assert await value_of(declared) == (0, 0)
                assert name in vhost.queues


async def test_what_comes_by_a_handle_of_before_is_refused(tmp_path: Path) -> None:
    async with following(tmp_path, "q") as (_, front, _):
        handle: Any = front._vhosts._vhosts.get("/").targets.named("q")
        await front.end()
        front.hand_over(frozenset())
        with pytest.raises(JournalFailed):
            handle.publish(records("late"), True)
        async with asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(SessionLost):
                await handle.counts()
