"""The first page."""

from dataclasses import replace

from queue_samples import records
from unit.management.managed_node import ManagedNode
from unit.management.page_browser import Browser, browsing


async def test_nothing_wrong_is_said_in_words(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    page = await browser.page("/")
    assert "Nothing is wrong" in page.one("p", class_="well").text
    assert page.all("ul", class_="findings") == []


async def test_what_is_wrong_stands_first_with_a_link_to_it(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    queue = await browser.node.queue("a/b <i>")
    queue.publish(records("x"), True)
    browser.node.alarms = ["low on disk"]
    page = await browser.page("/")
    first, second = page.one("ul", class_="findings").all("li")
    assert (first["class"], first.text) == ("wrong", "alarm Publishers wait: low on disk.")
    assert second.one("a").text == "Queue a/b <i> has no consumer, and messages: 1."
    assert second.one("a")["href"] == "/queues/%2F/a%2Fb%20%3Ci%3E"
    assert "Messages ready 1" in page.one("dl").text


async def test_charts_of_the_node_are_for_those_who_see_all_of_it(browser: Browser) -> None:
    await browser.sign_in_as("ann", "monitoring")
    page = await browser.page("/")
    assert page.one("figcaption").text == "Messages Ready 0 Unacknowledged 0"
    await browser.sign_in_as("bob", "management")
    assert (await browser.page("/")).all("figure") == []


async def test_what_the_operator_calls_the_environment_stands_on_every_page(
    node: ManagedNode,
) -> None:
    facts = replace(node.broker.node, banner="production <b>")
    node.broker = replace(node.broker, node=facts)
    async with browsing(node) as browser:
        assert (await browser.get("/")).page.all("p", class_="banner") == []
        await browser.sign_in_as("ann", "administrator")
        for path in ("/", "/queues"):
            page = await browser.page(path)
            assert page.one("p", class_="banner").text == "production <b>"
