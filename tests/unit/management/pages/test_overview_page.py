"""The first page."""

import json
from collections.abc import Iterable

import pytest
from support.html_document import Element
from support.queue_samples import records
from unit.management.managed_node import Connection
from unit.management.page_browser import Browser

from routelog.management.findings.finding import Finding
from routelog.management.findings.queue_findings import QueueFindings
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import VirtualHost


def findings(page: Element) -> list[Element]:
    return page.one("ul", class_="findings").all("li")


async def test_nothing_wrong_is_said_in_words(browser: Browser) -> None:
    await browser.node.queue("q")
    await browser.sign_in_as("ann", "administrator")
    page = await browser.page("/")
    assert page.one("h1").text == (
        "All is well One queue was looked at, nobody is blocked, nothing is damaged."
    )
    assert page.all("ul", class_="findings") == []


async def test_what_is_wrong_stands_first_with_a_link_to_it(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    (await browser.node.queue("a/b <i>")).publish(records(*"xxx"), True)
    browser.node.alarms = ["low on disk"]
    page = await browser.page("/")
    assert page.one("h1").text.startswith("Publishers wait and one queue has no consumer.")
    first, second = findings(page)
    assert first["class"] == "finding wrong"
    assert first.text == "Alarm Publishers wait: low on disk"
    assert first.one("a")["href"] == "/nodes"
    assert second.one("a").text == "a/b <i>"
    assert second.one("a")["href"] == "/queues/%2F/a%2Fb%20%3Ci%3E"


async def test_the_queues_are_looked_at_once_for_the_page_and_its_menu(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    look = QueueFindings.look

    async def counted(self: QueueFindings, vhosts: Iterable[VirtualHost]) -> list[Finding]:
        looks.append(vhosts)
        return await look(self, vhosts)

    monkeypatch.setattr(QueueFindings, "look", counted)
    await browser.sign_in_as("ann", "administrator")  # leads to the overview
    assert len(looks) == 1


async def test_many_of_a_kind_are_one_row_that_leads_to_all(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    for at in range(30):
        (await browser.node.queue(f"q{at}")).publish(records(*"x" * (3 + at)), True)
    (row,) = findings(await browser.page("/"))
    every, first = row.all("a")
    assert every.text == "30 queues hold 525 messages that nobody takes"
    assert every["href"] == "/queues?sort=messages_ready&sort_reverse=true"
    assert first["href"] == "/queues/%2F/q29"


async def test_five_rows_are_shown_and_the_others_are_a_click_away(browser: Browser) -> None:
    await browser.sign_in_as("ann", "administrator")
    node = browser.node
    (await node.queue("q")).publish(records(*"xxx"), True)
    (await node.queue("damaged")).partitions[0].log.blocked_from = 0
    node.alarms, node.failure = ["low on disk"], "no space left"
    node.cluster.nodes.append(ReplicaState("b", False, False, None, True))
    node.cluster.followers = [{"name": "s", "is_connected": False, "bytes": 0, "seconds": 0.0}]
    node.connections.open = [Connection("c", "ann", node.vhost)]
    page = await browser.page("/")
    shown, hidden = page.all("ul", class_="findings")
    kinds = [row.one("span", class_="kind").text for row in shown.all("li")]
    assert kinds == ["Log", "Alarm", "Damage", "Replica", "Blocked"]
    assert page.one("details").one("summary").text == "2 more"
    assert [row.one("span", class_="kind").text for row in hidden.all("li")] == [
        "Standby",
        "No consumer",
    ]


async def test_links_lead_where_the_user_may_go(browser: Browser) -> None:
    browser.node.alarms = ["low on disk"]
    await browser.sign_in_as("bob", "management")
    (row,) = findings(await browser.page("/"))
    assert row.all("a") == []


async def test_charts_and_limits_of_the_node_are_for_those_who_see_all_of_it(
    browser: Browser,
) -> None:
    await browser.sign_in_as("ann", "monitoring")
    page = await browser.page("/")
    assert page.one("figcaption").text == "Messages"
    assert int(page.one("header")["data-began"]) > 0  # before it the charts know nothing
    assert page.one("p", class_="keys").text == "Ready 0 Unacknowledged 0"
    meters = {each["aria-label"]: each["value"] for each in page.all("progress")}
    assert list(meters) == ["Memory", "Disk", "Open files", "Connections", "Intake"]
    assert (meters["Disk"], meters["Intake"]) == ("0.7500", "0.1000")
    assert "1 kB free of 4 kB" in page.text
    await browser.sign_in_as("bob", "management")
    page = await browser.page("/")
    assert (page.all("figure"), page.all("progress")) == ([], [])


async def test_charts_go_back_as_far_as_is_asked(browser: Browser) -> None:
    await browser.sign_in_as("ann", "monitoring")
    for query, key, seconds in (
        ("", "10m", 600),
        ("?range=8h", "8h", 28_800),
        ("?range=x", "10m", 600),
    ):
        page = await browser.page(f"/{query}")
        (chosen,) = [
            each
            for each in page.one("div", class_="ranges").all("a")
            if "aria-current" in each.attributes
        ]
        assert chosen["href"] == f"?range={key}"
        (place,) = [each for each in page.all("div") if "data-chart" in each.attributes]
        times = json.loads(place["data-chart"])["times"]
        assert (times[-1] - times[0], len(times)) == (seconds, 61)


async def test_nodes_of_a_cluster_are_shown_with_how_far_they_are(browser: Browser) -> None:
    await browser.sign_in_as("ann", "monitoring")
    assert "Cluster 3 nodes" not in (await browser.page("/")).text
    browser.node.cluster.nodes += [
        ReplicaState("b", True, True, 3),
        ReplicaState("c", False, False, None),
    ]
    page = await browser.page("/")
    assert "Cluster 3 nodes" in page.text
    assert page.rows()[-3:] == [
        ["routelog@here", "leads", "yes", "0"],
        ["b", "follows", "yes", "3"],
        ["c", "away", "no", "–"],
    ]


async def test_what_comes_and_goes_is_counted(browser: Browser) -> None:
    await browser.node.queue("q")
    await browser.sign_in_as("bob", "management")
    rows = (await browser.page("/")).rows()
    assert ["Queues", "1", "0", "0"] in rows
    assert ["Consumers", "0", "", ""] in rows
