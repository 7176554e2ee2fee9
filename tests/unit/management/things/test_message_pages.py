"""The messages of a queue: found, marked, moved, taken, published again."""

from dataclasses import replace
from typing import Any

import pytest
from support.queue_samples import declare_queue, records
from unit.management.managed_node import TAKEN
from unit.management.page_browser import Browser, pairs, values

from routelog.log_backend import Reason
from routelog.management.things import message_pages
from routelog.vhosts import (
    BrowsedMessage,
    MessageHolder,
    MessageSearch,
    Queue,
    QueueProperties,
    ReturnReason,
)


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    return browser


async def test_messages_are_shown_as_text_json_or_octets(browser: Browser) -> None:
    await browser.node.queue("q")
    death = {"queue": "orders", "reason": "rejected", "count": 2, "time": 0, "exchange": "e"}
    headers = {"x-death": [{**death, "routing-keys": ["k"]}, "no table"], "n": None}
    browser.node.messages.left = [
        replace(TAKEN, body=memoryview(b'{"a":[1.50]}'), properties={"headers": headers}),
        replace(TAKEN, body=memoryview(b"\x00\xff<i>")),
        replace(TAKEN, body=memoryview(b"x" * (message_pages.BODY_BYTES_MAX + 1))),
    ]
    here, take = "/queues/%2F/q/messages", "/queues/%2F/q/get"
    answer = await browser.send(here, take, count="3")
    assert browser.node.messages.taken == [("q", 3, ReturnReason.EXCUSED)]
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
    await browser.send(here, take, **rejecting)
    assert browser.node.messages.taken[1:] == [("q", 1, Reason.REJECTED)]
    for count in ("0", "51", "000000001000", "x", ""):
        answer = await browser.send(here, take, count=count)
        assert answer.refusal == "Count is not between 1 and 50."


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
        body = memoryview(b"x" * (message_pages.BROWSED_BYTES + 1))
        return [BrowsedMessage(0, 7, "unacked", 1_000_000, "e", "k", 2, holder, {}, body)]

    monkeypatch.setattr(node.messages, "browse", browse)
    page = await browser.page("/queues/%2F/q/messages?offset=1&text=+a%27+")
    assert asked == [("q", message_pages.BROWSED, "0:1")]
    assert page.one("input", name="text")["value"] == "a'"
    told = page.one("article").text
    assert "redelivered 2× unacknowledged" in told
    assert "came 1970-01-01 00:00:01 UTC , for 9 s with consumer tag of c" in told
    assert f"{browser.origin}/api/queues/%2F/q/messages?text=a%27&offset=1'" in page.text
    assert page.one("a", rel="next")["href"] == "?offset=0%3A1&text=+a%27+"
    chips = {each.text: each["href"] for each in page.all("a", class_="chip")}
    assert chips == {
        "body contains a' ✕ take this condition out": "/queues/%2F/q/messages?offset=1",
        "from offset 1 ✕ take this condition out": "/queues/%2F/q/messages?text=+a%27+",
    }
    (alone,) = [each["href"] for each in page.all("a") if each.text == "The whole body"]
    page = await browser.page(alone)
    assert asked[1][:2] == ("q", 1)
    assert not page.all("a", rel="next")
    page = await browser.page("/queues/%2F/q/messages?offset=x")
    assert "x" in page.one("p", role="alert").text


async def test_a_header_is_looked_for_by_its_name_and_value(browser: Browser) -> None:
    await browser.node.queue("q")
    page = await browser.page("/queues/%2F/q/messages?header_name=n&header_value=1")
    assert "No message is like that." in page.text
    assert "/messages?header=n%3D1" in page.text
    page = await browser.page("/queues/%2F/q/messages")
    assert "The queue is empty." in page.text


async def test_identifiers_are_fields_of_the_form(browser: Browser) -> None:
    await browser.node.queue("q")
    page = await browser.page("/queues/%2F/q/messages?id=m-1&correlation_id=c")
    assert [page.one("input", name=name)["value"] for name in ("id", "correlation_id")] == [
        "m-1",
        "c",
    ]
    assert "/messages?id=m-1&correlation_id=c" in page.text


async def test_a_condition_is_a_field_and_a_wrong_one_is_told(browser: Browser) -> None:
    await browser.node.queue("q")
    page = await browser.page("/queues/%2F/q/messages?filter=n+%3E+2")
    finder = page.one("form", class_="finder")
    assert finder.one("input", name="filter")["value"] == "n > 2"
    assert "No message is like that." in page.text
    page = await browser.page("/queues/%2F/q/messages?filter=n+%3E")
    assert "it ends too early" in page.one("p", role="alert").text


async def test_marked_messages_are_moved_after_a_try_and_deleted_when_their_number_was_typed(
    browser: Browser,
) -> None:
    node = browser.node
    await node.queue("parked")
    queue, _ = declare_queue(node.vhost, QueueProperties("q"), object())
    queue.publish(records("a", "b", "c"), True)
    here = "/queues/%2F/q/messages"
    page = await browser.page(here)
    boxes = [each["value"] for each in page.all("input", name="message")]
    assert boxes == ["0:0", "0:1", "0:2"]
    answer = await browser.send(here, f"{here}/chosen", message=boxes[:2], to="parked")
    assert "Move 2 messages to queue “parked”?" in answer.page.text
    assert "Would be moved 2" in answer.page.text
    said = values(answer.page.one("form", action=f"{here}/move")) | {"message": boxes[:2]}
    done = await browser.ask("POST", f"{here}/move", data=pairs(said))
    assert done.page.one("p", role="status").text == "Moved: 2 messages."
    assert [order.is_dry_run for order in node.messages.orders] == [True, False]
    for refused, reason in (
        ({"message": []}, "No message is marked"),
        ({"message": boxes, "to": ""}, "Where to?"),
        ({"message": boxes, "to": "none"}, "No queue 'none' in vhost '/'."),
    ):
        answer = await browser.send(here, f"{here}/chosen", **{"to": "parked", **refused})
        assert reason in answer.refusal

    answer = await browser.send(here, f"{here}/chosen", message=boxes[:1], mode="delete")
    asked = values(answer.page.one("form", action=f"{here}/move"))
    answer = await browser.ask("POST", f"{here}/move", data=pairs(asked | {"confirm": "1"}))
    assert "has to be typed" in answer.refusal
    answer = await browser.ask("POST", f"{here}/move", data=pairs(asked | {"confirm": "1 message"}))
    assert answer.page.one("p", role="status").text == "Deleted: 1 message."


async def test_all_that_a_filter_finds_are_copied_to_an_exchange(browser: Browser) -> None:
    node = browser.node
    queue = await node.queue("q")
    queue.publish(records("a", "bb"), False)
    bound = {"destination": "q", "routing_key": "k"}
    await browser.send("/exchanges/%2F/amq.topic/bindings", "/do/bind", **bound)
    here = "/queues/%2F/q/messages"
    said = {"which": "found", "mode": "copy", "to_kind": "exchange", "to": "amq.topic"}
    answer = await browser.send(f"{here}?text=bb", f"{here}/chosen", routing_key="k", **said)
    assert "Copy 1 message to exchange “amq.topic”?" in answer.page.text
    assert '"filter": {' in answer.page.text
    said = values(answer.page.one("form", action=f"{here}/move"))
    answer = await browser.ask("POST", f"{here}/move", data=pairs(said))
    assert answer.page.one("p", role="status").text == "Copied: 1 message."
    assert str(node.messages.orders[-1].mode) == "copy"


async def test_a_stream_is_offered_what_it_can_do(browser: Browser) -> None:
    node = browser.node
    queue = await node.queue("s", x_queue_type="stream", x_durability="memory")
    queue.publish(records("a"), False)
    page = await browser.page("/queues/%2F/s/messages?state=all")
    modes = [each["value"] for each in page.one("select", name="mode").all("option")]
    assert modes == ["copy"]
    actions = [each["action"] for each in page.one("main").all("form", method="post")]
    assert actions == ["/queues/%2F/s/messages/chosen", "/do/replay"]
    page = await browser.page("/queues/%2F/s/danger")
    actions = [each["action"] for each in page.one("main").all("form", method="post")]
    assert actions == ["/do/delete-queue"]


async def test_a_message_is_published_again_as_it_is_or_changed(browser: Browser) -> None:
    queue, _ = declare_queue(browser.node.vhost, QueueProperties("q"), object())
    queue.publish(records("one\ntwo"), True)
    page = await browser.page("/queues/%2F/q/messages")
    (again,) = [each["href"] for each in page.all("a") if each.text == "Publish again…"]
    answer = await browser.send(again, "/do/publish")
    assert "Published, confirmed" in answer.page.one("p", role="status").text
    ((_, _, exchange, key, _, body),) = browser.node.messages.published
    assert (exchange, key, body) == ("", "q", b"one\ntwo")
