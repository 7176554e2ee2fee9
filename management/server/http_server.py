"""An application of HTTP on sockets that others accept."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from routelog.broker import AcceptedSocket
from routelog.management.calls.failures import Refused
from routelog.management.calls.http_connection import FAILED, HttpConnection
from routelog.vhosts import TellEvent

KEEP_ALIVE_SECONDS = 60.0  # between two requests, as RabbitMQ's
STALL_SECONDS_MAX = 120.0  # until a client that does not read its answer is dropped
STOP_SECONDS = 2.0  # for answers that are under way when the broker stops

log = logging.getLogger(__name__)


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
        self, counted: AcceptedSocket, client: tuple[str, int] | None = None, is_tls: bool = False
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


def client_host(request: web.Request) -> str | None:
    """The client's address without its port; None: it has none."""
    client = _client(request)
    return None if client is None else client[0]


def client_address(request: web.Request) -> str:
    """The client's address and port, for the log."""
    client = _client(request)
    return "" if client is None else f"{client[0]}:{client[1]}"


def _client(request: web.Request) -> tuple[str, int] | None:
    assert isinstance(request.protocol, HttpConnection)
    return request.protocol.client


def is_gone(request: web.Request) -> bool:
    """Whether the client has left."""
    return request.transport is None or request.transport.is_closing()


def fault(request: web.Request, error: Exception) -> Refused:
    """Log an error of the broker, and say nothing of it to the client."""
    log.error("%s %s: an error of the broker", request.method, request.path, exc_info=error)
    return FAILED
