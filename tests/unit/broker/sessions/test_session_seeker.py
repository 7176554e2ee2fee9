"""A front finds the leader, has one session with it, and another one when that ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.waiting import WAIT_SECONDS, until
from unit.broker.sessions.leading_nodes import LEASE_SECONDS, Cluster, octets
from unit.passing_time import pass_time

from routelog.broker.sessions.session_seeker import (
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    SessionSeeker,
    Write,
)
from routelog.mirror_cluster import LeadingNode
from routelog.vhosts.sessions.session_message import Kind, SessionMessage, message_pieces


class Front:
    """The front's end of one session after the other."""

    def __init__(self) -> None:
        self.write: Write | None = None
        self.epochs: list[int] = []
        self.losses: list[str] = []
        self.messages: list[SessionMessage] = []

    def opened(self, write: Write, epoch: int, position: int) -> "Front":
        self.write = write
        self.epochs.append(epoch)
        return self

    def received(self, message: SessionMessage) -> None:
        self.messages.append(message)

    def lost(self, reason: str) -> None:
        self.write = None
        self.losses.append(reason)


@asynccontextmanager
async def seeking() -> AsyncIterator[tuple[Cluster, Front]]:
    cluster, front = Cluster(), Front()
    seeker = SessionSeeker(cluster, LEASE_SECONDS, front.opened, front.lost)
    seeker.begin()
    yield cluster, front
    await seeker.aclose("the test is over")
    for host in cluster.hosts.values():
        host.close_all("the test is over")


async def test_a_session_opens_with_the_leaders_epoch_and_carries_messages_both_ways() -> None:
    async with seeking() as (cluster, front):
        cluster.lead(cluster.host(7))
        await until(lambda: front.write)
        assert front.epochs == [7]
        (hosted,) = cluster.hosted
        assert front.write is not None
        front.write(octets(Kind.APPLIED, 3))
        hosted.write(octets(Kind.APPLY, 4))
        await until(lambda: hosted.messages)
        await until(lambda: front.messages and front.messages[-1].kind is Kind.APPLY)
        assert [each.number for each in hosted.messages] == [3]
        assert [each.number for each in front.messages if each.kind is Kind.APPLY] == [4]


async def test_another_leader_gets_another_session() -> None:
    async with seeking() as (cluster, front):
        cluster.lead(cluster.host(1))
        await until(lambda: front.write)
        cluster.lead(None)
        assert front.losses == ["another node leads"]
        await until(lambda: cluster.hosted[0].is_closed)
        cluster.lead(cluster.host(2))
        await until(lambda: front.write)
        assert front.epochs == [1, 2]


async def test_a_leader_that_cannot_be_reached_is_tried_again() -> None:
    async with seeking() as (cluster, front):
        node = LeadingNode("n3", 3)
        cluster.lead(node)
        await until(lambda: cluster.refusals >= 2)
        cluster.host(3)
        await until(lambda: front.write)


async def test_an_error_of_ours_ends_one_session_and_not_the_seeking(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with seeking() as (cluster, front):
        cluster.faults.append(RuntimeError("what nobody has thought of"))
        cluster.lead(cluster.host(1))
        await until(lambda: front.write)
    (told,) = [each for each in caplog.records if each.exc_info]
    assert "no session with node n1" in told.message


async def test_a_session_that_ends_at_the_leader_is_lost_and_begun_anew() -> None:
    async with seeking() as (cluster, front):
        node = cluster.host(1)
        cluster.lead(node)
        await until(lambda: front.write)
        cluster.hosted[0].on_failed("enough")
        assert cluster.hosted[0].is_closed
        await until(lambda: front.epochs == [1, 1])
        assert front.losses == ["the connection with node n1 has ended"]
        assert [each.is_closed for each in cluster.hosted] == [True, False]


async def test_a_session_that_is_closed_while_it_connects_is_not_begun() -> None:
    async with seeking() as (cluster, front):
        reached, cluster.holds = asyncio.Event(), asyncio.Event()
        cluster.on_reached = reached.set
        cluster.lead(cluster.host(1))
        await asyncio.wait_for(reached.wait(), WAIT_SECONDS)
        cluster.lead(None)
        cluster.holds.set()
        await until(lambda: cluster.hosted and cluster.hosted[0].is_closed)
        assert not front.epochs
        assert not front.losses


async def test_sessions_that_end_at_once_are_begun_more_and_more_rarely() -> None:
    async def begun() -> float:
        await until(lambda: front.write)
        return asyncio.get_running_loop().time()

    async def end() -> None:
        cluster.hosted[-1].on_failed("enough")
        await until(lambda: front.write is None)

    async with seeking() as (cluster, front):
        cluster.lead(cluster.host(1))
        pause = PAUSE_SECONDS_MIN
        while pause < PAUSE_SECONDS_MAX:
            opened_at = await begun()
            await end()
            assert await begun() - opened_at > 0.9 * pause
            pause *= 2
        await pass_time(PAUSE_SECONDS_MAX)
        attempts = cluster.attempts
        await end()
        await pass_time(PAUSE_SECONDS_MIN)
        assert cluster.attempts == attempts + 1
        await begun()


async def test_a_node_has_one_session_the_newest() -> None:
    async with seeking() as (cluster, front):
        node = cluster.host(1)
        cluster.lead(node)
        await until(lambda: front.write)
        ignored: list[asyncio.Transport] = []
        await cluster.connect_session(node, lambda transport, _: ignored.append(transport))
        assert cluster.hosted[0].is_closed
        await until(lambda: front.losses)
        ignored[0].abort()


async def test_a_leader_hears_when_a_front_reads_again() -> None:
    async with seeking() as (cluster, front):
        cluster.lead(cluster.host(1))
        await until(lambda: front.write)
        (hosted,) = cluster.hosted
        large = SessionMessage(Kind.APPLY, content=bytes(1 << 22))
        hosted.write(message_pieces(large))
        await until(lambda: front.messages and hosted.has_drained)
        assert hosted.outbox_bytes() == 0
