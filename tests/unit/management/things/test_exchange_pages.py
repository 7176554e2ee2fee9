"""One exchange, and where a key would go."""

from dataclasses import replace

import pytest
from unit.management.page_browser import Browser

from routelog.management.pages.visit import FIRST_ROWS
from routelog.management.things import exchange_pages, queue_page
from routelog.management.views import exchange_views


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


async def test_an_exchange_is_added_bound_tried_unbound_and_deleted(browser: Browser) -> None:
    answer = await browser.send("/exchanges", "/do/declare-exchange", name="a/x", type="topic")
    assert answer.page.one("p", role="status").text == "Exchange a/x is there."
    here = "/exchanges/%2F/a%2Fx"
    for name in ("first", "second"):
        await browser.node.queue(name)
    tab = f"{here}/bindings"
    answer = await browser.send(tab, "/do/bind", destination="first", routing_key="a.#")
    assert answer.page.one("p", role="status").text == "a/x leads to first."
    # Also by an exchange in between.
    answer = await browser.send(
        tab, "/do/bind", kind="e", destination="amq.fanout", routing_key="a.b"
    )
    assert answer.status == 200
    await browser.send("/exchanges/%2F/amq.fanout/bindings", "/do/bind", destination="second")

    page = await browser.page(tab)
    assert [row[:2] for row in page.rows()[-2:]] == [
        ["first", "a.#"],
        ["exchange amq.fanout", "a.b"],
    ]
    page = await browser.page(f"{here}?routing_key=a.b")
    (found,) = [each for each in page.all("p", role="status") if "2 queues" in each.text]
    lit = [each["d"] for each in page.all("path", class_="lit")]
    assert len(lit) == 3  # first; amq.fanout; and second behind it
    titles = [each.one("title").text for each in page.all("a", class_="lit")]
    assert {"queue first", "queue second"} < set(titles)
    assert "/queues/%2F/second" in [each["href"] for each in page.all("a", class_="lit")]
    assert found.text == "To 2 queues: first , second ."
    links = [each["href"] for each in page.all("a")]
    assert {"/queues/%2F/first", "/queues/%2F/second"} <= set(links)
    page = await browser.page(f"{here}?routing_key=b")
    assert "To no queue" in page.one("p", role="status").text
    page = await browser.page(f"{here}?routing_key=b&headers=[]")
    assert "Headers: Expected `object`" in page.one("p", role="alert").text

    answer = await browser.send(tab, "/do/unbind")
    assert "does not lead to first" in answer.page.one("p", role="status").text
    answer = await browser.send(f"{here}/danger", "/do/delete-exchange", confirm="x")
    assert "has to be typed" in answer.refusal
    answer = await browser.send(f"{here}/danger", "/do/delete-exchange", confirm="a/x")
    assert answer.page.one("h1").text == "Exchanges"
    assert (await browser.get(here)).status == 404


async def test_headers_decide_where_a_headers_exchange_leads(browser: Browser) -> None:
    await browser.node.queue("q")
    here = "/exchanges/%2F/amq.headers"
    arguments = '{"x-match": "all", "n": 1}'
    await browser.send(f"{here}/bindings", "/do/bind", destination="q", arguments=arguments)
    page = await browser.page(f'{here}?routing_key=&headers={{"n":1}}')
    assert "To 1 queue:" in page.text
    page = await browser.page(f'{here}?routing_key=&headers={{"n":2}}')
    assert "To no queue" in page.text


async def test_the_default_exchange_has_a_name_in_addresses(browser: Browser) -> None:
    await browser.node.queue("q")
    page = await browser.page("/exchanges")
    assert "/exchanges/%2F/amq.default" in [each["href"] for each in page.all("a")]
    page = await browser.page("/exchanges/%2F/amq.default?routing_key=q")
    assert page.one("h1").text == "The default exchange"
    assert "To 1 queue:" in page.text
    for tab, actions in (("bindings", []), ("publish", ["/do/publish"]), ("danger", [])):
        page = await browser.page(f"/exchanges/%2F/amq.default/{tab}")
        forms = page.one("main").all("form", method="post")
        assert [each["action"] for each in forms] == actions


async def test_of_many_bindings_the_first_are_shown_and_the_others_counted(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(FIRST_ROWS, page_size=2)
    for pages in (exchange_pages, queue_page):
        monkeypatch.setattr(pages, "FIRST_ROWS", few)
    await browser.node.queue("q")
    for key in ("a", "b", "c"):
        said = {"routing_key": key}
        await browser.send("/exchanges/%2F/amq.topic/bindings", "/do/bind", destination="q", **said)
        await browser.send(
            "/exchanges/%2F/amq.topic/bindings",
            "/do/bind",
            kind="e",
            destination="amq.fanout",
            **said,
        )
    page = await browser.page("/exchanges/%2F/amq.topic/bindings")
    assert "And 4 more." in page.text
    page = await browser.page("/exchanges/%2F/amq.fanout/bindings")
    assert "And 1 more." in page.text
    page = await browser.page("/queues/%2F/q/bindings")  # also bound to the default exchange
    assert "And 2 more." in page.text


BODY = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}


async def test_an_exchange_leads_to_what_it_holds(browser: Browser) -> None:
    await browser.node.ask(exchange_views.put_exchange, name="later", body=BODY)
    await browser.sign_in_as("ann", "management")
    page = await browser.page("/exchanges/%2F/later")
    links = [each["href"] for each in page.one("main").all("a")]
    assert "/exchanges/%2F/later/delayed" in links
    page = await browser.page("/exchanges/%2F/later/delayed")
    assert "0 messages are held" in page.text
    assert (await browser.get("/exchanges/%2F/later/delayed?from=x")).status == 400
    assert (await browser.get("/exchanges/%2F/amq.direct/delayed")).status == 404
