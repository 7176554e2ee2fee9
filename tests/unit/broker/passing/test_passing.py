"""Clients of HTTP of a node that does not lead: their bytes, their addresses, their ends, and the leader's."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial

import pytest
import trustme
from support.waiting import until
from unit.broker.passing.passed_world import Served, World, world

from routelog.broker.passing.passed_connection import UNSENT_BYTES_HIGH
from routelog.mirror_cluster.node.cluster_member import LeadingNode

CHECK = b"GET /api/health/checks/ready-to-serve-clients HTTP/1.1\r\nHost: a\r\n\r\n"
REQUEST = b"GET /api/overview HTTP/1.1\r\nHost: a\r\n\r\n"


async def passed(made: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that the leader has heard of."""
    reader, writer = await made.client()
    at = len(made.clients)
    writer.write(b"hello")
    await until(lambda: len(made.clients) > at and made.clients[at].received == b"hello")
    return reader, writer


def has_heard_the_end(client: Served) -> bool:
    return client.has_ended or client.is_lost


async def test_bytes_go_both_ways_and_the_address_is_the_clients() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        (client,) = made.clients
        host, port = writer.get_extra_info("sockname")
        told = client.client
        assert (told.address, told.port, told.is_tls) == (host, port, False)
        assert client.accepted.source == host
        sent = bytes(range(256)) * 10_000
        writer.write(sent)
        client.transport.write(sent[::-1])
        assert await reader.readexactly(len(sent)) == sent[::-1]
        await until(lambda: client.received == b"hello" + sent)


async def test_a_client_waits_for_a_leader_that_comes_in_time() -> None:
    async with world() as made:
        made.leader = None
        _, writer = await made.client()
        writer.write(b"early")
        await until(lambda: len(made.passing) == 1)
        made.is_away = True
        made.lead(LeadingNode("b", 2))  # claimed, and not there yet
        await until(lambda: made.refused > 1)
        made.is_away = False
        await until(lambda: made.clients and made.clients[0].received == b"early")


@pytest.mark.parametrize("is_known", [True, False])
async def test_without_a_leader_it_is_closed_after_a_while(is_known: bool) -> None:
    async with world(wait_seconds=0.2) as made:
        made.is_away = True
        made.leader = LeadingNode("a", 1) if is_known else None
        reader, _ = await made.client()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await until(lambda: len(made.near) == 0)


async def test_without_a_leader_a_client_is_told_so() -> None:
    async with world(wait_seconds=0.2) as made:
        made.leader = None
        reader, writer = await made.client()
        writer.write(REQUEST)
        told = await asyncio.wait_for(reader.read(), 60)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"no node takes clients: nobody leads" in told
        writer.close()
        await until(lambda: len(made.near) == 0)


@pytest.mark.parametrize("is_passed", [False, True])
async def test_a_node_that_serves_no_clients_says_so_to_health_checks(is_passed: bool) -> None:
    async with world() as made:
        reader, writer = await (passed(made) if is_passed else made.client())
        made.refusal = "it has no copy"
        writer.write(CHECK)
        told = await asyncio.wait_for(reader.read(), 60)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert told.endswith(b'{"status":"failed","reason":"it has no copy"}')
        assert not any(CHECK in client.received for client in made.clients)
        writer.close()
        await until(lambda: len(made.near) == 0)
        await until(lambda: all(has_heard_the_end(each) for each in made.clients))


@pytest.mark.parametrize("refusal", ["", "it has no copy"])
async def test_the_leader_answers_all_else(refusal: str) -> None:
    async with world() as made:
        made.refusal = refusal
        sent = REQUEST if refusal else CHECK
        _, writer = await made.client()
        writer.write(sent)
        await until(lambda: made.clients and made.clients[0].received == sent)


async def test_the_leader_counts_clients() -> None:
    async with world() as made:
        # The node itself lets four wait for a leader.
        clients = [await passed(made) for _ in range(20)]
        assert [len(made.near), len(made.far)] == [20, 20]
        for served in made.clients[:3]:
            served.accepted.drop()  # by the leader, which has too many
        for reader, _ in clients[:3]:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        for _, writer in clients:
            writer.close()
        await until(lambda: all(has_heard_the_end(each) for each in made.clients))


async def test_many_that_wait_for_a_leader_push_each_other_out() -> None:
    async with world() as made:
        made.leader = None
        clients = [await made.client() for _ in range(6)]
        for reader, _ in clients[:2]:
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 60) == b""
        made.lead(LeadingNode("a", 1))
        await until(lambda: len(made.clients) == 4)


# -- the ends


async def test_a_side_that_ends_is_ended_there_and_the_other_one_goes_on() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        (client,) = made.clients
        writer.write_eof()
        await until(lambda: client.has_ended)
        client.transport.write(b"still")
        assert await reader.readexactly(5) == b"still"
        client.transport.close()
        await until(lambda: len(made.passing) == 0)


async def test_the_leader_ends_its_side_and_the_client_is_still_heard() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        (client,) = made.clients
        client.transport.write(b"all")
        client.transport.write_eof()
        assert await reader.read() == b"all"
        writer.write(b"late")
        await until(lambda: client.received.endswith(b"late"))
        writer.close()
        await until(lambda: client.has_ended)
        client.transport.close()
        await until(lambda: len(made.near) == len(made.far) == 0)


async def test_a_client_that_is_gone_is_gone_at_the_leader() -> None:
    async with world() as made:
        for is_reset in (False, True):
            _, writer = await passed(made)
            client = made.clients[-1]
            if is_reset:
                writer.transport.abort()
            else:
                writer.close()
            await until(partial(has_heard_the_end, client))
            client.transport.close()
        await until(lambda: len(made.passing) == 0)


async def test_a_leader_that_is_gone_closes_its_clients() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        made.clients[0].transport.abort()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()  # else it would have half a minute for that
        await until(lambda: len(made.near) == 0)


async def test_when_another_node_leads_clients_are_closed_and_come_again() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        made.lead(made.leader)  # no other one
        writer.write(b"goes on")
        await until(lambda: made.clients[0].received.endswith(b"goes on"))
        made.lead(LeadingNode("a", 2))  # the same node, started again
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await until(lambda: has_heard_the_end(made.clients[0]))
        _, again = await made.client()
        again.write(b"again")
        await until(lambda: len(made.clients) == 2 and made.clients[1].received == b"again")


async def test_who_does_not_read_the_end_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.broker.passing.passed_connection.END_SECONDS_MAX", 0.2)
    async with world() as made:
        reader, _ = await passed(made)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        made.clients[0].transport.write(bytes(24 * 1024 * 1024))
        await until(lambda: not made.clients[0].writes)
        made.lead(None)
        await until(lambda: len(made.near) == 0)


# -- memory


async def test_who_does_not_read_stops_the_other_end() -> None:
    async with world() as made:
        reader, writer = await passed(made)
        (client,) = made.clients
        total = 24 * 1024 * 1024
        for sender, stop in ((writer.transport, client.transport), (client.transport, None)):
            if stop is not None:
                stop.pause_reading()
            sender.write(bytes(total))
            (end,) = made.passing._clients
            ends = [each.transport for each in (end, end._other) if each and each.transport]
            await until(lambda: not all(each.is_reading() for each in ends))  # noqa: B023
            # What the system does not take stays with the sender.
            assert sender.get_write_buffer_size()
            assert len(ends) == 2
            assert all(each.get_write_buffer_size() <= 2 * UNSENT_BYTES_HIGH for each in ends)
            if stop is not None:
                stop.resume_reading()
                await until(lambda: len(client.received) == 5 + total)
        await reader.readexactly(total)
        client.transport.close()
        writer.close()
        await until(lambda: len(made.passing) == 0)


# -- TLS


async def test_tls_ends_here_and_the_leader_knows_that_it_was_there() -> None:
    authority = trustme.CA()
    server, tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(tls)
    async with world(server) as made:
        reader, writer = await made.client(tls)
        writer.write(b"hello")
        await until(lambda: made.clients and made.clients[0].received == b"hello")
        (client,) = made.clients
        assert client.client.is_tls
        client.transport.write(b"answer")
        client.transport.close()
        assert await asyncio.wait_for(reader.read(), 60) == b"answer"


# -- the node stops


async def test_a_node_that_stops_closes_its_clients() -> None:
    async with world() as made:
        reader, _ = await passed(made)
        made.leader = None
        waiting, writer = await made.client()
        writer.write(REQUEST)
        await until(lambda: any(each._early for each in made.passing._clients))
        closing = asyncio.create_task(made.passing.aclose("it stops"))
        assert await reader.read() == b""
        assert b"it stops" in await waiting.read()
        writer.close()
        await asyncio.wait_for(closing, 60)
