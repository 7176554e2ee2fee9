"""A connection of the HTTP API: its timeout, the count of its socket, and requests that are no HTTP.

A request that cannot be parsed may contain a password, so nothing of it goes into the answer or the log.
"""

import asyncio
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from routelog.broker import AcceptedSocket
from routelog.management.calls.failures import Refused
from routelog.vhosts import TellEvent

MALFORMED = Refused(400, "bad_request", "malformed request")
FAILED = Refused(500, "internal_server_error", "the broker failed; see its log")
UNEXPECTED = Refused(417, "expectation_failed", "the only Expect is 100-continue")


class HttpConnection(web.RequestHandler):
    """The protocol of one client socket; it times out before its first request.

    Attributes:
        client: address and port; None: it has none.
        is_tls: whether it came over TLS, to this node or to the other one.

    Args:
        client, is_tls: when the other end is another node that speaks for it.
        seconds: for the first request with its headers: until then a client needs no password.
        note: writes to the log.
        options: of `web.RequestHandler`.
    """

    __slots__ = ("_counted", "_deadline", "_note", "_seconds", "client", "is_tls")

    def __init__(
        self,
        server: web.Server,
        counted: AcceptedSocket,
        seconds: float,
        note: TellEvent,
        client: tuple[str, int] | None,
        is_tls: bool,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self.client = client
        self.is_tls = is_tls
        self._counted = counted
        self._seconds = seconds
        self._note = note
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        super().connection_made(transport)
        self.is_tls = self.is_tls or transport.get_extra_info("sslcontext") is not None
        address = transport.get_extra_info("peername")
        if self.client is None and isinstance(address, tuple):
            self.client = address[0], address[1]
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket was closed."""
        self.asked()
        self._counted.closed()
        super().connection_lost(exc)

    def asked(self) -> None:
        """A request has come: from here on the server's own timeouts apply."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def authenticated(self) -> None:
        """A request had valid credentials."""
        self._counted.authenticated()

    def abort(self) -> None:
        """Drop the socket; an answer under way is not sent."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def never_connected(self) -> None:
        """The socket was closed before it was connected."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that reached no handler."""
        self._tell(exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        # The library cannot quote a header with other octets than UTF-8's.
        is_quote = isinstance(exc, UnicodeEncodeError) and not _is_text(request)
        return _last_answer(FAILED if status >= 500 and not is_quote else MALFORMED)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer, but the library's own to an unknown `Expect`, which quotes it, without the quote."""
        if isinstance(resp, web.HTTPExpectationFailed):
            resp = _last_answer(UNEXPECTED)
        return await super().finish_response(request, resp, start_time)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log the kind of the error that ended the connection, and nothing of its request."""
        self._tell(kw.get("exc_info"))

    def log_debug(self, *args: Any, **kw: Any) -> None:
        """Log nothing."""

    def _tell(self, error: object) -> None:
        self._note(
            "http.malformed",
            address=f"{self.client[0]}:{self.client[1]}" if self.client is not None else None,
            cause=_cause(error),
        )


def _last_answer(answer: Refused) -> web.Response:
    response = web.Response(
        body=msgspec.json.encode({"error": answer.error, "reason": answer.reason}),
        status=answer.status,
        content_type="application/json",
    )
    response.force_close()
    return response


def _is_text(request: web.BaseRequest) -> bool:
    """Whether its headers are UTF-8."""
    try:
        for _, value in request.raw_headers:
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _cause(error: object) -> str | None:
    # The class alone: messages of errors quote the request.
    if isinstance(error, HttpProcessingError):
        return f"HTTP {error.code}, {type(error).__name__}"
    return None if error is None else type(error).__name__
