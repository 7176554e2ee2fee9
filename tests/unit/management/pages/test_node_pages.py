"""Pages of the node."""

from dataclasses import replace

from unit.management.managed_node import ManagedNode
from unit.management.page_browser import Browser, browsing

from routelog.mirror_cluster import ReplicaState


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
