"""One connection of an HTTP client; what is no HTTP is answered, and told, without what it said.

A request that cannot be parsed may carry a password, in a header or elsewhere: nothing of it goes into the
answer or the log, where others could read it.
"""

from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from management.failures import Refused
from vhosts import TellEvent

MALFORMED = Refused(400, "bad_request", "malformed request")
FAILED = Refused(500, "internal_server_error", "the broker failed; see its log")


class HttpConnection(web.RequestHandler):
    """The server's end of a connection.

    Args:
        note: tells the log.
        options: those of aiohttp's handler.
    """

    __slots__ = ("_note",)

    def __init__(self, server: web.Server, note: TellEvent, **options: Any) -> None:
        super().__init__(server, **options)
        self._note = note

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
