"""From a route of the HTTP API and a request to the answer, for clients and for the web page."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from functools import partial

from routelog.log_backend import MetadataUnavailable, NotReplicated
from routelog.management.calls.answer import Answer
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import Asked, Call
from routelog.management.calls.caller import Caller, Need
from routelog.management.calls.failures import (
    bad_request,
    not_authorised,
    not_found,
    refused,
)
from routelog.management.calls.log_tokens import LogTokens
from routelog.management.calls.operation import UNSAID
from routelog.management.calls.path_template import PART, plain
from routelog.management.calls.request_origin import SAFE_METHODS
from routelog.management.sampling.sampler import Sampler
from routelog.management.server.openapi import openapi_document
from routelog.management.server.routes import INNER_ROUTES, ROUTES, Route, Scope
from routelog.vhosts import Actor, acts

_WITHOUT_TAG = {
    Need.MANAGEMENT: "Not management user",
    Need.POLICYMAKER: "User not authorised to access object",
    Need.MONITORING: "Not monitor user",
    Need.ADMINISTRATOR: "Not administrator user",
}


NO_HEADERS: Mapping[str, str] = {}


class ApiCalls:
    """Carries out calls: who may, is checked here, and changes are noted in the log.

    Attributes:
        document: the OpenAPI document.
    """

    def __init__(self, broker: BrokerSide, log_tokens: LogTokens, sampler: Sampler) -> None:
        self._broker = broker
        self._sampler = sampler
        self._log_tokens = log_tokens
        self._routes = {(each.method, plain(each.path)): each for each in ROUTES + INNER_ROUTES}
        self.document = openapi_document(ROUTES, broker.node.version)

    async def carried_out(
        self, route: Route, method: str, request: Asked, caller: Caller, address: str
    ) -> Answer:
        """The answer to a request.

        Args:
            method: GET or HEAD of a route that has GET.
            address: of the client, for the log.
        """
        known = None if route.operation is UNSAID else route.operation.query
        call = Call(request, self._broker, caller, self._log_tokens, self._sampler, known)
        self._check(route, call)
        call.on_body = partial(self._check, route, call)
        actor = Actor(caller.actor_name, address, "HTTP")

        def note(**outcome: str) -> None:
            if not (method in SAFE_METHODS or actor.told or call.is_dry_run):
                event = "http.traffic" if route.is_traffic else "http.changed"
                said = {"method": method, "path": request.path, **outcome}
                self._broker.vhosts.events.note(event, **said)

        try:
            with acts(actor):
                try:
                    answer = route.handler(call)
                    if isinstance(answer, Awaitable):
                        answer = await self._broker.in_time(answer)
                except (NotReplicated, MetadataUnavailable):
                    note(outcome="unknown")  # it may be committed yet, or be there after a restart
                    raise
                note()
        except self._broker.messages.refusals as error:
            raise bad_request(str(error)) from None
        return answer

    def opens(self, caller: Caller, method: str, path: str) -> bool:
        """Whether the caller's tags open a route."""
        return caller.has(self._routes[method, plain(path)].need)

    async def ask(
        self,
        caller: Caller,
        address: str,
        method: str,
        path: str,
        parts: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        """The answer to a request; an error that has no answer is raised."""
        decoded = PART.sub(lambda part: parts[part[1]], path)
        request = _InnerRequest(f"/api{decoded}", parts, query, _Body(body), headers)
        try:
            return await self.carried_out(
                self._routes[method, plain(path)], method, request, caller, address
            )
        except Exception as error:
            raise refused(error) or error from None

    def _check(self, route: Route, call: Call) -> None:
        # Also when the body is there: that may be minutes later, and the user or the vhost may be another one.
        proved = call.caller.proved
        if proved is not None and self._broker.users.find(proved.name) != proved:
            raise not_authorised("The user was deleted or changed meanwhile")
        if not call.caller.has(route.need):
            raise not_authorised(_WITHOUT_TAG[route.need])
        if call.caller.only_vhost is not None and route.method not in SAFE_METHODS:
            raise not_authorised("a token for logs reads only: this asks for a user's password")
        if not route.has_vhost:
            return
        name = call.path("vhost")
        found = [vhost for vhost in self._broker.vhosts.all() if vhost.name == name]
        if not found or getattr(call, "vhost", found[0]) is not found[0]:
            raise route.without_vhost() if route.without_vhost else not_found("vhost", name)
        call.vhost = found[0]
        caller, scope = call.caller, route.scope
        allowed = {
            Scope.ANY: True,
            Scope.SEEN: caller.sees(name),
            Scope.ENTERED: caller.enters(name),
            Scope.POLICIES: caller.enters(name) or caller.has(Need.ADMINISTRATOR),
        }[scope]
        if not allowed:
            raise not_authorised("User not authorised to access virtual host")


@dataclass(frozen=True, slots=True)
class _Body:
    content: bytes

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.content


@dataclass(frozen=True, slots=True)
class _InnerRequest:
    # See `call.Asked`.
    path: str
    match_info: Mapping[str, str]
    query: Mapping[str, str]
    content: _Body
    headers: Mapping[str, str]
