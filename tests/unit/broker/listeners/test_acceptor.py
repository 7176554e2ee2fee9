"""Clients that come before a node serves wait, unread, and within the limit of sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import pytest
from support.waiting import until

from routelog.broker.listeners.acceptor import Acceptor
from routelog.broker.listeners.listening_sockets import listening_sockets
from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets, SocketLimits
from routelog.broker.sockets.proxy_header import Endpoint

WAITING_MAX = 4


class Served(asyncio.Protocol):
    """A client that is served."""

    def __init__(self, accepted: AcceptedSocket) -> None:
        self.accepted = accepted
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.accepted.closed()

    def abort(self) -> None:
        self.transport.abort()

    def never_connected(self) -> None: ...


class Node:
    """A node whose clients wait until `ready` is set."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.sockets = AcceptedSockets(
            "AMQP", SocketLimits(100, WAITING_MAX), asyncio.get_running_loop().time
        )
        self.served: list[Served] = []
        self._is_closed = False

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        (listening,) = await listening_sockets(loop, "127.0.0.1", 0)
        self._port = listening.getsockname()[1]
        self.acceptor = Acceptor(
            listening,
            loop,
            sockets=self.sockets,
            tls=None,
            proxies=(),
            serve=self._serve,
            note=lambda *_, **__: None,
            ready=self._until_ready,
        )

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.acceptor.close()

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"hello")
        return reader, writer

    def _serve(self, accepted: AcceptedSocket, proxied: Endpoint | None) -> Served:
        self.served.append(Served(accepted))
        return self.served[-1]

    async def _until_ready(self) -> None:
        await self.ready.wait()


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node()
    await made.open()
    yield made
    await made.close()
    for served in made.served:
        served.abort()


async def has_ended(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), 60) == b""
    return True


async def test_who_waits_is_served_when_the_node_is_ready(node: Node) -> None:
    await node.client()
    await until(lambda: len(node.sockets) == 1)
    assert not node.served
    node.ready.set()
    await until(lambda: node.served and node.served[0].received == b"hello")
    await node.client()
    await until(lambda: len(node.served) == 2)


async def test_too_many_that_wait_push_the_first_ones_out_at_once(node: Node) -> None:
    clients = [await node.client() for _ in range(WAITING_MAX + 2)]
    for reader, _ in clients[:2]:
        assert await has_ended(reader)
    assert len(node.sockets) == WAITING_MAX
    node.ready.set()
    await until(lambda: len(node.served) == WAITING_MAX)
    await until(lambda: all(each.received for each in node.served))


async def test_who_waits_is_closed_with_the_listeners(node: Node) -> None:
    reader, _ = await node.client()
    await until(lambda: len(node.sockets) == 1)
    await node.close()
    assert await has_ended(reader)
    assert not node.served
