"""The pages of the HTTP API: every operation is listed, and can be tried."""

from collections.abc import AsyncIterator

import pytest
from support.queue_samples import declare_queue, records
from unit.management.managed_node import ManagedNode
from unit.management.page_browser import Browser, browsing

from routelog.management.server.openapi import operation_id
from routelog.management.server.routes import ROUTES
from routelog.vhosts import QueueProperties


@pytest.fixture
async def browser(node: ManagedNode) -> AsyncIterator[Browser]:
    async with browsing(node) as browser:
        await browser.sign_in_as("ann", "administrator")
        yield browser


async def test_every_operation_has_a_page(browser: Browser) -> None:
    page = await browser.page("/api-docs")
    shown = [each["href"] for each in page.one("tbody").all("a")]
    assert sorted(shown) == sorted(f"/api-docs/{operation_id(route)}" for route in ROUTES)
    found = await browser.page("/api-docs?text=REDRIVE")
    assert len(found.one("tbody").all("a")) == 1
    for address in shown:
        assert (await browser.get(address)).status == 200, address
    assert (await browser.get("/api-docs/nothing")).status == 404


async def test_a_list_is_tried_by_a_link_and_shown_by_the_page(browser: Browser) -> None:
    for number in range(30):
        await browser.node.queue(f"q{number:02}")
    page = await browser.page("/api-docs/get_queues_vhost?try=1&path.vhost=/&query.columns=name")
    assert page.one("p", role="status").text == "Status 200"
    shown = page.all("pre")[0].raw_text
    assert '"page_size": 20' in shown
    assert ('"name": "q19"' in shown, '"name": "q20"' in shown) == (True, False)
    assert "/api/queues/%2F?columns=name" in page.all("pre")[1].raw_text


async def test_a_change_is_made_by_a_form_of_the_session_alone(browser: Browser) -> None:
    address = "/api-docs/put_queues_vhost_name"
    said = {"path.vhost": "/", "path.name": "made", "body": '{"durable": false}'}
    query = "?try=1&path.vhost=/&path.name=made"
    assert not (await browser.page(address + query)).all("p", role="status")
    assert (await browser.ask("POST", address, data=said)).status == 403
    assert "made" not in browser.node.vhost.queues
    answer = await browser.send(address, address, **said)
    assert answer.page.one("p", role="status").text == "Status 201"
    assert not browser.node.vhost.queues["made"].properties.durable
    answer = await browser.send(address, address, **{**said, "body": "{"})
    assert answer.page.one("p", role="status").text == "Status 400"
    assert "not_json" in answer.page.all("pre")[0].raw_text


async def test_a_long_answer_is_cut(browser: Browser) -> None:
    # Not durable: what is published is there at once.
    queue, _ = declare_queue(browser.node.vhost, QueueProperties("q", durable=False), object())
    queue.publish(records("x" * 100_000), True)
    page = await browser.page(
        "/api-docs/get_queues_vhost_name_messages"
        "?try=1&path.vhost=/&path.name=q&query.truncate=100000"
    )
    assert "only the beginning" in page.one("p", role="status").text
    assert len(page.all("pre")[0].raw_text) < 70_000


async def test_a_user_who_looks_on_is_shown_no_form_for_changes(browser: Browser) -> None:
    await browser.sign_in_as("eve", "monitoring")
    assert not (await browser.page("/api-docs/put_queues_vhost_name")).all("button", type="submit")
    page = await browser.page("/api-docs/put_queues_vhost_name")
    assert not page.all("form", action="/api-docs/put_queues_vhost_name")
    page = await browser.page("/api-docs/get_nodes")
    assert page.all("form", action="/api-docs/get_nodes")
