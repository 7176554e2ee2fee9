"""The web page over HTTP: from a request to its page and back, and who has signed in."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qs, quote

from aiohttp import web

from routelog.management.calls.authentication import by_password
from routelog.management.calls.broker_side import BrokerSide
from routelog.management.calls.call import in_body_time
from routelog.management.calls.caller import Caller, Need
from routelog.management.calls.failures import Refused, bad_request, refused
from routelog.management.calls.file_form import FORM, BadForm, fields_of_form
from routelog.management.calls.http_connection import HttpConnection
from routelog.management.calls.path_template import matched, part_names
from routelog.management.calls.request_origin import check_site, port_of
from routelog.management.pages.changes import in_words, own_path
from routelog.management.pages.definition_pages import DOCUMENT_BYTES_MAX
from routelog.management.pages.frame import menu_state, names_of_vhosts, opened_menu
from routelog.management.pages.rendering import Rendering
from routelog.management.pages.sessions import SESSION_SECONDS, FailedForm, Session, Sessions
from routelog.management.pages.static_files import StaticFiles
from routelog.management.pages.visit import Moved, Saved, Shown, Visit
from routelog.management.server.api_calls import ApiCalls
from routelog.management.server.http_server import client_address, client_host, fault
from routelog.management.server.page_table import PAGES, Page

FORM_BYTES_MAX = 256 * 1024  # read and taken apart in one turn: 2 ms
FIELDS_MAX = 1_000
UPLOAD_BYTES_MAX = DOCUMENT_BYTES_MAX + FORM_BYTES_MAX  # of a form with a file

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # forms send their `Origin`, which "no-referrer" would make null
}
_OTHER_PATHS = "/{path:(?!api(?:/|$)|cli(?:/|$)|static/).*}"
_NOT_SAID_AGAIN = {"password", "confirm", "form_token"}  # of a form that is shown again
CHOSEN_VHOST = "in"  # of a query: lists show things of this vhost from now on, or of all
KEPT = "public, max-age=31536000, immutable"  # a static file's address changes with its content

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _SignedOut(Exception):
    """The session has ended while the form came."""


class PageServer:
    """Serves the pages of one broker.

    Args:
        note_refusal: writes a refused request to the log, with the user.
    """

    def __init__(
        self,
        broker: BrokerSide,
        calls: ApiCalls,
        note_refusal: Callable[[web.Request, Refused, str | None], None],
    ) -> None:
        self._broker = broker
        self._calls = calls
        self._note_refusal = note_refusal
        self._sessions = Sessions(broker.users, broker.clock)
        self._loaded: tuple[Rendering, StaticFiles] | None = None

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the pages' paths."""
        router.add_get("/static/{name}", self._static)
        router.add_post("/sign-in", self._sign_in)
        router.add_post("/sign-out", self._signed_in(self._sign_out))
        for page in PAGES:
            handler = self._signed_in(self._shows(page))
            add = router.add_get if page.method == "GET" else router.add_post
            add(matched(page.path), handler)
        router.add_get(_OTHER_PATHS, self._signed_in(self._no_page))

    # -- who it is

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        to = "/"
        try:
            check_site(request.headers, request.scheme)
            form = await _form(request, takes_file=False)
            name, to = _first(form, "user"), own_path(_first(form, "to"))
            password = _first(form, "password").encode()
            caller = await by_password(self._broker, name, password, client_host(request))
            if not caller.has(Need.MANAGEMENT):
                raise Refused(401, "not_authorised", "This user has no tag that opens the pages")
        except Exception as error:
            answer = self._refusal(request, error, None)
            return await self._sign_in_form(request, to, answer.reason, answer.status)
        cookie = self._sessions.begin(self._broker.users.get(name))
        response = _moved(to)
        response.set_cookie(
            _cookie_name(request),
            cookie,
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="Strict",
            secure=_is_https(request),
        )
        return response

    async def _sign_out(self, request: web.Request, session: Session) -> web.StreamResponse:
        await self._checked_form(request, session)
        self._sessions.end(request.cookies[_cookie_name(request)])
        response = _moved("/")
        response.del_cookie(_cookie_name(request))
        return response

    async def _sign_in_form(
        self, request: web.Request, to: str, reason: str = "", status: int = 401
    ) -> web.StreamResponse:
        shown = Shown("sign_in.html", {"to": to, "reason": reason}, status)
        response = await self._html(request, shown, {"visit": None})
        # The form does not replace a part of a page.
        response.headers["HX-Refresh"] = "true"
        return response

    def _signed_in(
        self, handler: Callable[[web.Request, Session], Awaitable[web.StreamResponse]]
    ) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            session = self._session(request)
            rule = self._broker.loopback_rule
            if session is None or not rule.allows(session.user.name, client_host(request)):
                return await self._sign_in_form(request, _path(request))
            assert isinstance(request.protocol, HttpConnection)
            request.protocol.authenticated()
            try:
                return await handler(request, session)
            except _SignedOut:
                return await self._sign_in_form(request, _path(request))
            except Exception as error:
                answer = self._refusal(request, error, session.user.name)
                # 401 is for who has to sign in.
                status = 403 if answer.status == 401 else answer.status
                shown = Shown("error.html", {"reason": answer.reason}, status)
                frame = await self._frame(request, self._visit(request, session, {}))
                return await self._html(request, shown, frame)

        return handle

    def _session(self, request: web.Request) -> Session | None:
        return self._sessions.find(request.cookies.get(_cookie_name(request), ""))

    def _refusal(self, request: web.Request, error: Exception, user: str | None) -> Refused:
        if isinstance(error, ConnectionError):
            raise error  # the client left
        answer = refused(error) or fault(request, error)
        if answer.status in (401, 403):
            self._note_refusal(request, answer, user)
        return answer

    # -- pages

    def _shows(self, page: Page) -> Callable[[web.Request, Session], Awaitable[web.StreamResponse]]:
        async def show(request: web.Request, session: Session) -> web.StreamResponse:
            form = await self._checked_form(request, session) if page.method == "POST" else {}
            visit = self._visit(request, session, form)
            if page.method == "GET" and CHOSEN_VHOST in visit.query:
                session.vhost = visit.asked(CHOSEN_VHOST)
                return _moved(own_path(request.rel_url.raw_path + visit.here(**{CHOSEN_VHOST: ""})))
            if page.method == "POST" and not visit.may_change:
                raise Refused(403, "forbidden", "A user whose only tag is monitoring looks on")
            try:
                answer = await page.handler(visit)
            except Exception as error:
                answer = self._failed(request, session, page, form, error)
            if isinstance(answer, Moved):
                return _moved(answer.to)
            if isinstance(answer, Saved):
                return await _saved(request, answer)
            return await self._html(request, answer, await self._frame(request, visit))

        return show

    async def _no_page(self, request: web.Request, session: Session) -> web.StreamResponse:
        values = {"reason": "There is no such page.", "list": "", "name": ""}
        frame = await self._frame(request, self._visit(request, session, {}))
        return await self._html(request, Shown("not_found.html", values, 404), frame)

    def _failed(
        self,
        request: web.Request,
        session: Session,
        page: Page,
        form: Mapping[str, list[str]],
        error: Exception,
    ) -> Shown | Moved:
        """A refused form is shown again, on its page; what is not there has a page that says so."""
        answer = self._refusal(request, error, session.user.name)
        if page.method == "POST" and "back" in form:
            said = {name: values for name, values in form.items() if name not in _NOT_SAID_AGAIN}
            session.failed = FailedForm(_first(form, "form"), in_words(answer.reason), said)
            return Moved(f"{own_path(_first(form, 'back'))}#{quote(session.failed.form)}")
        names = part_names(page.path)
        if answer.status == 404 and page.method == "GET" and names:
            values = {"reason": in_words(answer.reason), "list": f"/{page.path.split('/')[1]}"}
            name = request.match_info[names[-1]]
            return Shown("not_found.html", {**values, "name": name}, 404)
        raise answer

    async def _checked_form(self, request: web.Request, session: Session) -> dict[str, list[str]]:
        check_site(request.headers, request.scheme)
        form = await _form(request)
        if self._session(request) is not session:
            raise _SignedOut
        shown = _first(form, "form_token").encode()
        if not hmac.compare_digest(shown, session.form_token.encode()):
            raise Refused(
                403, "forbidden", "The form is not one of this session: open the page again"
            )
        return form

    def _visit(
        self, request: web.Request, session: Session, form: Mapping[str, list[str]]
    ) -> Visit:
        user = session.user
        caller = Caller(user.name, user.tags, self._broker.users.permissions)
        if session.vhost and session.vhost not in names_of_vhosts(self._broker, caller):
            session.vhost = ""  # it was deleted, or closed to the user
        return Visit(
            caller,
            session,
            client_address(request),
            self._calls,
            dict(request.match_info),
            {name: request.query.getall(name) for name in request.query},
            form,
            self._broker.findings,
        )

    async def _frame(self, request: web.Request, visit: Visit) -> dict[str, Any]:
        session = visit.session
        notice, failed = "", None
        if "HX-Request" not in request.headers:  # else only a part of the page is shown
            notice, session.notice = session.notice, ""
            failed, session.failed = session.failed, None
        scheme = "https" if _is_https(request) else "http"
        clock, node = self._broker.clock, self._broker.node
        now = clock.now() / 1_000_000
        return {
            "visit": visit,
            "menu": opened_menu(visit),
            "menu_state": await menu_state(self._broker, visit),
            "all_vhosts": names_of_vhosts(self._broker, visit.caller),
            "now": now,
            "began": now - (clock.monotonic() - node.started_at),
            "here": _path(request),
            "path": request.rel_url.raw_path,
            "notice": notice,
            "failed": failed,
            "origin": f"{scheme}://{request.host}",
            "cluster": self._broker.cluster_name(),
            "node": node,
        }

    async def _html(
        self, request: web.Request, shown: Shown, frame: Mapping[str, Any]
    ) -> web.Response:
        rendering, static = await self._files()
        values = {**frame, **shown.values, "static": static.address}
        text = await rendering.html(shown.template, values)
        return web.Response(
            text=text, status=shown.status, content_type="text/html", headers=PAGE_HEADERS
        )

    async def _static(self, request: web.Request) -> web.StreamResponse:
        file = (await self._files())[1].find(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound
        headers = {**PAGE_HEADERS, "Cache-Control": KEPT}
        return web.Response(
            body=file.content, content_type=file.media_type, charset="utf-8", headers=headers
        )

    async def _files(self) -> tuple[Rendering, StaticFiles]:
        # With the first page, as most brokers show none; in a thread, as it takes a tenth of a second.
        # A failure, as of too many open files, is not kept.
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(_loaded)
        return self._loaded


@cache
def _loaded() -> tuple[Rendering, StaticFiles]:
    return Rendering(), StaticFiles()


# -- requests


async def _form(request: web.Request, *, takes_file: bool = True) -> dict[str, list[str]]:
    # Strangers send no file: their forms stay small.
    has_file = takes_file and request.content_type == FORM
    body = await _body(request, UPLOAD_BYTES_MAX if has_file else FORM_BYTES_MAX)
    try:
        if has_file:
            return _with_texts(fields_of_form(request.headers["Content-Type"], body))
        # Browsers write the ends of lines as HTTP does.
        text = body.decode("ascii").replace("%0D%0A", "%0A")
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except BadForm as error:
        raise bad_request(str(error)) from None
    except ValueError:
        raise bad_request("this is no form, or a file that is no text") from None


async def _body(request: web.Request, bytes_max: int) -> bytearray:
    body = bytearray()
    async with in_body_time():
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > bytes_max:
                reason = f"a form is larger than {bytes_max} bytes"
                raise Refused(413, "payload_too_large", reason)
    return body


def _with_texts(fields: Iterable[tuple[str, bytes]]) -> dict[str, list[str]]:
    # A file is one more text of the form.
    form: dict[str, list[str]] = {}
    for name, content in fields:
        form.setdefault(name, []).append(content.decode())
    return form


def _first(form: Mapping[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0]


def _cookie_name(request: web.Request) -> str:
    # Cookies do not know ports: each node of a machine has one of its own name.
    return f"routelog-{port_of(request.headers.get('Host', ''), request.scheme)}"


def _is_https(request: web.Request) -> bool:
    # Behind a proxy that ends TLS, the browser says so with each form.
    return request.scheme == "https" or request.headers.get("Origin", "").startswith("https:")


def _path(request: web.Request) -> str:
    return request.path_qs if request.method == "GET" else "/"


# -- answers


async def _saved(request: web.Request, answer: Saved) -> web.StreamResponse:
    disposition = f'attachment; filename="{answer.file_name}"'
    headers = {**PAGE_HEADERS, "Content-Disposition": disposition, "Cache-Control": "no-store"}
    response = web.StreamResponse(headers=headers)
    response.content_type = "application/json"
    await response.prepare(request)
    async for piece in answer.pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def _moved(to: str) -> web.Response:
    return web.Response(status=303, headers={"Location": to})
