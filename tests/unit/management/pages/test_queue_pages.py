"""The list of queues, and changes of several at once."""

from typing import Any

import pytest
from support.html_document import Element
from support.queue_samples import records
from unit.management.page_browser import ALL, Browser, pairs, values

from routelog.management.pages import queue_pages
from routelog.vhosts import VhostRecord


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


def names(page: Element) -> list[str]:
    return [each["title"] for each in page.one("tbody").all("a")]


async def test_the_list_is_filtered_sorted_and_paged_by_its_address(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pages, "PAGE_ITEMS", "2")
    for name, count in (("a1", 1), ("a2", 3), ("a3", 2), ("b", 0)):
        queue = await browser.node.queue(name)
        if count:
            queue.publish(records(*"x" * count), True)
    page = await browser.page("/queues?name=a")
    assert names(page) == ["a2", "a3"]  # which have most
    assert page.one("p", class_="pager").text == "3 of 4 in all page 1 of 2 Next"
    page = await browser.page("/queues" + page.one("a", rel="next")["href"])
    assert names(page) == ["a1"]
    page = await browser.page("/queues?column=messages_ready")
    assert [row[2] for row in page.rows()] == ["3", "2"]
    (sorted_by,) = [each for each in page.all("th") if "aria-sort" in each.attributes]
    assert (sorted_by.text, sorted_by["aria-sort"]) == ("Ready", "descending")
    page = await browser.page("/queues" + sorted_by.one("a")["href"])
    assert [names(page), [row[2] for row in page.rows()]] == [["b", "a1"], ["0", "1"]]
    for number in (3, 99):  # as after deletions
        page = await browser.page(f"/queues?page={number}")
        assert names(page) == ["a2", "a3"]
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


async def test_some_of_the_queues_are_listed_alone_and_say_what_they_do(browser: Browser) -> None:
    node = browser.node
    for name in ("alone", "few"):
        queue = await node.queue(name)
        queue.publish(records(*"x" * (100 if name == "alone" else 1)), True)
    await node.queue("idle")
    await node.queue("log", x_queue_type="stream", x_max_age="7D")
    page = await browser.page("/queues")
    states = {
        row.one("a")["title"]: row.all("td")[1].one("span") for row in page.one("tbody").all("tr")
    }
    assert {name: (each.text, each["class"]) for name, each in states.items()} == {
        "alone": ("no consumer", "badge warn"),
        "few": ("no consumer", "badge"),
        "idle": ("idle", "badge"),
        "log": ("idle", "badge"),
    }
    assert names(await browser.page("/queues?only=unconsumed")) == ["alone", "few"]
    assert names(await browser.page("/queues?only=streams")) == ["log"]
    assert names(await browser.page("/queues?only=other&sort=name")) == [
        "alone",
        "few",
        "idle",
        "log",
    ]
    await node.broker.vhosts.put(VhostRecord("w"))
    await node.users.set_permissions("ann", "w", ALL)
    assert "in the virtual host w" in (await browser.page("/queues?in=w")).text


def test_a_queue_grows_when_it_has_for_minutes_and_does_still() -> None:
    def row(*lengths: int, rate: float = 1.0) -> dict[str, Any]:
        samples = [{"sample": each, "timestamp": at * 20_000} for at, each in enumerate(lengths)][
            ::-1
        ]
        return {
            "messages_ready": lengths[-1],
            "messages_details": {"rate": 0.0, "samples": samples},
            "message_stats": {"publish_details": {"rate": rate}},
            "consumers": 1,
            "type": "classic",
            "state": "running",
        }

    growing = row(*range(0, 200, 10))
    assert queue_pages.state_of(growing, 100) == ("growing", "warn")
    assert queue_pages.state_of(growing | {"type": "stream"}, 100) == ("running", "good")
    assert queue_pages.state_of(row(0, 500, 500, 500, 500, 500), 100) == (
        "running",
        "good",
    )  # a burst
    assert queue_pages.state_of(row(*range(20), rate=0.0), 100) == ("idle", "")
    assert queue_pages.state_of(row(*[100] * 20, rate=0.0), 100) == ("stuck", "warn")
    assert queue_pages.state_of(row(*[100] * 20), 100) == ("running", "good")
