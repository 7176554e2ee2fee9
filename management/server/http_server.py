"""An application of HTTP on sockets that others accept."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from routelog.management.calls.http_connection import CountedSocket, HttpConnection
from routelog.vhosts import TellEvent

KEEP_ALIVE_SECONDS = 60.0  # between two requests, as RabbitMQ's
STALL_SECONDS_MAX = 120.0  # until a client that does not read its answer is dropped
STOP_SECONDS = 2.0  # for answers that are under way when the broker stops


class HttpServer:
    """Serves an application of HTTP on sockets that others accept.

    Args:
        silent_seconds: for the first request of a connection.
        note: writes to the log.

    Attributes:
        stall_seconds: until a client that does not read its answer is dropped.
    """

    def __init__(
        self, application: web.Application, silent_seconds: float, note: TellEvent
    ) -> None:
        application.middlewares.insert(0, _heard)
        self._silent_seconds = silent_seconds
        self._note = note
        self.stall_seconds = STALL_SECONDS_MAX
        self._runner = web.AppRunner(
            application, handle_signals=False, shutdown_timeout=STOP_SECONDS
        )

    async def start(self) -> None:
        """Prepare for connections; call `stop` at the end."""
        await self._runner.setup()

    def serve(
        self, counted: CountedSocket, client: tuple[str, int] | None = None, is_tls: bool = False
    ) -> HttpConnection:
        """The protocol for an accepted socket.

        Args:
            client: that the other end speaks for, if it does.
            is_tls: whether that one has come to the other end over TLS.
        """
        server = self._runner.server
        assert server is not None
        return HttpConnection(
            server,
            counted,
            self._silent_seconds,
            self._note,
            client,
            is_tls,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
        )

    async def stop(self) -> None:
        """End the requests under way; listeners are closed before."""
        await self._runner.cleanup()


@web.middleware
async def _heard(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    assert isinstance(request.protocol, HttpConnection)
    request.protocol.asked()
    return await handler(request)
