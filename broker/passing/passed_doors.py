"""The leader's side: clients that other nodes of the cluster pass on, each over a connection of its own.

Who connects has proved to be a node of the cluster, so that what its PROXY header says of the client is
believed: address, TLS, certificate. No client can connect here.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import cast

from routelog.broker.listeners.acceptor import OPENING_SECONDS_MAX, Serve
from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.broker.sockets.proxy_header import (
    MalformedProxyHeader,
    PassedClient,
    take_passed_header,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Door:
    sockets: AcceptedSockets
    serve: Serve


class PassedDoors:
    """What a node that leads makes of the clients that are passed to it."""

    def __init__(self) -> None:
        self._doors: dict[str, _Door] = {}

    def open(self, name: str, sockets: AcceptedSockets, serve: Serve) -> None:
        """Take clients of a protocol.

        Args:
            name: `AMQP` or `HTTP` of the PROXY header.
            sockets: counts them, with those that connect here, by the clients' own addresses.
            serve: makes the protocol of a client.
        """
        self._doors[name] = _Door(sockets, serve)

    def take(self, transport: asyncio.Transport, unread: bytes) -> None:
        """Take a connection of another node; see `ClusterMember.take_clients`."""
        heading = _Heading(self)
        transport.set_protocol(heading)
        heading.connection_made(transport)
        transport.resume_reading()
        if unread:
            heading.data_received(unread)

    def hand_over(self, transport: asyncio.Transport, client: PassedClient, unread: bytes) -> None:
        """Serve a client whose header was read."""
        door = self._doors.get(client.door)
        if door is None:
            log.warning("a client of %r was passed on, which is not served", client.door)
            return transport.abort()
        accepted = door.sockets.admit(transport.get_extra_info("socket"), client.address or None)
        if accepted is None:
            return transport.abort()
        served = door.serve(accepted, client)
        accepted.drop = served.abort
        protocol = cast(asyncio.Protocol | asyncio.BufferedProtocol, served)
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        _feed(protocol, unread)


class _Heading(asyncio.Protocol):
    """A connection up to the end of its PROXY header."""

    def __init__(self, doors: PassedDoors) -> None:
        self._doors = doors
        self._received = b""
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(OPENING_SECONDS_MAX, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._received += data
        try:
            taken = take_passed_header(self._received)
        except MalformedProxyHeader as error:
            log.warning("what a node passes on has no PROXY header: %s", error)
            return self._transport.abort()
        if taken is not None:
            client, size = taken
            self._stop()
            self._doors.hand_over(self._transport, client, self._received[size:])

    def connection_lost(self, error: Exception | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _feed(protocol: asyncio.Protocol | asyncio.BufferedProtocol, data: bytes) -> None:
    if isinstance(protocol, asyncio.Protocol):
        if data:
            protocol.data_received(data)
        return
    while data:
        room = memoryview(protocol.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        data = data[size:]
        protocol.buffer_updated(size)
