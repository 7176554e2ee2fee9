"""A browser without a screen: it keeps cookies, reads pages as trees, and sends their forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, cached_property
from typing import Any

import aiohttp
from support.html_document import Element, read_html
from unit.management.managed_node import ManagedNode
from yarl import URL

from routelog.management.pages.rendering import Rendering
from routelog.management.server.server import ManagementServer
from routelog.vhosts import Permission, User

ALL = Permission(".*", ".*", ".*")

# Templates keep nothing of a page, and take long to compile.
rendering = cache(Rendering)


class _Counted:
    def authenticated(self) -> None: ...

    def closed(self) -> None: ...


class Answer:
    """What came.

    Attributes:
        text: as it was sent.
    """

    def __init__(self, status: int, headers: Any, text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @cached_property
    def page(self) -> Element:
        """Its content."""
        return read_html(self.text)

    @property
    def refusal(self) -> str:
        """Why a form was refused, as its page says."""
        return self.page.one("p", role="alert").text

    @property
    def form_token(self) -> str:
        """Of the session that it was shown in."""
        return self.page.all("input", name="form_token")[0]["value"]


class Browser:
    """Asks for pages of one server."""

    def __init__(self, node: ManagedNode, client: aiohttp.ClientSession, port: int) -> None:
        self.node = node
        self.origin = f"http://127.0.0.1:{port}"
        self._client = client

    async def ask(self, method: str, path: str, *, follow: bool = True, **more: Any) -> Answer:
        """An answer; a redirection is followed."""
        url = URL(self.origin + path, encoded=True)
        async with self._client.request(method, url, allow_redirects=follow, **more) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def get(self, path: str, **more: Any) -> Answer:
        """A page."""
        return await self.ask("GET", path, **more)

    async def page(self, path: str) -> Element:
        """A page that is there."""
        answer = await self.get(path)
        assert answer.status == 200, answer.text
        return answer.page

    async def sign_in(self, user: str, password: str = "secret", to: str = "/") -> Answer:
        """Sign in by the form."""
        said = {"user": user, "password": password, "to": to}
        return await self.ask("POST", "/sign-in", data=said)

    async def sign_in_as(self, name: str, *tags: str) -> None:
        """Make a user who may do everything in vhost `/` that his tags allow, and sign in."""
        await self.node.users.put_user(User(name, "hash of secret", tags))
        await self.node.users.set_permissions(name, "/", ALL)
        answer = await self.sign_in(name)
        assert answer.status == 200, answer.text

    async def send(self, page: str, action: str, **said: Any) -> Answer:
        """Fill in a form of a page and send it; what is not said stays as it stands there."""
        (form, *_) = [
            each
            for each in (await self.page(page)).all("form", method="post")
            if each["action"] == action and set(said) <= _names(each)
        ]
        filled: dict[str, Any] = values(form) | said
        return await self.ask("POST", action, data=pairs(filled))


def pairs(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a form sends: a list is one name several times, and None not at all."""
    return [
        (name, each)
        for name, value in said.items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]


def _names(form: Element) -> set[str]:
    return {each["name"] for each in form.walk() if "name" in each.attributes}


def values(form: Element) -> dict[str, str]:
    """What a form says as it stands."""
    found: dict[str, str] = {}
    for each in form.walk():
        name = each.get("name")
        if name is None or each.tag == "button":
            continue
        if each.tag == "select":
            options = each.all("option")
            chosen = [option for option in options if "selected" in option.attributes]
            found[name] = (chosen or options)[0]["value"]
        elif each.tag == "textarea":
            found[name] = each.raw_text.removeprefix("\n")
        elif each.get("type") != "checkbox" or "checked" in each.attributes:
            found[name] = each.get("value") or ""
    return found


@asynccontextmanager
async def browsing(node: ManagedNode) -> AsyncIterator[Browser]:
    """A server until it is stopped, and a browser."""
    management = ManagementServer(node.broker, "token", 60)
    await management.start()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: management.serve(_Counted()), "127.0.0.1", 0)
    jar = aiohttp.CookieJar(unsafe=True)  # also of addresses
    async with aiohttp.ClientSession(cookie_jar=jar) as client:
        yield Browser(node, client, listener.sockets[0].getsockname()[1])
    listener.close()
    await management.stop()
