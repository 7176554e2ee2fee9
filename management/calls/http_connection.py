"""A connection of the HTTP API: how long it may be silent, where its socket is counted, and what is no HTTP.

A request that cannot be parsed may carry a password, in a header or elsewhere: nothing of it goes into the
answer or the log, where others could read it.
"""

import asyncio
from typing import Any, Protocol

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from routelog.management.calls.failures import Refused
from routelog.vhosts import TellEvent

MALFORMED = Refused(400, "bad_request", "malformed request")
FAILED = Refused(500, "internal_server_error", "the broker failed; see its log")


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
        note: tells the log.
        options: of `web.RequestHandler`.
    """

    __slots__ = ("_counted", "_deadline", "_note", "_seconds")

    def __init__(
        self,
        server: web.Server,
        counted: CountedSocket,
        seconds: float,
        note: TellEvent,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._counted = counted
        self._seconds = seconds
        self._note = note
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

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never came to a handler of ours."""
        self._tell(exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        answer = FAILED if status >= 500 else MALFORMED
        response = web.Response(
            body=msgspec.json.encode({"error": answer.error, "reason": answer.reason}),
            status=answer.status,
            content_type="application/json",
        )
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Tell what kind of error ended the connection, and nothing of what was sent."""
        self._tell(kw.get("exc_info"))

    def log_debug(self, *args: Any, **kw: Any) -> None:
        """Nothing that is worth a line."""

    def _tell(self, error: object) -> None:
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        self._note(
            "http.malformed",
            address=f"{address[0]}:{address[1]}" if isinstance(address, tuple) else None,
            cause=_cause(error),
        )


def _cause(error: object) -> str | None:
    # The class alone: messages quote what was sent.
    if isinstance(error, HttpProcessingError):
        return f"HTTP {error.code}, {type(error).__name__}"
    return None if error is None else type(error).__name__
