"""One queue, in tabs."""

import json

import pytest
from support.queue_samples import records
from unit.management.page_browser import Browser, pairs, values

from routelog.vhosts import (
    Policy,
)


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


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
    assert answer.page.one("p", class_="trail").text == "Queues / virtual host /"

    answer = await browser.send(
        f"{here}/publish", "/do/publish", payload="one\ntwo", **{"properties.headers": '{"k": [1]}'}
    )
    assert answer.page.one("h1").text == "a/b"
    assert "routed to at least one queue" in answer.page.one("p", role="status").text
    said = {"delivery_mode": 2, "headers": {"k": [1]}}
    published = ("/", "ann", "", "a/b", said, b"one\ntwo")
    assert browser.node.messages.published == [published]

    queue.publish(records("x"), True)
    answer = await browser.send(f"{here}/danger", "/do/purge-queue", confirm="a")
    assert "has to be typed" in answer.refusal
    assert queue.ready == 1
    answer = await browser.send(f"{here}/danger", "/do/purge-queue", confirm="a/b")
    assert (answer.page.one("h1").text, queue.ready) == ("a/b", 0)

    answer = await browser.send(f"{here}/danger", "/do/delete-queue", confirm="a/b")
    assert answer.page.one("p", role="status").text == "Queue a/b is deleted."
    assert answer.page.one("h1").text == "Queues"
    assert not browser.node.vhost.queues
    assert (await browser.get(here)).status == 404


async def test_each_form_has_its_curl_and_its_command(browser: Browser) -> None:
    await browser.node.queue("it's")
    texts = [
        each.one("pre").text
        for tab in ("danger", "publish")
        for each in (await browser.page(f"/queues/%2F/it%27s/{tab}")).all("details", class_="how")
    ]
    (purge,) = [each for each in texts if "/contents" in each]
    (publish,) = [each for each in texts if "/publish" in each]
    assert purge == (
        f"curl -u ann -X DELETE {browser.origin}/api/queues/%2F/it%27s/contents "
        """routelog queue purge 'it'"'"'s' --vhost /"""
    )
    assert publish.startswith("curl -u ann -X POST")
    assert '"routing_key":"it\'"\'"\'s"' in publish


async def test_where_each_setting_comes_from_is_shown(browser: Browser) -> None:
    await browser.node.queue("q", x_max_length=5, x_overflow="reject-publish")
    policy = Policy("p", ".*", {"max-length": 9, "message-ttl": 1_000})
    operator = Policy("o", ".*", {"max-length": 3}, is_operator=True)
    for each in (policy, operator):
        await browser.node.vhost.policies.put(each)
    page = await browser.page("/queues/%2F/q/settings")
    rows = page.rows()
    assert [row[:3] for row in rows[:3]] == [
        ["Most messagesx-max-length", "3", "operator policy o"],
        ["Messages expire afterx-message-ttl", "1 s", "policy p"],
        ["When it is fullx-overflow", "reject-publish", "argument"],
    ]
    assert ["Priorities up tox-max-priority", "none", "default", "Set it"] in rows
    assert ["Partitionsx-partitions", "1", "default", "when it is declared"] in rows
    assert "/policies/%2F/p" in [each["href"] for each in page.one("tbody").all("a")]


async def test_arguments_are_changed_by_a_form_that_begins_with_those_there(
    browser: Browser,
) -> None:
    queue = await browser.node.queue("q", x_max_length=5)
    here = "/queues/%2F/q/settings"
    form = (await browser.page(here)).one("form", action="/do/change-queue")
    assert json.loads(dict(values(form))["*"]) == {"x-max-length": 5}
    asked = {"*": '{"x-max-length": null, "x-max-priority": 3}'}
    answer = await browser.send(here, "/do/change-queue", **asked)
    assert answer.page.one("p", role="status").text == "Queue q goes by its new arguments."
    assert queue.properties.arguments == {"x-max-priority": 3}
    answer = await browser.send(here, "/do/change-queue", **{"*": '{"x-partitions": 2}'})
    assert "current is none" in answer.refusal
    answer = await browser.send(here, "/do/change-queue", **{"*": "[1]"})
    assert answer.refusal == "Expected an object of JSON."


async def test_a_queue_is_paused_and_resumed_by_a_button(browser: Browser) -> None:
    queue = await browser.node.queue("q")
    here = "/queues/%2F/q"
    answer = await browser.send(here, "/do/pause-queue")
    assert (queue.paused, answer.page.one("h1").text) == (True, "q")
    assert "It is paused" in answer.page.text
    assert "paused" in (await browser.page("/queues")).one("tbody").text
    await browser.send(here, "/do/resume-queue")
    assert not queue.paused


async def test_a_form_of_a_thing_that_is_gone_says_so_on_the_page_that_tells(
    browser: Browser,
) -> None:
    await browser.node.queue("q")
    here = "/queues/%2F/q/danger"
    form = (await browser.page(here)).one("form", action="/do/purge-queue")
    await browser.send(here, "/do/delete-queue", confirm="q")
    said = pairs(values(form) | {"confirm": "q"})
    answer = await browser.ask("POST", "/do/purge-queue", data=said)
    assert answer.status == 404
    assert answer.page.one("h1").text == answer.refusal == "No queue 'q' in vhost '/'."
    links = [each["href"] for each in answer.page.one("main").all("a")]
    assert links == ["/queues?name=q", "/"]


async def test_who_only_looks_on_is_offered_no_change_and_refused_each(browser: Browser) -> None:
    await browser.node.queue("q")
    await browser.send("/", "/sign-out")
    await browser.sign_in_as("mon", "monitoring")
    tabs = ("", "/messages", "/bindings", "/consumers", "/settings", "/publish", "/danger")
    for path in ("/", "/queues", *(f"/queues/%2F/q{tab}" for tab in tabs)):
        page = await browser.page(path)
        actions = [each["action"] for each in page.all("form", method="post")]
        assert set(actions) <= {"/sign-out", "/queues-chosen", "/queues/%2F/q/messages/chosen"}
        assert page.all("button", name="mode") == page.all("select", name="mode") == []
    form = (await browser.get("/queues")).page.one("form", action="/sign-out")
    said = values(form) | {"vhost": "/", "name": "q", "confirm": "q"}
    for path in ("/do/purge-queue", "/do/delete-queue", "/queues/%2F/q/get"):
        answer = await browser.ask("POST", path, data=said | {"count": "1"})
        assert answer.status == 403
    assert browser.node.messages.taken == []
