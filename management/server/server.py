"""The HTTP API: from a request to its handler, and from its answer to bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from math import ceil

import msgspec
from aiohttp import web

from routelog.management.calls.answer import (
    Empty,
    Listing,
    Pieces,
    Stored,
    Value,
    as_json,
    selected,
)
from routelog.management.calls.authentication import authenticated, by_form
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import DEFINITIONS_BYTES_MAX
from routelog.management.calls.caller import Caller, Need
from routelog.management.calls.failures import Refused, not_authorised, refused
from routelog.management.calls.http_connection import HttpConnection
from routelog.management.calls.listing import PAGES, list_query, listed, wanted_columns
from routelog.management.calls.log_tokens import LogTokens
from routelog.management.calls.path_template import matched
from routelog.management.calls.request_origin import SAFE_METHODS, check_origin, port_of
from routelog.management.calls.stored_answer import StoredAnswers
from routelog.management.sampling.sampler import Sampler
from routelog.management.server.api_calls import ApiCalls
from routelog.management.server.http_server import (
    HttpServer,
    client_address,
    client_host,
    fault,
    is_gone,
)
from routelog.management.server.node_answers import NodeAnswers
from routelog.management.server.openapi import openapi_document
from routelog.management.server.page_server import PageServer
from routelog.management.server.routes import ROUTES, Route
from routelog.management.views.rabbitmq_views import CLI


def prepare(version: str) -> None:
    """Make what takes long and any server needs: a node that begins to lead must not hold the event loop."""
    openapi_document(ROUTES, version)


_CALLER = "routelog caller"  # of a request that has one

STREAM_BYTES = 65_536  # larger answers are written in pieces

# RabbitMQ's: clients such as the Nagios checks send a password to the realm that they know only.
REALM = 'Basic realm="RabbitMQ Management"'

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ManagementServer(HttpServer):
    """The management of one broker over HTTP.

    Attributes:
        answers: what other nodes are told.

    Args:
        token: for local commands, allows everything.
        silent_seconds: for the first request of a connection.
    """

    def __init__(self, broker: BrokerSide, token: str, silent_seconds: float) -> None:
        self._broker = broker
        self._token = token
        self._log_tokens = LogTokens(broker.log_token_key, broker.clock)
        self._stored_answers = StoredAnswers(broker.logs)
        self._sampler = Sampler(broker.vhosts, broker.clock, lambda: broker.space.free)
        self._calls = ApiCalls(broker, self._log_tokens, self._sampler)
        self.answers = NodeAnswers(self._calls, broker.users.permissions)
        application = web.Application(
            client_max_size=DEFINITIONS_BYTES_MAX, middlewares=[self._answered]
        )
        for route in ROUTES:
            # As in RabbitMQ: some clients end each path with a slash.
            path = f"/api{matched(route.path)}{{slash:/?}}"
            for method in route.methods:
                application.router.add_route(method, path, self._handler(route))
        PageServer(broker, self._calls, self._note_refusal).add_to(application.router)
        document = msgspec.json.encode(self._calls.document)
        application.router.add_get("/api/openapi.json", _constant(document))
        application.router.add_post("/api/login{slash:/?}", self._login)
        for path in ("/cli", "/cli/", "/cli/rabbitmqadmin"):
            application.router.add_get(path, _constant(CLI, "text/plain"))
        super().__init__(application, silent_seconds, broker.vhosts.events.note)

    async def start(self) -> None:
        """Prepare for connections; call `stop` at the end."""
        await super().start()
        self._sampler.start()

    def lead(self) -> None:
        """The node leads: its queues are here from now on."""
        self._sampler.count_queues()

    async def stop(self) -> None:
        """End the requests under way; listeners are closed before."""
        await self._sampler.stop()
        await super().stop()

    @web.middleware
    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Turn whatever a handler raises into an answer, and add what every answer has."""
        try:
            assert isinstance(request.protocol, HttpConnection)
            host = request.headers.get("Host", "")
            port_of(host, request.scheme)
            if not request.protocol.is_tls:
                self._broker.host_names.check(host)
            response = await handler(request)
        except web.HTTPMethodNotAllowed as error:
            response = _methods(request, error)
        except web.HTTPException as error:
            name = "Object Not Found" if error.status == 404 else error.reason
            response = _failure(Refused(error.status, name, error.reason))
        except Exception as error:
            if isinstance(error, ConnectionError) and is_gone(request):
                raise  # the client left
            answer = refused(error) or fault(request, error)
            if answer.status in (401, 403):
                caller: Caller | None = request.get(_CALLER)
                user = None if caller is None else caller.actor_name
                self._note_refusal(request, answer, user)
            response = _failure(answer)
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    def _note_refusal(self, request: web.Request, answer: Refused, user: str | None) -> None:
        # Without the query, which may have secrets.
        said = {"method": request.method, "path": request.path, "status": answer.status}
        said |= {"cause": answer.cause, "user": user, "name": answer.name}
        address = client_address(request)
        self._broker.vhosts.events.note("http.refused", **said, address=address)

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            check_origin(request.method, request.headers, request.scheme)
            request[_CALLER] = caller = await self._caller(request)
            answer = await self._calls.carried_out(
                route, request.method, request, caller, client_address(request)
            )
            if isinstance(answer, Stored):
                return await self._stored_answers.answer(request, answer.stretch, HEADERS)
            return await _response(request, answer, has_pages=route.operation.has_pages)

        return handle

    async def _login(self, request: web.Request) -> web.StreamResponse:
        """Say whether a form has a name and a password that may manage, as RabbitMQ's page asks."""
        check_origin(request.method, request.headers, request.scheme)
        caller = await by_form(self._broker, request.content, client_host(request))
        if not caller.has(Need.MANAGEMENT):
            raise not_authorised("Not management user")
        return _json("ok", 200)

    async def _caller(self, request: web.Request) -> Caller:
        header = request.headers.get("Authorization")
        if header is None:
            raise Refused(401, "not_authorized", "", cause="no credentials")
        caller = await authenticated(
            self._broker, self._token, self._log_tokens, header, client_host(request)
        )
        assert isinstance(request.protocol, HttpConnection)
        request.protocol.authenticated()
        return caller


# -- answers


async def _response(
    request: web.Request, answer: Value | Empty | Pieces | Listing, *, has_pages: bool
) -> web.StreamResponse:
    if isinstance(answer, Empty):
        place = {"Location": answer.location} if answer.location else None
        return web.Response(status=answer.status, headers=place)
    if isinstance(answer, Value):
        return _json(_columns_of(answer.value, request), answer.status)
    if isinstance(answer, Pieces):
        headers = {}
        if answer.file_name:
            headers["Content-Disposition"] = f'attachment; filename="{_safe(answer.file_name)}"'
        return await _streamed(request, answer.pieces, headers)
    query = {n: request.query[n] for n in request.query if has_pages or n not in PAGES}
    return await _streamed(request, await listed(answer, list_query(query)), {})


def _columns_of(value: object, request: web.Request) -> object:
    columns = wanted_columns(request.query)
    if columns is None or request.method not in SAFE_METHODS:
        return value
    value = as_json(value)
    if isinstance(value, list):
        return [selected(each, columns) if isinstance(each, dict) else each for each in value]
    return selected(value, columns) if isinstance(value, dict) else value


def _json(value: object, status: int) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


async def _streamed(
    request: web.Request, pieces: AsyncIterator[bytes], headers: dict[str, str]
) -> web.StreamResponse:
    gathered = bytearray()
    async for piece in pieces:
        gathered += piece
        if len(gathered) > STREAM_BYTES:
            break
    else:
        return web.Response(body=bytes(gathered), content_type="application/json", headers=headers)
    response = web.StreamResponse(headers={**HEADERS, **headers})
    response.content_type = "application/json"
    await response.prepare(request)
    if request.method != "HEAD":  # which has no length then
        await response.write(bytes(gathered))
        async for piece in pieces:
            await response.write(piece)
    await response.write_eof()
    return response


def _safe(file_name: str) -> str:
    return "".join(
        each for each in file_name if each.isascii() and (each.isalnum() or each in "._-")
    )


def _constant(
    body: bytes, kind: str = "application/json"
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=kind)

    return handle


def _methods(request: web.Request, error: web.HTTPMethodNotAllowed) -> web.Response:
    # OPTIONS needs no credentials, as in RabbitMQ: the paths are documented anyway.
    if request.method == "OPTIONS":
        response = web.Response()
    else:
        response = _failure(Refused(error.status, error.reason, error.reason))
    response.headers["Allow"] = ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
    return response


def _failure(answer: Refused) -> web.Response:
    response = _json({"error": answer.error, "reason": answer.reason}, answer.status)
    if answer.status == 503:
        response.headers["Retry-After"] = str(ceil(answer.retry_seconds))
    if answer.status == 401:
        response.headers["WWW-Authenticate"] = REALM
    return response
