"""The list of queues, one queue, and its messages."""

from dataclasses import replace
from typing import Any

import pytest
from support.queue_samples import declare_queue, records
from unit.management.managed_node import TAKEN
from unit.management.page_browser import Browser, pairs, values

from routelog.log_backend import Reason
from routelog.management.pages import queue_pages
from routelog.vhosts import (
    BrowsedMessage,
    MessageHolder,
    MessageSearch,
    Policy,
    Queue,
    QueueProperties,
    ReturnReason,
)


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


async def test_a_queue_is_added_published_to_read_purged_and_deleted(browser: Browser) -> None:
    answer = await browser.send(
        "/queues",
        "/do/declare-queue",
        name="a/b",
        arguments='{"x-max-length": 7}',
        **{"arguments.x-queue-type": "quorum"},
    )
    assert answer.page.one("p", role="status").text == "Queue a/b is there."
    queue = browser.node.vhost.queues["a/b"]
    assert queue.properties.arguments == {"x-max-length": 7, "x-queue-type": "quorum"}
    here = "/queues/%2F/a%2Fb"
    assert answer.page.one("h1").text == "a/b"
    assert answer.page.one("p", class_="trail").text == "Queues / /"

    answer = await browser.send(
        here, "/do/publish", payload="one\ntwo", **{"properties.headers": '{"k": [1]}'}
    )
    assert answer.page.one("h1").text == "a/b"
    assert "routed to at least one queue" in answer.page.one("p", role="status").text
    said = {"delivery_mode": 2, "headers": {"k": [1]}}
    published = ("/", "ann", "", "a/b", said, b"one\ntwo")
    assert browser.node.messages.published == [published]

    queue.publish(records("x"), True)
    answer = await browser.send(here, "/do/purge-queue", confirm="a")
    assert "has to be typed" in answer.refusal
    assert queue.ready == 1
    answer = await browser.send(here, "/do/purge-queue", confirm="a/b")
    assert (answer.page.one("h1").text, queue.ready) == ("a/b", 0)

    answer = await browser.send(here, "/do/delete-queue", confirm="a/b")
    assert answer.page.one("p", role="status").text == "Queue a/b is deleted."
    assert answer.page.one("h1").text == "Queues"
    assert not browser.node.vhost.queues
    assert (await browser.get(here)).status == 404


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


async def test_each_form_has_its_curl_and_its_command(browser: Browser) -> None:
    await browser.node.queue("it's")
    page = await browser.page("/queues/%2F/it%27s")
    texts = [each.one("pre").text for each in page.all("details", class_="how")]
    (purge,) = [each for each in texts if "/contents" in each]
    (publish,) = [each for each in texts if "/publish" in each]
    assert purge == (
        f"curl -u ann -X DELETE {browser.origin}/api/queues/%2F/it%27s/contents "
        """routelog queue purge 'it'"'"'s' --vhost /"""
    )
    assert publish.startswith("curl -u ann -X POST")
    assert '"routing_key":"it\'"\'"\'s"' in publish


async def test_where_each_setting_comes_from_is_shown(browser: Browser) -> None:
    queue = await browser.node.queue("q", x_max_length=5, x_overflow="reject-publish")
    policy = Policy("p", ".*", {"max-length": 9, "message-ttl": 1_000})
    operator = Policy("o", ".*", {"max-length": 3}, is_operator=True)
    queue.follow(policy, operator)
    page = await browser.page("/queues/%2F/q")
    (settings,) = [each for each in page.all("table") if "In force" in each.text]
    assert settings.rows() == [
        ["x-max-length", "3", "operator policy o"],
        ["x-message-ttl", "1000", "policy p"],
        ["x-overflow", "reject-publish", "argument"],
    ]


async def test_messages_are_shown_as_text_json_or_octets(browser: Browser) -> None:
    await browser.node.queue("q")
    death = {"queue": "orders", "reason": "rejected", "count": 2, "time": 0, "exchange": "e"}
    headers = {"x-death": [{**death, "routing-keys": ["k"]}, "no table"], "n": None}
    browser.node.messages.left = [
        replace(TAKEN, body=memoryview(b'{"a":[1.50]}'), properties={"headers": headers}),
        replace(TAKEN, body=memoryview(b"\x00\xff<i>")),
        replace(TAKEN, body=memoryview(b"x" * (queue_pages.BODY_BYTES_MAX + 1))),
    ]
    answer = await browser.send("/queues/%2F/q", "/queues/%2F/q/get", count="3")
    assert browser.node.messages.taken == [("q", 3, ReturnReason.UNUSED)]
    first, second, third = answer.page.all("article")
    assert first.one("pre").raw_text == '{\n  "a": [\n    1.50\n  ]\n}'
    assert first.one("ol").text == (
        "It was rejected in queue orders, 2 times, first on 1970-01-01 00:00:00 UTC. "
        "It had come by e with the key k."
    )
    assert second.one("pre").text.startswith("000000 00 ff 3c 69 3e")
    assert second.one("pre").text.endswith("..<i>")
    assert "There is more of the body" in third.text
    rejecting = {"count": "1", "ackmode": "reject_requeue_false"}
    await browser.send("/queues/%2F/q", "/queues/%2F/q/get", **rejecting)
    assert browser.node.messages.taken[1:] == [("q", 1, Reason.REJECTED)]
    for count in ("0", "51", "000000001000", "x", ""):
        answer = await browser.send("/queues/%2F/q", "/queues/%2F/q/get", count=count)
        assert answer.status == 400


async def test_messages_are_looked_at_by_what_is_asked(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = browser.node
    queue = await node.queue("q")
    queue.publish(records("a", "b"), True)
    asked: list[Any] = []

    async def browse(queue: Queue, search: MessageSearch, count: int) -> list[BrowsedMessage]:
        asked.append((queue.name, count, str(search.places[0])))
        if count == 1:
            search.places.clear()
        holder = MessageHolder("tag", "c", 1, 9.0)
        body = memoryview(b"x" * (queue_pages.BROWSED_BYTES + 1))
        return [BrowsedMessage(0, 7, "unacked", 1_000_000, "e", "k", 2, holder, {}, body)]

    monkeypatch.setattr(node.messages, "browse", browse)
    page = await browser.page("/queues/%2F/q/messages?offset=1&text=+a%27+")
    assert asked == [("q", queue_pages.BROWSED, "0:1")]
    assert page.one("input", name="text")["value"] == "a'"
    told = page.one("article").text
    assert "offset 7 · came 1970-01-01 00:00:01 UTC · unacked · delivered again 2 times" in told
    assert "· for 9 s with consumer tag of c" in told
    assert f"{browser.origin}/api/queues/%2F/q/messages?offset=1&text=a%27'" in page.text
    assert page.one("a", rel="next")["href"] == "?offset=0%3A1&text=+a%27+"
    (alone,) = [each["href"] for each in page.all("a") if each.text == "This message alone"]
    page = await browser.page("/queues/%2F/q/messages" + alone)
    assert asked[1][:2] == ("q", 1)
    assert not page.all("a", rel="next")
    assert (await browser.get("/queues/%2F/q/messages?offset=x")).status == 400


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


async def test_who_only_looks_on_is_offered_no_change_and_refused_each(browser: Browser) -> None:
    await browser.node.queue("q")
    await browser.send("/", "/sign-out")
    await browser.sign_in_as("mon", "monitoring")
    for path in ("/", "/queues", "/queues/%2F/q"):
        page = await browser.page(path)
        assert [each["action"] for each in page.all("form", method="post")] in (
            ["/sign-out"],
            ["/sign-out", "/queues-chosen"],
        )
    form = (await browser.get("/queues")).page.one("form", action="/sign-out")
    said = values(form) | {"vhost": "/", "name": "q", "confirm": "q"}
    for path in ("/do/purge-queue", "/do/delete-queue", "/queues/%2F/q/get"):
        answer = await browser.ask("POST", path, data=said | {"count": "1"})
        assert answer.status == 403
    assert browser.node.messages.taken == []


async def test_marked_messages_are_moved_when_their_number_was_typed(browser: Browser) -> None:
    node = browser.node
    await node.queue("parked")
    queue, _ = declare_queue(node.vhost, QueueProperties("q"), object())
    queue.publish(records("a", "b", "c"), True)
    here = "/queues/%2F/q/messages"
    page = await browser.page(here)
    boxes = [each["value"] for each in page.all("input", name="message")]
    assert boxes == ["0:0", "0:1", "0:2"]
    answer = await browser.send(here, f"{here}/chosen", message=boxes[:2], to="parked")
    assert answer.page.one("h1").text == "Move 2 messages of q to parked?"
    assert "Messages that would be done: 2." in answer.page.text
    said = values(answer.page.one("form", action=f"{here}/move")) | {"message": boxes[:2]}
    refused = await browser.ask("POST", f"{here}/move", data=pairs(said | {"confirm": "2"}))
    assert refused.status == 400
    done = await browser.ask("POST", f"{here}/move", data=pairs(said | {"confirm": "2 messages"}))
    assert done.page.one("h1").text == "Messages of q"
    assert done.page.one("p", role="status").text == "Messages that are done: 2."
    assert [order.is_dry_run for order in node.messages.orders] == [True, False]
    answer = await browser.send(here, f"{here}/chosen", message=[], to="parked")
    assert answer.status == 400


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


async def test_a_form_of_a_thing_that_is_gone_says_so_on_the_page_that_tells(
    browser: Browser,
) -> None:
    await browser.node.queue("q")
    form = (await browser.page("/queues/%2F/q")).one("form", action="/do/purge-queue")
    await browser.send("/queues/%2F/q", "/do/delete-queue", confirm="q")
    said = pairs(values(form) | {"confirm": "q"})
    answer = await browser.ask("POST", "/do/purge-queue", data=said)
    assert answer.status == 404
    assert answer.page.one("h1").text == answer.refusal == "No queue 'q' in vhost '/'."
    links = [each["href"] for each in answer.page.one("main").all("a")]
    assert links == ["/queues?name=q", "/"]


async def test_a_password_is_not_said_again(browser: Browser) -> None:
    answer = await browser.send("/users", "/do/put-user", user="", password="it is secret")
    assert "Name: it is empty" in answer.refusal
    assert "it is secret" not in answer.text
