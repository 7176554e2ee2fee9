"""The first page."""

from queue_samples import records
from unit.management.page_browser import Browser


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
