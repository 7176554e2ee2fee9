"""Who sent a request, and what is said when it fails by a fault of ours."""

import logging

from aiohttp import web

from routelog.management.calls.failures import Refused
from routelog.management.calls.http_connection import FAILED, HttpConnection

log = logging.getLogger(__name__)


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
