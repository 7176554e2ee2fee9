"""Accepting of sockets within their limits, with PROXY header and TLS handshake."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol, cast

from routelog.broker.listeners.accept_share import LOOK_SECONDS, AcceptShare
from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets
from routelog.broker.sockets.proxy_header import Endpoint, MalformedProxyHeader, proxied_client
from routelog.vhosts import TellEvent

log = logging.getLogger(__name__)

# Seconds for the PROXY header, and again for the TLS handshake, as in RabbitMQ
OPENING_SECONDS_MAX = 5.0
ACCEPT_PAUSE_SECONDS = 1.0  # seconds, when there is no file descriptor for another socket
ACCEPTS_MAX = 16  # in a turn of the event loop: about 50 us each, with the connection

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Network = IPv4Network | IPv6Network


class ServedSocket(Protocol):
    """The asyncio protocol of a client's socket."""

    def abort(self) -> None:
        """Drop the socket, at the latest when it is connected."""

    def never_connected(self) -> None:
        """The socket was closed before it was connected."""


Serve = Callable[[AcceptedSocket, Endpoint | None], ServedSocket]


async def at_once() -> None:
    """What clients wait for that are served in any case."""


class Acceptor:
    """Accepts from one listening socket.

    Args:
        listening: bound, listening and not blocking; closed with the acceptor.
        sockets: counts accepted sockets.
        tls: the latest context, for each handshake; None: none.
        proxies: networks whose connections must begin with a PROXY header.
        serve: makes the protocol of a socket, given the client that a PROXY header names.
        note: writes to the log.
        ready: what a socket waits for before anything of it is read; then it is served.
        share: of all processes that accept from the socket; None: no other one does.
    """

    def __init__(
        self,
        listening: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        sockets: AcceptedSockets,
        tls: Callable[[], ssl.SSLContext] | None,
        proxies: Collection[Network],
        serve: Serve,
        note: TellEvent,
        ready: Callable[[], Awaitable[None]] = at_once,
        share: AcceptShare | None = None,
    ) -> None:
        self._listening = listening
        self._loop = loop
        self._sockets = sockets
        self._tls = tls
        self._proxies = proxies
        self._serve = serve
        self._note = note
        self._share = share
        self._ready = ready
        self._openings: set[asyncio.Task[None]] = set()
        self._resume_timer: asyncio.TimerHandle | None = None
        loop.add_reader(listening, self._accept)

    async def close(self) -> None:
        """Accept nothing more; handshakes under way end."""
        if self._resume_timer is not None:
            self._resume_timer.cancel()
        self._loop.remove_reader(self._listening)
        for task in self._openings:
            task.cancel()
        await asyncio.gather(*self._openings, return_exceptions=True)
        self._listening.close()

    def _accept(self) -> None:
        share = self._share
        for _ in range(ACCEPTS_MAX):
            if share is not None and not share.takes():
                return self._pause(LOOK_SECONDS)
            try:
                client, address = self._listening.accept()
            except BlockingIOError:
                if share is not None:
                    share.nobody_waits()
                return
            except OSError as error:
                if error.errno == errno.EINVAL:  # see `ListeningSockets.refuse`
                    self._loop.remove_reader(self._listening)
                    return
                if error.errno in _EXHAUSTED:
                    log.warning("cannot accept: %s", error)
                    return self._pause(ACCEPT_PAUSE_SECONDS)
                continue  # the client was gone before it was accepted
            client.setblocking(False)
            peer = address[0] if isinstance(address, tuple) else None
            accepted = self._sockets.admit(client, peer)
            if accepted is None:
                client.close()
                continue
            task = self._loop.create_task(self._open(accepted, address))
            accepted.drop = partial(_shut_down, client)
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    def _pause(self, seconds: float) -> None:
        # The socket stays readable: without a pause the loop would do nothing else.
        self._loop.remove_reader(self._listening)
        self._resume_timer = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._resume_timer = None
        self._loop.add_reader(self._listening, self._accept)

    async def _open(self, accepted: AcceptedSocket, address: object) -> None:
        try:
            accepted.drop = accepted.handle.close
            await self._ready()
            if accepted.handle.fileno() < 0:
                return  # it was dropped meanwhile
            accepted.drop = partial(_shut_down, accepted.handle)
            proxied = None
            if self._proxies:
                proxied = await self._proxied(accepted.handle, address)
            if proxied is not None:
                accepted.comes_from(proxied.address)
            await self._hand_over(accepted, self._serve(accepted, proxied))
        except (OSError, MalformedProxyHeader, TimeoutError) as error:
            reason = str(error) or "it took too long"
            self._note("connection.unopened", address=_name(address), reason=reason)
            self._close(accepted)
        except BaseException:
            self._close(accepted)
            raise

    def _close(self, accepted: AcceptedSocket) -> None:
        accepted.handle.close()
        accepted.closed()

    async def _hand_over(self, accepted: AcceptedSocket, served: ServedSocket) -> None:
        context, seconds = None, None
        if self._tls is not None:
            context, seconds = self._tls(), OPENING_SECONDS_MAX
        protocol = cast(asyncio.BaseProtocol, served)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted.handle, ssl=context, ssl_handshake_timeout=seconds
            )
        except BaseException:
            served.never_connected()
            raise
        accepted.drop = served.abort

    async def _proxied(self, client: socket.socket, address: object) -> Endpoint | None:
        if not isinstance(address, tuple) or not self._is_proxy(address[0]):
            return None

        async def receive(count: int) -> bytes:
            return await self._loop.sock_recv(client, count)

        async with asyncio.timeout(OPENING_SECONDS_MAX):
            return await proxied_client(receive, address[1])

    def _is_proxy(self, address: str) -> bool:
        peer = ip_address(address)
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self._proxies)


def _shut_down(client: socket.socket) -> None:
    # Handshakes and protocols that were just connected hear that the client has left.
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _name(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "local"
