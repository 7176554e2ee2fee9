"""HTTP connections that have asked for nothing yet: a stranger needs no password to hold one."""

import asyncio
from collections.abc import Callable

from aiohttp import web


class SilentConnections:
    """Makes the protocols of a server's connections, and ends those whose first request does not come.

    Args:
        seconds: for the first request, its headers included.
    """

    def __init__(self, server: Callable[[], web.RequestHandler], seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._deadlines: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> web.RequestHandler:
        """The protocol of a connection that was accepted."""
        connection = self._server()
        loop = asyncio.get_running_loop()
        self._deadlines[connection] = loop.call_later(self._seconds, self._end, connection)
        return connection

    def asked(self, connection: web.RequestHandler) -> None:
        """A request has come: from here on the server's own limits hold."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is not None:
            deadline.cancel()

    def stop(self) -> None:
        """Forget all deadlines."""
        for deadline in self._deadlines.values():
            deadline.cancel()
        self._deadlines.clear()

    def _end(self, connection: web.RequestHandler) -> None:
        del self._deadlines[connection]
        if connection.transport is not None:
            connection.transport.abort()
