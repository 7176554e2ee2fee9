"""Readers of logs: listed, moved after a dry run, deleted."""

import pytest
from support.queue_samples import records
from unit.management.page_browser import Browser

from routelog.management.views import log_readers

PAGE = "/readers/%2F/s/lake"


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    """Stream "s" with three messages, of which reader "lake" has read one."""
    node = browser.node
    queue = await node.queue("s", x_queue_type="stream", x_durability="memory")
    queue.publish(records(*"abc"), waited=False)
    body = {"offsets": {"0": 1}}
    await node.ask(log_readers.put_reader, queue="s", name="lake", body=body)
    return browser


async def test_a_reader_is_moved_after_a_dry_run_and_deleted(browser: Browser) -> None:
    await browser.sign_in_as("ann", "management")
    page = await browser.page("/readers?sort=messages_ready&sort_reverse=true")
    assert page.rows()[0][:2] == ["s / stream", "3"]
    assert page.rows()[1] == ["lake /", "s", "2", "0", "0", "1", "no"]
    links = [each["href"] for each in page.one("main").all("a", class_="name")]
    assert links == ["/queues/%2F/s", PAGE, "/queues/%2F/s"]
    assert (await browser.page(PAGE)).rows()[0][:3] == ["0", "1", "2"]
    move = "/do/move-reader"
    answer = await browser.send(PAGE, move, to="next")
    said = answer.page.one("p", role="status").text
    assert said == "It would skip 2 messages, and read 0 once more."
    assert (await browser.page(PAGE)).rows()[0][:3] == ["0", "1", "2"]
    answer = await browser.send(PAGE, move, to="next", dry_run=None)
    assert answer.page.one("p", role="status").text == "It goes on at its new place."
    assert answer.page.rows()[0][:3] == ["0", "3", "0"]
    answer = await browser.send(PAGE, move, to="never")
    assert "never" in answer.refusal
    answer = await browser.send(PAGE, "/do/delete-reader", confirm="lake")
    assert answer.page.one("p", role="status").text == "Nothing is kept for lake any more."
    assert (await browser.get(PAGE)).status == 404


async def test_who_looks_on_moves_nothing(browser: Browser) -> None:
    await browser.sign_in_as("eve", "monitoring")
    page = await browser.page(PAGE)
    assert page.rows()[0][:3] == ["0", "1", "2"]
    assert page.all("form", method="post") == page.all("form", action="/sign-out")
