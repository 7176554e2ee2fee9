"""The first page."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from support.html_document import Element
from support.queue_samples import records
from unit.management.managed_node import Connection, ManagedNode
from unit.management.page_browser import Browser, browsing

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


async def test_a_node_on_its_own_is_shown_with_its_standby(browser: Browser) -> None:
    lag = {"name": "warm", "is_connected": False, "bytes": 2_048, "seconds": 1.25}
    browser.node.cluster.followers = [lag]
    await browser.sign_in_as("ann", "monitoring")
    page = await browser.page("/cluster")
    assert "runs on its own" in page.text
    assert page.rows() == [
        ["routelog@here", "leads", "yes", "yes", "0"],
        ["warm", "no", "2.05 kB", "1 s"],
    ]


async def test_a_cluster_is_shown_with_what_changed(browser: Browser) -> None:
    node = browser.node
    change = {"at": 60_000_000, "epoch": 7, "leader": "routelog@here", "in_sync": ["b", "c"]}
    node.cluster.led = {"leader": "routelog@here", "epoch": 7, "since": 60, "unclean_epoch": 6}
    node.cluster.led["history"] = [{**change, "what": "b is gone"}]
    node.cluster.nodes += [
        ReplicaState("b", False, False, None, True),
        ReplicaState("c", True, True, 2),
    ]
    await browser.sign_in_as("ann", "administrator")
    page = await browser.page("/cluster")
    assert "one more failure stops them: 2 nodes are in sync, and 2 are needed" in page.text
    assert "Epoch 6 began by an operator's command" in page.text
    assert page.rows()[1:] == [
        ["b", "follows", "no", "damaged", "–"],
        ["c", "follows", "yes", "yes", "2"],
        ["1970-01-01 00:01:00 UTC", "7", "routelog@here", "b, c", "b is gone"],
    ]
    node.cluster.nodes[1] = ReplicaState("b")
    assert "also when 1 more node fails" in (await browser.page("/cluster")).text
    node.cluster.nodes[1:] = [ReplicaState("b", False), ReplicaState("c", False)]
    assert "Nothing is confirmed until 2" in (await browser.page("/cluster")).text


async def test_the_log_is_shown_and_filtered(browser: Browser) -> None:
    node = browser.node
    of = {"time": "2026-01-31T12:00:00.000Z", "logger": "l"}
    node.log_lines = [
        {**of, "level": "info", "message": "queue deleted: name='q'", "number": 1}
        | {"event": "queue.deleted", "by": "bob", "via": "HTTP"},
        {**of, "level": "error", "message": "a fault", "trace": "Traceback", "number": 2},
    ]
    await browser.sign_in_as("ann", "administrator")
    page = await browser.page("/log")
    assert [row[1:4] for row in page.rows()] == [
        ["error", "", ""],
        ["info", "queue.deleted", "bob"],
    ]
    assert page.rows()[0][4] == "a fault Traceback"
    (live,) = page.all("div", id="live")
    assert live["hx-get"] == "/log"
    page = await browser.page("/log?via=HTTP&user=bob&still=1")
    assert [row[4] for row in page.rows()] == ["queue deleted: name='q'"]
    (live,) = page.all("div", id="live")
    assert "hx-get" not in live.attributes
    assert "routelog log tail --follow --user bob --via HTTP" in page.text
    assert "No line is like that" in (await browser.page("/log?event=x")).text
    assert (await browser.get("/log?level=loud")).status == 400
