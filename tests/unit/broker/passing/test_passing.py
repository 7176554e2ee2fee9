"""Clients of a node that does not lead: their bytes, their addresses, their ends, and the leader's."""

import asyncio
import ssl
import struct
from contextlib import suppress
from functools import partial

import pytest
import trustme
from pamqp import commands
from support.waiting import until
from unit.broker.passing.passed_world import OPEN_OK, Served, World, world

from routelog.amqp_front.connections.handshake import PROTOCOL_HEADER
from routelog.amqp_front.passing.refusal import CLOSE_OK
from routelog.amqp_front.wire.errors import CONNECTION_FORCED, reply_text
from routelog.amqp_front.wire.methods import encode_method
from routelog.broker.passing.passed_connection import LOST, UNSENT_BYTES_HIGH
from routelog.broker.passing.passing import CHANGED
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.mirror_cluster.node.cluster_member import LeadingNode

START_OK = encode_method(
    0,
    commands.Connection.StartOk,
    client_properties={},
    mechanism="PLAIN",
    response="\0guest\0guest",
    locale="en_US",
)
CLOSE_METHOD = struct.pack(">HHH", 10, 50, 320)
BODY = b"\x03\x00\x01\x00\x00\x00\x04four\xce"


async def opened(made: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client in its vhost, as far as the passing node can tell."""
    reader, writer = await made.client()
    at = len(made.clients)
    writer.write(b"hello")
    await until(lambda: len(made.clients) > at and made.clients[at].received == b"hello")
    made.clients[at].transport.write(OPEN_OK)
    assert await reader.readexactly(len(OPEN_OK)) == OPEN_OK
    return reader, writer


async def test_bytes_go_both_ways_and_the_address_is_the_clients() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        (client,) = made.clients
        host, port = writer.get_extra_info("sockname")
        told = client.client
        assert (told.address, told.port) == (host, port)
        assert told.own == Endpoint("127.0.0.1", made.port)
        assert (told.is_tls, told.certificate, client.accepted.source) == (False, None, host)
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
        writer.write(PROTOCOL_HEADER)
        await reader.readuntil(b"en_US\xce")  # connection.start
        writer.write(START_OK)
        await reader.readexactly(20)  # connection.tune
        writer.write(encode_method(0, commands.Connection.Open, virtual_host="/"))
        assert b"no node takes clients: nobody leads" in await reader.readuntil(b"\xce")
        writer.write(CLOSE_OK)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await until(lambda: len(made.near) == 0)


async def test_the_leader_counts_those_without_a_login() -> None:
    async with world() as made:
        clients = [
            await opened(made) for _ in range(20)
        ]  # the node itself lets four wait for a leader
        assert [len(made.near), len(made.far)] == [20, 20]
        for served in made.clients[:3]:
            served.accepted.drop()  # by the leader, which has too many
        for reader, _ in clients[:3]:
            assert CLOSE_METHOD in await asyncio.wait_for(reader.read(200), 60)
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
        reader, writer = await opened(made)
        (client,) = made.clients
        writer.write_eof()
        await until(lambda: client.has_ended)
        client.transport.write(b"still")
        assert await reader.readexactly(5) == b"still"
        client.transport.close()
        await until(lambda: len(made.passing) == 0)


async def test_the_leader_says_goodbye_and_the_client_is_still_heard() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        (client,) = made.clients
        client.transport.write(CLOSE_OK)
        client.transport.write_eof()
        assert await reader.read() == CLOSE_OK  # no second goodbye
        writer.write(b"late")
        await until(lambda: client.received.endswith(b"late"))
        writer.close()
        await until(lambda: client.has_ended)
        client.transport.close()
        await until(lambda: len(made.near) == len(made.far) == 0)


async def test_a_client_that_is_gone_is_gone_at_the_leader() -> None:
    async with world() as made:
        for is_reset in (False, True):
            _, writer = await opened(made)
            client = made.clients[-1]
            if is_reset:
                writer.transport.abort()
            else:
                writer.close()
            await until(partial(has_heard_the_end, client))
            client.transport.close()
        await until(lambda: len(made.passing) == 0)


# -- the end of a leader


def has_heard_the_end(client: Served) -> bool:
    return client.has_ended or client.is_lost


def goodbye(reason: str) -> bytes:
    return reply_text(CONNECTION_FORCED, reason).encode()


async def test_when_the_leader_is_gone_the_client_is_told_so_in_amqp() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        made.clients[0].transport.write(BODY)
        assert await reader.readexactly(len(BODY)) == BODY
        made.clients[0].transport.abort()
        told = await reader.read(500)
        assert told[7:13] == CLOSE_METHOD
        assert goodbye(LOST) in told
        writer.write(b"what was under way" + CLOSE_OK)
        assert await asyncio.wait_for(reader.read(), 60) == b""


async def test_when_another_node_leads_the_client_is_told_what_is_gone() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        made.lead(made.leader)  # no other one
        writer.write(b"goes on")
        await until(lambda: made.clients[0].received.endswith(b"goes on"))
        made.lead(LeadingNode("a", 2))  # the same node, started again
        told = await reader.read(500)
        assert goodbye(CHANGED) in told
        assert len(goodbye(CHANGED)) < 256
        assert b"transient messages" in told
        await until(lambda: has_heard_the_end(made.clients[0]))
        writer.close()
        _, again = await made.client()
        again.write(b"again")
        await until(lambda: len(made.clients) == 2 and made.clients[1].received == b"again")


@pytest.mark.parametrize("sent", [BODY[:9], b"AMQP"])
async def test_within_a_frame_nothing_can_be_said(sent: bytes) -> None:
    async with world() as made:
        reader, writer = await made.client() if sent == b"AMQP" else await opened(made)
        writer.write(b"x")
        await until(lambda: made.clients and made.clients[0].received.endswith(b"x"))
        made.clients[0].transport.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        made.lead(None)
        assert await asyncio.wait_for(reader.read(), 60) == b""


async def test_who_does_not_answer_the_goodbye_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.broker.passing.passed_connection.GOODBYE_SECONDS_MAX", 0.2)
    async with world() as made:
        await opened(made)
        made.lead(None)
        await until(lambda: len(made.near) == 0)


# -- memory


async def test_who_does_not_read_stops_the_other_end() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        (client,) = made.clients
        total = 24 * 1024 * 1024
        for sender, stop in ((writer.transport, client.transport), (client.transport, None)):
            if stop is not None:
                stop.pause_reading()
            sender.write(bytes(total))
            (passed,) = made.passing._clients
            ends = [end.transport for end in (passed, passed._other) if end and end.transport]
            await until(lambda: not all(end.is_reading() for end in ends))  # noqa: B023
            # What the system does not take stays with the sender.
            assert sender.get_write_buffer_size()
            assert len(ends) == 2
            assert all(end.get_write_buffer_size() <= 2 * UNSENT_BYTES_HIGH for end in ends)
            if stop is not None:
                stop.resume_reading()
                await until(lambda: len(client.received) == 5 + total)
        await reader.readexactly(total)
        client.transport.close()  # or the node waits five seconds for both to say goodbye
        writer.close()
        await until(lambda: len(made.passing) == 0)


# -- TLS


def tls_pair(authority: trustme.CA, *, shows: bool) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.verify_mode = ssl.CERT_OPTIONAL
    authority.issue_cert("localhost").configure_cert(server)
    for each in (server, client):
        authority.configure_trust(each)
    if shows:
        authority.issue_cert("app@example.com", common_name="app").configure_cert(client)
    return server, client


@pytest.mark.parametrize("shows", [True, False])
async def test_tls_ends_here_and_the_leader_knows_the_certificate(shows: bool) -> None:
    server, tls = tls_pair(trustme.CA(), shows=shows)
    async with world(server) as made:
        reader, writer = await made.client(tls)
        writer.write(b"hello")
        await until(lambda: made.clients and made.clients[0].received == b"hello")
        (client,) = made.clients
        assert client.client.is_tls
        certificate = client.client.certificate
        assert (certificate is not None) is shows
        if certificate is not None:
            assert ["commonName", "app"] in [each[0] for each in certificate["subject"]]
            assert certificate["subjectAltName"] == [["email", "app@example.com"]]
        client.transport.write(OPEN_OK)
        assert await reader.readexactly(len(OPEN_OK)) == OPEN_OK
        client.transport.abort()
        assert CLOSE_METHOD in await reader.read(500)
        writer.write(CLOSE_OK)
        assert await asyncio.wait_for(reader.read(), 60) == b""


# -- the node stops


async def test_a_node_that_stops_tells_its_clients() -> None:
    async with world() as made:
        reader, writer = await opened(made)
        made.leader = None
        waiting, _ = await made.client()
        await until(lambda: len(made.passing) == 2)
        closing = asyncio.create_task(made.passing.aclose("it stops"))
        assert goodbye("it stops") in await reader.read(500)
        writer.write(CLOSE_OK)
        assert await waiting.read() == b""
        await asyncio.wait_for(closing, 60)
