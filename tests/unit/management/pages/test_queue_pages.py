"""The list of queues, and changes of several at once."""

import pytest
from support.queue_samples import records
from unit.management.page_browser import Browser, pairs, values

from routelog.management.pages import queue_pages


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


async def test_the_list_is_filtered_sorted_and_paged_by_its_address(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pages, "PAGE_ITEMS", "2")
    for name, count in (("a1", 1), ("a2", 3), ("a3", 2), ("b", 0)):
        queue = await browser.node.queue(name)
        if count:
            queue.publish(records(*"x" * count), True)
    page = await browser.page("/queues?name=a")
    assert [row[1] for row in page.rows()] == ["a1", "a2"]
    assert page.one("p", class_="pager").text == "3 of 4 · page 1 of 2 Next"
    page = await browser.page("/queues" + page.one("a", rel="next")["href"])
    assert [row[1] for row in page.rows()] == ["a3"]
    page = await browser.page("/queues?sort=messages_ready&sort_reverse=true&column=messages_ready")
    assert [row[1:] for row in page.rows()] == [["a2", "3"], ["a3", "2"]]
    (sorted_by,) = [each for each in page.all("th") if "aria-sort" in each.attributes]
    assert (sorted_by.text, sorted_by["aria-sort"]) == ("Ready", "descending")
    page = await browser.page("/queues" + sorted_by.one("a")["href"])
    assert [row[1:] for row in page.rows()] == [["b", "0"], ["a1", "1"]]
    for number in (3, 99):  # as after deletions
        page = await browser.page(f"/queues?page={number}")
        assert [row[1] for row in page.rows()] == ["a1", "a2"]
    page = await browser.page("/queues?name=nothing")
    assert "No queue is like that" in page.text
    assert (await browser.get("/queues?page=x")).status == 400


async def test_what_was_wrong_with_a_form_is_said(browser: Browser) -> None:
    for said, reason in (
        ({"name": ""}, "Name: it is empty"),
        ({"arguments": "{"}, "Further arguments: Input data was truncated"),
        ({"arguments": "[" * 50_000}, "Further arguments: maximum recursion depth exceeded"),
        ({"arguments": "1"}, "Expected `object`, got `int` - at `$.arguments`"),
        ({"arguments": '{"x-max-length": "a"}'}, "x-max-length"),
    ):
        answer = await browser.send("/queues", "/do/declare-queue", **{"name": "q", **said})
        form = answer.page.one("form", action="/do/declare-queue")
        assert reason in form.one("p", role="alert").text
        assert values(form)["name"] == said.get("name", "q")
        assert values(form)["arguments"] == said.get("arguments", "")
    page = await browser.page("/queues")  # the next one says nothing of it
    assert page.all("p", role="alert") == []
    answer = await browser.send("/queues", "/do/declare-queue", name="q")
    assert "is there" in answer.page.one("p", role="status").text
    token = (await browser.get("/")).form_token
    answer = await browser.ask("POST", "/do/sheep", data={"form_token": token})
    assert answer.status == 404


async def test_several_queues_are_changed_when_their_number_was_typed(browser: Browser) -> None:
    for name in ("a", "b/c", "kept"):
        await browser.node.queue(name)
    token = (await browser.get("/queues")).form_token
    chosen = {"form_token": token, "change": "delete-queue", "queue": ["%2F/a", "%2F/b%2Fc"]}
    answer = await browser.ask("POST", "/queues-chosen", data=pairs(chosen))
    form = answer.page.one("form", action="/queues-chosen/delete-queue")
    assert answer.page.one("h1").text == "Delete 2 queues?"
    assert len(browser.node.vhost.queues) == 3
    said = pairs({**chosen, "confirm": "2"})
    assert (await browser.ask("POST", form["action"], data=said)).status == 400
    said = pairs({**chosen, "confirm": "2 queues", "queue": ["%2F/a", "%2F/b%2Fc", "%2F/gone"]})
    assert (await browser.ask("POST", form["action"], data=said)).status == 400
    said = pairs({**chosen, "confirm": "3 queues", "queue": ["%2F/a", "%2F/b%2Fc", "%2F/gone"]})
    answer = await browser.ask("POST", form["action"], data=said)
    assert answer.page.one("p", role="status").text == (
        "Delete: done for 2 of 3 queues. gone: no queue 'gone' in vhost '/'"
    )
    assert list(browser.node.vhost.queues) == ["kept"]
    for change, queues in (("declare-queue", ["%2F/kept"]), ("purge-queue", [])):
        said = pairs({"form_token": token, "change": change, "queue": queues})
        answer = await browser.ask("POST", "/queues-chosen", data=said)
        assert answer.status in (400, 404)
        assert (await browser.ask("POST", f"/queues-chosen/{change}", data=said)).status >= 400


async def test_a_sparkline_is_drawn_of_each_queue_that_is_shown(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pages, "PAGE_ITEMS", "2")
    for name in ("a", "b", "c"):
        queue = await browser.node.queue(name)
        queue.publish(records("x"), True)
    page = await browser.page("/queues")
    labels = [each["aria-label"] for each in page.all("svg", class_="spark")]
    assert labels == ["1 to 1, at last 1"] * 2
    page = await browser.page("/queues?column=vhost")
    assert page.all("svg", class_="spark") == []


async def test_a_password_is_not_said_again(browser: Browser) -> None:
    answer = await browser.send("/users", "/do/put-user", user="", password="it is secret")
    assert "Name: it is empty" in answer.refusal
    assert "it is secret" not in answer.text
