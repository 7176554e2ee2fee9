"""A node that passes its clients on and one that leads, in one process with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast

from routelog.broker.listeners.acceptor import Acceptor
from routelog.broker.listeners.listening_sockets import listening_sockets
from routelog.broker.passing.passed_door import PassedDoor
from routelog.broker.passing.passing import Passing
from routelog.broker.sockets.accepted_sockets import (
    AcceptedSocket,
    AcceptedSockets,
    SocketLimits,
)
from routelog.broker.sockets.proxy_header import Endpoint, PassedClient
from routelog.mirror_cluster.links.given_link import TakeConnection
from routelog.mirror_cluster.node.cluster_member import LeadingNode


class Served(asyncio.Protocol):
    """A client as the leader has it."""

    def __init__(self, accepted: AcceptedSocket, client: Endpoint | None) -> None:
        assert isinstance(client, PassedClient)
        self.accepted, self.client = accepted, client
        self.received = bytearray()
        self.has_ended = self.is_lost = False
        self.writes = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.has_ended = True
        return True

    def pause_writing(self) -> None:
        self.writes = False

    def resume_writing(self) -> None:
        self.writes = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.accepted.closed()

    def abort(self) -> None:
        self.transport.abort()

    def never_connected(self) -> None: ...


class Dialer(asyncio.Protocol):
    """The end of a connection between nodes, up to where it is taken."""


class World:
    """See the module. `leader` is who leads; `told` tells the passing node that it changed."""

    def __init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.near = AcceptedSockets("HTTP", SocketLimits(100, 4), clock)
        self.far = AcceptedSockets("HTTP", SocketLimits(100, 50), clock)
        self.leader: LeadingNode | None = LeadingNode("a", 1)
        self.clients: list[Served] = []
        self.door = PassedDoor()
        self.door.open(self.far, self._serve)
        self.told: Callable[[], None] = lambda: None
        self.is_away = False  # nobody listens at the leader
        self.refused = 0  # connections, since it is away
        self.port = self._leader_port = 0
        self.passing = Passing(self, 5.0, lambda: "")
        self.refusal = ""  # why the passing node serves no clients of AMQP

    def _serve(self, accepted: AcceptedSocket, client: Endpoint | None) -> Served:
        self.clients.append(Served(accepted, client))
        return self.clients[-1]

    def lead(self, leader: LeadingNode | None) -> None:
        """Another node leads; the sockets are the same."""
        self.leader = leader
        self.told()

    # -- see `ClusterMember`

    trouble = "nobody leads"

    def watch(self, changed: Callable[[], None]) -> None:
        self.told = changed

    async def connect(self, node: str, process: int, take: TakeConnection) -> None:
        if self.is_away:
            self.refused += 1
            raise ConnectionRefusedError
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(Dialer, "127.0.0.1", self._leader_port)
        transport.pause_reading()
        take(transport, b"")

    # -- both nodes

    async def _accept_of_node(self) -> asyncio.Server:
        door = self.door

        class Between(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                between = cast(asyncio.Transport, transport)
                between.pause_reading()
                door.take(between, b"")

        server = await asyncio.get_running_loop().create_server(Between, "127.0.0.1", 0)
        self._leader_port = server.sockets[0].getsockname()[1]
        return server

    async def client(
        self, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client of the passing node."""
        name = None if tls is None else "localhost"
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls, server_hostname=name, limit=2**20
        )


@contextlib.asynccontextmanager
async def world(
    tls: ssl.SSLContext | None = None, wait_seconds: float = 5.0
) -> AsyncIterator[World]:
    """Both nodes, until the end."""
    loop, made = asyncio.get_running_loop(), World()
    server = await made._accept_of_node()
    passing = made.passing = Passing(made, wait_seconds, lambda: made.refusal)
    (listening,) = await listening_sockets(loop, "127.0.0.1", 0)
    made.port = listening.getsockname()[1]
    acceptor = Acceptor(
        listening,
        loop,
        sockets=made.near,
        tls=None if tls is None else lambda: tls,
        proxies=(),
        serve=passing.serve,
        note=lambda *_, **__: None,
    )
    try:
        yield made
    finally:
        await acceptor.close()
        await passing.aclose("it stops")
        server.close()
        for client in made.clients:
            client.transport.abort()
