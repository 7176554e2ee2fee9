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
    assert "It waits before it may publish: memory is short." in page.text
    assert [each.text for each in page.all("span", class_="key")] == ["Received 0", "Sent 0"]
    page = await browser.page(f"{link}/channels")
    assert page.rows() == [["1", "running confirms", "1", "10", "2", "4"]]
    page = await browser.page(f"{link}/client")
    for told in ("Login PLAIN", "TLS no", "Since 1970-01-01 00:00:01 UTC"):
        assert told in page.text
    assert "connection_name the 10.0.0.9:1 -> here" in page.text
    answer = await browser.send(f"{link}/danger", "/do/close-connection")
    assert answer.page.one("h1").text == "Connections"
    assert browser.node.connections.open == []
    assert (await browser.get(link)).status == 404


async def test_a_channel_shows_what_it_has_and_its_consumers(browser: Browser) -> None:
    page = await browser.page("/connections/10.0.0.9%3A1%20-%3E%20here/channels")
    (link,) = [each["href"] for each in page.all("a") if each["href"].startswith("/channels/")]
    page = await browser.page(link)
    assert page.one("h1").text == "10.0.0.9:1 -> here (1)"
    told = [each.text for each in page.one("dl", class_="stats").all("div")]
    assert told[:3] == ["unacknowledged 2", "unconfirmed 4", "consumers 1"]
    page = await browser.page(f"{link}/consumers")
    assert page.rows() == [["tag", "q", "up", "10", "2"]]
    assert "/queues/%2F/q" in [each["href"] for each in page.all("a")]


async def test_of_others_one_sees_nothing_without_the_tag(browser: Browser) -> None:
    await browser.sign_in_as("bob", "management")
    for path in ("/connections/10.0.0.9%3A1%20-%3E%20here", "/channels/10.0.0.9%3A1%20-%3E%20here"):
        assert (await browser.get(path)).status in (403, 404)
