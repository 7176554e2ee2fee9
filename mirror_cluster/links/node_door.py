"""Where a node listens for others: what connects becomes a link, behind the handshake where there is TLS.

Anybody may connect here, so sockets are counted, and those of who is not introduced are dropped when they are
too many: as at the doors of clients.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from routelog.mirror_cluster.links.node_link import (
    INTRODUCTION_SECONDS_MAX,
    DoorSocket,
    NodeLink,
)
from routelog.mirror_cluster.node_tls import NodeTls

log = logging.getLogger(__name__)

ACCEPT_PAUSE_SECONDS = 1.0  # when there is no file descriptor for another socket


class DoorSockets(Protocol):
    """The sockets of this door, and their limits."""

    def admit(self, handle: socket.socket, peer: str | None) -> DoorSocket | None:
        """Count a socket that was accepted; others may be dropped for it.

        Args:
            peer: address of its other end.

        Returns:
            None: there are too many: close this one.
        """


class NodeDoor:
    """Listens, and makes a link of each connection.

    Args:
        link: makes that of a connection, given the address of the other end.
        tls: None: none.
    """

    def __init__(
        self,
        link: Callable[[str, DoorSocket], NodeLink],
        tls: NodeTls | None,
        sockets: DoorSockets,
    ) -> None:
        self._link = link
        self._tls = tls
        self._counted = sockets
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listen on all addresses of a host; returns the port, chosen by the system if it was 0.

        Raises:
            OSError: one of them cannot be used.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in found:
            listening = socket.create_server((str(address[0]), port), family=family)
            listening.setblocking(False)
            self._sockets.append(listening)
            self._spawn(self._accept(listening))
        return int(self._sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Accept nothing more; handshakes under way end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept another node: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            counted = self._counted.admit(accepted, address[0])
            if counted is None:
                accepted.close()
                continue
            counted.drop = partial(_shut_down, accepted)
            self._spawn(self._open(accepted, f"{address[0]}:{address[1]}", counted))

    async def _open(self, accepted: socket.socket, address: str, counted: DoorSocket) -> None:
        link = self._link(address, counted)
        context, seconds = None, None
        if self._tls is not None:
            context, seconds = self._tls.server, INTRODUCTION_SECONDS_MAX
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: link, accepted, ssl=context, ssl_handshake_timeout=seconds
            )
        except OSError as error:
            accepted.close()
            link.connection_lost(error)
        except BaseException:
            accepted.close()
            counted.closed()
            raise
        counted.drop = link.close

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _shut_down(accepted: socket.socket) -> None:
    # A handshake that is under way hears that the other end has left.
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
