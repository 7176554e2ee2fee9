"""Who may open which page and make which change: every one with every role; and names that carry script."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from support.html_document import Element
from support.queue_samples import records
from unit.management.managed_node import TAKEN, Connection, ManagedNode
from unit.management.page_browser import ALL, Browser, browsing

from routelog.exchanges import Binding, Exchange
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.frame import MENU
from routelog.management.server.page_table import PAGES
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import GroupOptions, VhostRecord

ROLES = ("management", "policymaker", "monitoring", "administrator")

# As in the API's own matrix: what is not here is open to every tag.
OPENED_BY = {
    "/nodes": ("monitoring", "administrator"),
    "/cluster": ("monitoring", "administrator"),
    "/log": ("administrator",),
    "/users": ("administrator",),
    "/permissions": ("administrator",),
    "/definitions": ("administrator",),
}
CHANGED_BY = (
    (
        r"(PUT|DELETE) /(users|permissions|topic-permissions|vhosts|(user|vhost)-limits|operator-policies)\b.*",
        ("administrator",),
    ),
    (r"POST /definitions.*", ("administrator",)),
    (r"(PUT|DELETE) /operator-policies/.*", ("administrator",)),
    (r"(PUT|DELETE) /policies/.*", ("policymaker", "administrator")),
)

DRAWN = {  # what our drawings are made of
    "icon": {"path"},
    "spark": {"polyline"},
    "picture": {"path", "rect", "text", "a", "title"},
}
NO_TEXT = {"number": "1", "json": "{}"}  # what fields hold that take no text

# What a browser would run, if it stood in a page as it is.
SCRIPTS = (
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
)


@pytest.fixture
async def browser(node: ManagedNode) -> AsyncIterator[Browser]:
    async with browsing(node) as browser:
        yield browser


def path_of(page: str, part: str = "nothing-of-this-name") -> str:
    return re.sub(r"\{\w+(:[^}]*)?\}", part, page.replace("{vhost}", "%2F"))


def opens(role: str, api: str) -> bool:
    if api == "/vhosts/{vhost}":
        return role == "administrator"
    return role in OPENED_BY.get("/" + api.split("/")[1], ROLES)


def may(role: str, method: str, path: str) -> bool:
    if role == "monitoring":
        return False
    for pattern, roles in CHANGED_BY:
        if re.fullmatch(pattern, f"{method} {path}"):
            return role in roles
    return True


async def test_a_page_opens_to_those_whom_the_api_answers(browser: Browser) -> None:
    for page in PAGES:
        assert (await browser.ask(page.method, path_of(page.path))).status == 401, page.path
    for role in ROLES:
        await browser.sign_in_as(role, role)
        first = await browser.get("/")
        menu = [each["href"] for each in first.page.one("nav").all("a")]
        entries = [entry for group in MENU.values() for entry in group]
        assert menu == [each.path for each in entries if opens(role, each.api)]
        for page in PAGES:
            if page.method == "GET":
                answer = await browser.get(path_of(page.path))
                assert (answer.status != 403) == opens(role, page.api), (role, page.path)
            else:
                answer = await browser.ask("POST", path_of(page.path), data={})
                assert answer.status == 403, (role, page.path)  # without the session's token
            assert answer.status != 500, answer.text


@pytest.mark.parametrize("role", ROLES)
async def test_a_change_is_made_for_those_whom_the_api_lets_make_it(
    browser: Browser, role: str
) -> None:
    await browser.sign_in_as(role, role)
    token = (await browser.get("/")).form_token
    for change in CHANGES.values():
        said: dict[str, Any] = {
            field.name: field.value or NO_TEXT.get(field.kind, "x") for field in change.fields
        }
        said |= dict.fromkeys(change.parts, "x") | {"vhost": "/", "form_token": token}
        said["confirm"] = said.get(change.confirmed_by, "")
        answer = await browser.ask("POST", f"/do/{change.name}", data=said)
        allowed = may(role, change.method, change.path)
        assert (answer.status != 403) == allowed, (role, change.name, answer.text)
        assert answer.status != 500, answer.text


@pytest.mark.parametrize("text", SCRIPTS)
async def test_names_and_bodies_that_carry_script_are_text(browser: Browser, text: str) -> None:
    node = browser.node
    await browser.sign_in_as(text, "administrator")
    await node.users.set_permissions(text, "/", ALL)
    await node.broker.vhosts.put(VhostRecord(text))
    await node.users.set_permissions(text, text, ALL)
    queue = await node.queue(text, x_dead_letter_exchange=text, x_retention="1D")
    queue.publish(records(text), True)
    node.connections.open.append(Connection(text, text, node.vhost, text))
    vhost = node.vhost
    declared = vhost.declare_exchange(
        Exchange(text, "headers", durable=True, arguments={"a": text})
    )
    bound = vhost.restore_binding(Binding(text, text, "queue", text, {"h": text}))
    for done in (declared, bound):
        if done is not None:
            await done
    vhost.hosted.groups.join(queue, GroupOptions(text), "first", 0)
    node.log_lines = [dict.fromkeys(("time", "level", "message", "event", "by", "trace"), text)]
    node.log_lines[0] |= {"level": "info", "number": 1}
    node.cluster.followers = [{"name": text, "is_connected": True, "bytes": 1, "seconds": 0.0}]
    node.cluster.nodes = [ReplicaState(text), ReplicaState("b")]
    change = {"at": 1, "epoch": 1, "leader": text, "in_sync": [text], "what": text}
    led = {"leader": text, "epoch": 1, "since": 0, "unclean_epoch": None, "history": [change]}
    node.cluster.led = led
    node.alarms = [text]
    node.messages.left = [
        TAKEN.__class__(
            text,
            text,
            True,
            {"headers": {text: text, "x-death": [{"queue": text, "reason": text}]}},
            memoryview(text.encode()),
            0,
        )
    ]
    shown, part = "", browser_part(text)
    for page in PAGES:
        if page.method == "GET" and page.path != "/definitions/file":  # JSON, to be saved
            answer = await browser.get(path_of(page.path, part))
            check_page(answer.page)
            shown += answer.page.raw_text
    for path in (f"/connections/{part}", f"/channels/{part}%20(1)", f"/users/{part}"):
        answer = await browser.get(path)
        assert answer.status == 200
        check_page(answer.page)
    asked = f"action=publish&vhost={part}&name={part}&key={part}"
    check_page(verdict := await browser.page(f"/users/{part}?{asked}"))
    assert f"write '.*' matches '{text}'" in verdict.one("p", role="status").raw_text
    data = {"count": "1", "ackmode": "ack_requeue_true"}
    taken = await browser.send(f"/queues/%2F/{part}/messages", message_path(text), **data)
    check_page(taken.page)
    assert text in taken.page.one("pre").raw_text
    assert text in shown
    answer = await browser.send("/queues", "/do/declare-queue", name=text + "2")
    check_page(answer.page)
    assert text in answer.page.one("p", role="status").raw_text
    answer = await browser.send("/queues", "/do/declare-queue", name="q", arguments='{"' + "x" * 9)
    check_page(answer.page)
    answer = await browser.get(f"/queues?name={part}&sort={part}")
    check_page(answer.page)
    answer = await browser.get(f"/queues/%2F/{part}-gone")
    check_page(answer.page)
    form = aiohttp.FormData({"form_token": answer.form_token, "keep": "on"})
    shovel = {"component": text, "name": text, "vhost": text, "value": text}
    content = json.dumps({"vhosts": [{"name": text + "2"}], "parameters": [shovel], "x": text})
    form.add_field("document", content, filename=text)
    answer = await browser.ask("POST", "/definitions/plan", data=form)
    check_page(answer.page)
    assert content in answer.page.all("input", name="document")[0]["value"]
    assert text + "2" in answer.page.raw_text


def browser_part(text: str) -> str:
    return "".join(f"%{each:02X}" for each in text.encode())


def message_path(text: str) -> str:
    return f"/queues/%2F/{quote(text, safe='')}/get"


def check_page(page: Element) -> None:
    """Nothing that a text could have brought in is a part of the page."""
    for each in page.walk():
        assert each.tag not in ("img", "style", "iframe", "object"), each.attributes
        if each.tag == "svg":  # ours are drawn of nothing else
            kind = each["class"].split()[0]
            assert {inner.tag for inner in each.walk()} <= DRAWN[kind]
        for name, value in each.attributes.items():
            assert not name.startswith("on"), (each.tag, each.attributes)
            assert name != "autofocus" or each["name"] == "user"
            if name in ("href", "src", "action", "hx-get"):
                assert value.startswith(("/", "?", "#")), value
                assert not value.startswith("//")
        if each.tag == "script":
            assert each["src"].startswith("/static/")
            assert each.raw_text == ""
