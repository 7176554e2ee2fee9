"""The cluster's page: a node on its own, and one that leads others."""

from unit.management.page_browser import Browser

from routelog.mirror_cluster import ReplicaState


async def test_a_node_on_its_own_is_shown_with_its_standby(browser: Browser) -> None:
    lag = {"name": "warm", "is_connected": False, "bytes": 2_048, "seconds": 1.25}
    browser.node.cluster.followers = [lag]
    await browser.sign_in_as("ann", "monitoring")
    page = await browser.page("/cluster")
    assert "runs on its own" in page.text
    assert page.rows() == [
        ["routelog@here", "yes", "yes", "yes", "", "0"],
        ["warm", "no", "2.0 KiB", "1.2"],
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
        ["b", "", "no", "no", "yes", "–"],
        ["c", "", "yes", "yes", "", "2"],
        ["1970-01-01 00:01:00 UTC", "7", "routelog@here", "b, c", "b is gone"],
    ]
    node.cluster.nodes[1] = ReplicaState("b")
    assert "also when 1 more node fails" in (await browser.page("/cluster")).text
    node.cluster.nodes[1:] = [ReplicaState("b", False), ReplicaState("c", False)]
    assert "Nothing is confirmed until 2" in (await browser.page("/cluster")).text
