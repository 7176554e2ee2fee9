"""Metrics over HTTP, for Prometheus: without a password, as RabbitMQ's."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from routelog.management.metrics.metric import CONTENT_TYPE
from routelog.management.metrics.scrape import aggregated, detailed, of_each
from routelog.management.metrics.watched import WatchedNode
from routelog.management.server.http_server import HttpServer
from routelog.vhosts import TellEvent

log = logging.getLogger(__name__)

WRITE_BYTES = 65_536  # gathered before they are sent


class MetricsServer(HttpServer):
    """The metrics of a node.

    Args:
        silent_seconds: for the first request of a connection.
        note: writes to the log.
    """

    def __init__(self, node: WatchedNode, silent_seconds: float, note: TellEvent) -> None:
        self._node = node
        application = web.Application(middlewares=[_answered])
        for path, handler in (
            ("", self._aggregated),
            ("/per-object", self._of_each),
            ("/detailed", self._detailed),
        ):
            application.router.add_get(f"/metrics{path}{{slash:/?}}", handler)
        super().__init__(application, silent_seconds, note)

    async def _aggregated(self, request: web.Request) -> web.StreamResponse:
        return await _sent(request, aggregated(self._node))

    async def _of_each(self, request: web.Request) -> web.StreamResponse:
        return await _sent(request, of_each(self._node))

    async def _detailed(self, request: web.Request) -> web.StreamResponse:
        families, vhosts = (request.query.getall(name, []) for name in ("family", "vhost"))
        return await _sent(request, detailed(self._node, families, vhosts))


async def _sent(request: web.Request, texts: AsyncIterator[str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
    await response.prepare(request)
    if request.method != "HEAD":
        gathered = bytearray()
        async for text in texts:
            gathered += text.encode()
            if len(gathered) > WRITE_BYTES:
                await response.write(bytes(gathered))
                gathered.clear()
        await response.write(bytes(gathered))
    await response.write_eof()
    return response


@web.middleware
async def _answered(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = web.Response(status=error.status, text=f"{error.reason}\n")
    except ConnectionError:
        raise  # the client left
    except Exception as error:
        log.error("%s: an error of the broker", request.path, exc_info=error)
        raise
    if not response.prepared:
        response.headers["X-Content-Type-Options"] = "nosniff"
    return response
