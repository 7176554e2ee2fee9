"""Where a node listens for others: what connects becomes a link, behind the handshake where there is TLS."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from routelog.mirror_cluster.links.node_link import INTRODUCTION_SECONDS_MAX, NodeLink
from routelog.mirror_cluster.node_tls import NodeTls

log = logging.getLogger(__name__)

ACCEPT_PAUSE_SECONDS = 1.0  # when there is no file descriptor for another socket


class NodeDoor:
    """See the module.

    Args:
        link: makes that of a connection, given the address of the other end.
        tls: None: none.
    """

    def __init__(self, link: Callable[[str], NodeLink], tls: NodeTls | None) -> None:
        self._link = link
        self._tls = tls
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
            self._spawn(self._open(accepted, f"{address[0]}:{address[1]}"))

    async def _open(self, accepted: socket.socket, address: str) -> None:
        link = self._link(address)
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
            raise

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
