"""The leader's side: clients of HTTP that other nodes pass on, each over a connection of its own.

Who connects has proved to be a node of the cluster, so that what its PROXY header says of the client is
believed: its address, and TLS. No client can connect here.
"""

import asyncio
import logging
from typing import cast

from routelog.broker.listeners.acceptor import OPENING_SECONDS_MAX, Serve
from routelog.broker.sockets.accepted_sockets import AcceptedSockets
from routelog.broker.sockets.proxy_header import (
    MalformedProxyHeader,
    PassedClient,
    take_passed_header,
)

log = logging.getLogger(__name__)


class PassedDoor:
    """What a node that leads makes of the clients that are passed to it: without `open`, nothing."""

    def __init__(self) -> None:
        self._sockets: AcceptedSockets | None = None
        self._serve: Serve | None = None

    def open(self, sockets: AcceptedSockets, serve: Serve) -> None:
        """Take clients.

        Args:
            sockets: counts them, with those that connect here, by the clients' own addresses.
            serve: makes the protocol of a client.
        """
        self._sockets, self._serve = sockets, serve

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
        if self._sockets is None or self._serve is None:
            log.warning("a client of HTTP was passed on, which is not served")
            return transport.abort()
        accepted = self._sockets.admit(transport.get_extra_info("socket"), client.address)
        if accepted is None:
            return transport.abort()
        served = self._serve(accepted, client)
        accepted.drop = served.abort
        protocol = cast(asyncio.Protocol, served)
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        if unread:
            protocol.data_received(unread)


class _Heading(asyncio.Protocol):
    """A connection up to the end of its PROXY header."""

    def __init__(self, door: PassedDoor) -> None:
        self._door = door
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
            self._door.hand_over(self._transport, client, self._received[size:])

    def connection_lost(self, error: Exception | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
