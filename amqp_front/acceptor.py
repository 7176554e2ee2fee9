"""Accepts sockets on which something comes before the first AMQP byte: a PROXY header, a TLS handshake."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Collection
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from amqp_front.connection import Connection
from amqp_front.proxy_header import Endpoint, MalformedProxyHeader, proxied_client
from vhosts import TellEvent

log = logging.getLogger(__name__)

OPENING_SECONDS_MAX = 5.0  # for the PROXY header, and again for the TLS handshake, as RabbitMQ's
ACCEPT_PAUSE_SECONDS = 1.0  # when there is no file descriptor for another socket

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Network = IPv4Network | IPv6Network
Accepted = Callable[[Endpoint | None], Connection]


class Acceptor:
    """Accepts from one listening socket.

    Args:
        listening: bound and listening; closed with the acceptor.
        tls: the context of the handshake; None: plain AMQP.
        proxies: networks whose connections must begin with a PROXY header.
        openings_max: sockets that may be on their way at a time; further ones are dropped.
        accepted: makes the connection, told whom a proxy speaks for.
        failed: its socket never came so far.
        note: tells the log.
    """

    def __init__(
        self,
        listening: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        tls: ssl.SSLContext | None,
        proxies: Collection[Network],
        openings_max: int,
        accepted: Accepted,
        failed: Callable[[Connection], None],
        note: TellEvent,
    ) -> None:
        self._listening = listening
        self._loop = loop
        self._tls = tls
        self._proxies = proxies
        self._openings_max = openings_max
        self._accepted = accepted
        self._failed = failed
        self._note = note
        self._openings: set[asyncio.Task[None]] = set()
        self._task = loop.create_task(self._accept())

    async def close(self) -> None:
        """Accept nothing more; handshakes under way end."""
        tasks = (self._task, *self._openings)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(self._listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    log.warning("cannot accept: %s", error)
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue  # others: the client was gone before it was accepted
            if len(self._openings) >= self._openings_max:
                self._note("connection.crowded")
                client.close()
                continue
            task = self._loop.create_task(self._open(client, address))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    async def _open(self, client: socket.socket, address: object) -> None:
        try:
            proxied = await self._proxied(client, address)
            await self._hand_over(client, self._accepted(proxied))
        except (OSError, MalformedProxyHeader, TimeoutError) as error:
            reason = str(error) or "it took too long"
            self._note("connection.unopened", address=_name(address), reason=reason)
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise

    async def _hand_over(self, client: socket.socket, connection: Connection) -> None:
        seconds = None if self._tls is None else OPENING_SECONDS_MAX
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except BaseException:
            self._failed(connection)
            raise

    async def _proxied(self, client: socket.socket, address: object) -> Endpoint | None:
        if not self._is_proxy(address):
            return None

        async def receive(count: int) -> bytes:
            return await self._loop.sock_recv(client, count)

        async with asyncio.timeout(OPENING_SECONDS_MAX):
            return await proxied_client(receive)

    def _is_proxy(self, address: object) -> bool:
        if not self._proxies or not isinstance(address, tuple):
            return False
        peer = ip_address(address[0])
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self._proxies)


def _name(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "local"
