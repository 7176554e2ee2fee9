"""A connection of the HTTP API: how long it may be silent, and where its socket is counted."""

import asyncio
from typing import Any, Protocol

from aiohttp import web


class CountedSocket(Protocol):
    """What counts the socket of a connection."""

    def authenticated(self) -> None:
        """The client has proved who it is."""

    def closed(self) -> None:
        """The socket is closed."""


class HttpConnection(web.RequestHandler):
    """The protocol of one client socket; it ends when its first request does not come.

    Args:
        seconds: for the first request, its headers included: a stranger needs no password to hold a socket.
        options: of `web.RequestHandler`.
    """

    __slots__ = ("_counted", "_deadline", "_seconds")

    def __init__(
        self,
        server: web.Server,
        counted: CountedSocket,
        seconds: float,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._counted = counted
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        super().connection_made(transport)
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone."""
        self.asked()
        self._counted.closed()
        super().connection_lost(exc)

    def asked(self) -> None:
        """A request has come: from here on the server's own limits hold."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def authenticated(self) -> None:
        """A request came with credentials that are right."""
        self._counted.authenticated()

    def abort(self) -> None:
        """Drop the socket; an answer that is being made is sent to nobody."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def never_connected(self) -> None:
        """The socket was lost before it was connected: nothing is left of it."""
