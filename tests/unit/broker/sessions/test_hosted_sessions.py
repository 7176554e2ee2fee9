"""The sessions that a leader takes: one of each node at a time, and the next one when that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.queue_samples import records
from support.waiting import until
from unit.broker.sessions.leading_nodes import LEASE_SECONDS, Cluster
from unit.passing_time import take_turns

from routelog.broker.node.direct_reply import ADDRESS_PREFIX, node_token
from routelog.broker.sessions.hosted_sessions import LATE_BYTES_MAX
from routelog.mirror_cluster import LeadingNode


class Peer(asyncio.Protocol):
    """A node's end of a connection."""

    def __init__(self) -> None:
        self.received = b""
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed."""
        self.is_lost = True


async def connected(cluster: Cluster, leader: LeadingNode, node: str = "front") -> Peer:
    """A node connects with the leader."""
    peer = Peer()

    def take(transport: asyncio.Transport, unread: bytes) -> None:
        transport.set_protocol(peer)
        transport.resume_reading()

    await cluster.connect_session(leader, take, node)
    return peer


async def test_a_session_begins_when_the_one_before_is_over() -> None:
    cluster = Cluster()
    leader = cluster.host(1)
    first = await connected(cluster, leader)
    await until(lambda: first.received)
    assert cluster.hosts[leader].has_session("front")
    assert not cluster.hosts[leader].has_session("another")
    (before,) = cluster.hosted
    before.ends_at_once = False
    second = await connected(cluster, leader)
    assert before.is_closed
    await until(lambda: first.is_lost)
    assert cluster.hosted == [before]
    before.ended.set_result(None)
    await until(lambda: second.received)
    cluster.hosts[leader].close_all("the test is over")


async def test_a_node_that_waits_for_its_session_gets_none_of_who_leads_no_more() -> None:
    cluster = Cluster()
    leader = cluster.host(1)
    await connected(cluster, leader)
    (before,) = cluster.hosted
    before.ends_at_once = False
    second = await connected(cluster, leader)
    cluster.hosts[leader].close_all("another node leads")
    before.ended.set_result(None)
    await until(lambda: second.is_lost)
    assert cluster.hosted == [before]


async def test_a_session_may_end_as_it_is_told_to_wait() -> None:
    cluster = Cluster()
    leader = cluster.host(1)
    await connected(cluster, leader, "a")
    await connected(cluster, leader, "b")
    first, second = cluster.hosted
    first.pressed = lambda reasons: first.on_failed("it does not read")  # type: ignore[method-assign]
    cluster.hosts[leader].pressed({"disk"})
    assert first.is_closed
    assert second.reasons == ["disk"]
    cluster.hosts[leader].close_all("the test is over")


async def test_who_stops_waits_for_the_fronts_to_end_but_not_for_ever() -> None:
    cluster = Cluster()
    leader = cluster.host(1)
    host = cluster.hosts[leader]
    await host.until_ended(LEASE_SECONDS)
    for front in ("a", "b"):
        await connected(cluster, leader, front)
    await host.until_ended(0.001)
    assert not any(each.is_closed for each in cluster.hosted)
    waiting = asyncio.create_task(host.until_ended(LEASE_SECONDS))
    cluster.hosted[0].on_failed("it ends")
    await take_turns()
    assert not waiting.done()
    cluster.hosted[1].on_failed("it ends")
    await waiting


async def test_replies_wait_for_a_node_that_has_not_met_its_new_leader_yet() -> None:
    cluster, token = Cluster(), node_token("front")
    leader = cluster.host(1)
    host = cluster.hosts[leader]
    host.barrier.expect(["front", "dead"], 0)
    reply = records("an answer")
    address = ADDRESS_PREFIX + token + b"x" * 22 + b"." + b"y" * 22 + b"=="
    assert host.takes_replies(token)
    assert host.ask_whether_open(address)
    host.send_reply(token, address, reply)
    host.send_reply(node_token("dead"), b"there", reply)
    peer = await connected(cluster, leader)
    await until(lambda: b"an answer" in peer.received)
    assert address in peer.received
    host.barrier.gone("dead")
    assert not host.takes_replies(node_token("dead"))
    host.barrier.expect(["another"], 0)
    host.send_reply(node_token("another"), b"there", reply)
    large = records("x" * LATE_BYTES_MAX)
    host.send_reply(node_token("another"), b"there", large)
    assert host._late == {node_token("another"): [(b"there", reply)]}
    host.close_all("the test is over")


class Feed:
    """Tells a session of the definitions when the test says so."""

    told: Callable[[], None]

    def begin(self, session: object, write: object, unsent: object, told: Any, _: object) -> None:
        """See `DefinitionFeed`."""
        self.told = told

    def end(self, session: object) -> None:
        """See `DefinitionFeed`."""


async def test_changes_wait_for_a_front_that_is_fed_when_it_has_been_told_of_all() -> None:
    cluster, feed = Cluster(), Feed()
    leader = cluster.host(1, feed)
    barrier = cluster.hosts[leader].barrier
    first = await connected(cluster, leader)
    await until(lambda: first.received)
    assert barrier.gate(1) is None
    feed.told()
    assert barrier.gate(1) is None
    assert barrier.gate(2) is not None
    cluster.hosts[leader].close_all("the test is over")
    feed.told()
