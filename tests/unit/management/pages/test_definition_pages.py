"""Definitions: uploaded, planned, imported, saved as a file."""

import json
from typing import Any

import aiohttp
import pytest
from unit.management.page_browser import Answer, Browser, values

from routelog.management.pages.definition_pages import DOCUMENT_BYTES_MAX

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


async def uploaded(browser: Browser, document: bytes, **said: str) -> Answer:
    """The answer to the form with a file."""
    form = aiohttp.FormData()
    form.add_field("form_token", (await browser.get("/definitions")).form_token)
    for name, value in said.items():
        form.add_field(name, value)
    form.add_field("document", document, filename="d.json", content_type="application/json")
    return await browser.ask("POST", "/definitions/plan", data=form)


async def imported(browser: Browser, plan: Answer) -> Answer:
    """The answer to the form of a plan."""
    (form,) = plan.page.all("form", action="/definitions/import")
    data = aiohttp.FormData()
    for name, value in values(form).items():
        data.add_field(name, value, content_type="text/plain")
    return await browser.ask("POST", "/definitions/import", data=data)


def document(**entries: Any) -> bytes:
    return json.dumps(entries).encode()


async def test_a_document_is_planned_and_then_imported(browser: Browser) -> None:
    plan = await uploaded(browser, document(queues=[QUEUE, {**QUEUE, "name": "é"}]))
    assert plan.page.rows() == [
        ["Queues", "2", "0", "0", "0"],
        ["added", "queues", "/", "q", ""],
        ["added", "queues", "/", "é", ""],
    ]
    assert not browser.node.vhost.queues
    answer = await imported(browser, plan)
    assert answer.page.one("p", role="status").text == "The definitions are imported."
    assert set(browser.node.vhost.queues) == {"q", "é"}
    again = await uploaded(browser, document(queues=[QUEUE]))
    assert "All of it is there already" in again.page.text


async def test_a_document_goes_into_one_vhost_with_what_has_no_effect(browser: Browser) -> None:
    shovel = {"component": "shovel", "name": "s", "value": {}}
    content = document(queues=[{**QUEUE, "vhost": "gone"}], parameters=[shovel])
    plan = await uploaded(browser, content, vhost="/")
    assert "It would be refused, and change nothing: parameters[0] 's'" in plan.page.text
    assert plan.page.all("form", action="/definitions/import") == []
    plan = await uploaded(browser, content, vhost="/", keep="on")
    assert "Kept without effect" in plan.page.text
    answer = await imported(browser, plan)
    assert answer.page.one("p", role="status").text.endswith("Kept without effect: 1.")
    assert set(browser.node.vhost.queues) == {"q"}


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 400, "no document is chosen"),
        (b"\xff", 400, "a file that is no text"),
        (b"{", 200, "not_json"),
        (b"[]", 200, "it is no JSON object"),
        (b" " * (2 * DOCUMENT_BYTES_MAX), 413, "larger than"),
    ],
)
async def test_what_is_no_document_is_refused(
    browser: Browser, content: bytes, status: int, reason: str
) -> None:
    answer = await uploaded(browser, content)
    assert (answer.status, reason in answer.page.text) == (status, True)


async def test_an_upload_needs_the_form_of_the_session(browser: Browser) -> None:
    for content_type in ("multipart/form-data; boundary=x", "multipart/form-data"):
        answer = await browser.ask(
            "POST",
            "/definitions/import",
            data=b"--x\r\nContent-Disposition: form-data; name=document\r\n\r\n{}\r\n--x--\r\n",
            headers={"Content-Type": content_type},
        )
        assert answer.status in (400, 403), answer.text


async def test_definitions_are_saved(browser: Browser) -> None:
    await browser.node.queue("q")
    answer = await browser.get("/definitions/file")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="definitions.json"'
    assert [each["name"] for each in json.loads(answer.text)["users"]] == ["ann"]
    of_vhost = json.loads((await browser.get("/definitions/file?vhost=%2F")).text)
    assert [each["name"] for each in of_vhost["queues"]] == ["q"]
    assert "users" not in of_vhost
    assert (await browser.get("/definitions/file?vhost=nothing")).status == 404
