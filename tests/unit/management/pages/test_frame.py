"""What stands around every page: the menu with counts and marks, the vhost, the search."""

from __future__ import annotations

import pytest
from support.html_document import Element
from support.queue_samples import records
from unit.management.managed_node import Connection
from unit.management.page_browser import ALL, Browser

from routelog.management.pages import frame
from routelog.management.pages.frame import MENU
from routelog.vhosts import VhostRecord


@pytest.fixture
async def browser(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Browser:
    monkeypatch.setattr(frame, "KEPT_SECONDS", 0)
    await browser.node.broker.vhosts.put(VhostRecord("w"))
    await browser.sign_in_as("ann", "administrator")
    return browser


def counts(page: Element) -> dict[str, str]:
    return {
        each["href"]: count.text
        for each in page.one("nav", id="menu").all("a")
        for count in each.all("span", class_="count")
    }


async def test_the_menu_counts_what_there_is_and_says_where_one_is(browser: Browser) -> None:
    node = browser.node
    await node.queue("q")
    node.connections.open.append(Connection("c", "ann", node.vhost, "q"))
    page = await browser.page("/queues/%2F/q")
    found = counts(page)
    assert (found["/queues"], found["/connections"], found["/consumers"]) == ("1", "1", "1")
    assert found["/delayed"] == "0"
    (here,) = [each for each in page.one("nav", id="menu").all("a") if each.get("aria-current")]
    assert (here["href"], here["aria-current"]) == ("/queues", "true")
    assert page.one("nav", id="menu").all("a", aria_current="page") == []


async def test_each_page_of_the_menu_is_there_and_is_the_only_one_that_is_here(
    browser: Browser,
) -> None:
    for entry in (entry for group in MENU.values() for entry in group):
        page = await browser.page(entry.path)
        (here,) = page.one("nav", id="menu").all("a", aria_current="page")
        assert here["href"] == entry.path


async def test_where_something_is_wrong_there_is_a_mark(browser: Browser) -> None:
    assert (await browser.page("/")).one("nav", id="menu").all("span", class_="warned") == []
    browser.node.alarms = ["low on disk"]
    (nodes,) = [
        each
        for each in (await browser.page("/queues")).one("nav", id="menu").all("a")
        if each.all("span", class_="warned")
    ]
    assert nodes["href"] == "/nodes"
    assert nodes.one("span", class_="wrong")["title"] == "1 finding: see the overview"


async def test_counts_and_findings_are_kept_for_some_seconds(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "KEPT_SECONDS", 60)
    before = counts(await browser.page("/queues"))
    await browser.node.queue("q")
    assert counts(await browser.page("/queues")) == before
    assert counts(await browser.page("/queues?in=%2F"))["/queues"] == "1"  # of another choice


async def test_a_vhost_is_chosen_once(browser: Browser) -> None:
    await browser.node.queue("q")
    page = await browser.page("/queues?in=w&sort=name")
    chosen = page.one("select", id="in-vhost").all("option", selected="")
    assert [each["value"] for each in chosen] == ["w"]
    assert counts(page)["/queues"] == "0"
    assert counts(await browser.page("/"))["/queues"] == "0"
    assert counts(await browser.page("/?in="))["/queues"] == "1"
    await browser.page("/?in=w")
    await browser.node.broker.vhosts.delete("w")
    page = await browser.page("/queues")
    assert (page.all("select", id="in-vhost"), counts(page)["/queues"]) == ([], "1")


async def test_a_vhost_that_a_user_does_not_see_cannot_be_chosen(browser: Browser) -> None:
    await browser.sign_in_as("bob", "management")
    page = await browser.page("/queues?in=w")
    assert page.all("select", id="in-vhost") == []
    await browser.node.users.set_permissions("bob", "w", ALL)
    page = await browser.page("/queues?in=w")
    assert page.one("select", id="in-vhost").one("option", selected="")["value"] == "w"


async def test_everything_is_found_by_a_part_of_its_name(browser: Browser) -> None:
    node = browser.node
    queue = await node.queue("Some/Queue")
    queue.publish(records("x"), True)
    node.connections.open.append(Connection("some client", "ann", node.vhost, "Some/Queue"))
    page = await browser.page("/search?for=some")
    links = {each.one("b").text: each["href"] for each in page.one("div", class_="found").all("a")}
    assert links == {
        "Some/Queue": "/queues/%2F/Some%2FQueue",
        "some client": "/connections/some%20client",
    }
    page = await browser.page("/search?for=ann")
    assert {each["href"] for each in page.one("div", class_="found").all("a")} == {
        "/channels",
        "/users/ann",
    }
    page = await browser.page("/search?for=nothing")
    assert "Nothing that you may see" in page.one("div", class_="found").text
    assert "Write a part" in (await browser.page("/search")).text


async def test_of_many_the_first_are_found_and_a_list_has_the_others(browser: Browser) -> None:
    for number in range(9):
        await browser.node.queue(f"q{number}")
    found = (await browser.page("/search?for=q")).one("div", class_="found").all("a")
    assert [each["href"] for each in found if each["href"].startswith("/queues?")] == [
        "/queues?name=q"
    ]
    assert "and 3 more" in [each.text for each in found]
    await browser.sign_in_as("bob", "management")
    found = (await browser.page("/search?for=ann")).one("div", class_="found").all("a")
    assert [each["href"] for each in found] == ["/channels"]  # users are not for him
