"""One connection, one channel."""

import pytest
from unit.management.managed_node import Connection
from unit.management.page_browser import Browser


@pytest.fixture
async def browser(browser: Browser) -> Browser:
    await browser.sign_in_as("ann", "administrator")
    node = browser.node
    await node.queue("q")
    node.connections.open.append(Connection("10.0.0.9:1 -> here", "ann", node.vhost, "q"))
    return browser


async def test_a_connection_says_who_it_is_and_why_it_waits(browser: Browser) -> None:
    page = await browser.page("/connections")
    (link,) = [each["href"] for each in page.all("a") if each["href"].startswith("/connections/")]
    page = await browser.page(link)
    assert page.one("h1").text == "10.0.0.9:1 -> here"
    assert page.one("p", class_="look").text == "It waits before it may publish: memory is short."
    assert page.rows()[0] == ["1", "running", "yes", "no", "1", "10", "2", "4"]
    told = dict(row for row in page.rows() if len(row) == 2)
    assert told["connection_name"] == "the 10.0.0.9:1 -> here"
    assert (told["Login"], told["TLS"], told["Since"]) == (
        "PLAIN",
        "no",
        "1970-01-01 00:00:01 UTC",
    )
    assert [each.text for each in page.all("span", class_="key")] == ["Received 0", "Sent 0"]
    answer = await browser.send(link, "/do/close-connection")
    assert answer.page.one("h1").text == "Connections"
    assert browser.node.connections.open == []
    assert (await browser.get(link)).status == 404


async def test_a_channel_shows_what_it_has_and_its_consumers(browser: Browser) -> None:
    page = await browser.page("/connections/10.0.0.9%3A1%20-%3E%20here")
    (link,) = [each["href"] for each in page.all("a") if each["href"].startswith("/channels/")]
    page = await browser.page(link)
    assert page.one("h1").text == "10.0.0.9:1 -> here (1)"
    told = [each.text for each in page.one("dl").all("div")]
    assert told[:3] == ["Unacknowledged 2", "Unconfirmed 4", "Consumers 1"]
    assert page.rows()[-1] == ["tag", "q", "yes", "up", "10", "2"]
    assert "/queues/%2F/q" in [each["href"] for each in page.all("a")]


async def test_of_others_one_sees_nothing_without_the_tag(browser: Browser) -> None:
    await browser.sign_in_as("bob", "management")
    for path in ("/connections/10.0.0.9%3A1%20-%3E%20here", "/channels/10.0.0.9%3A1%20-%3E%20here"):
        assert (await browser.get(path)).status in (403, 404)
