"""`routelog cluster status` where etcd does not answer: nodes on real sockets say what they know."""

from __future__ import annotations

from functools import partial

from support.node_sockets import node_sockets
from support.ports import free_port
from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.commands.reported_status import ask_nodes, reported_status
from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.links.node_links import LinkSecurity, NodeLinks
from routelog.mirror_cluster.links.node_report import NodeReport, give_report
from routelog.mirror_cluster.node.cluster_options import ClusterOptions

SECRET = b"a secret of this test"
OLD, NEW = (record(leader, epoch=epoch) for leader, epoch in (("b", 1), ("a", 2)))


async def test_each_node_that_can_be_reached_says_what_it_knows() -> None:
    reports = {
        "a": NodeReport("a", False, "etcd does not answer", "", ["b"], 9, NEW.encode(), 7),
        "b": NodeReport("b", False, "", "a", [], 8, OLD.encode(), 6),
    }
    nodes, addresses = [], {"c": f"127.0.0.1:{free_port()}"}
    for name, report in reports.items():
        links = NodeLinks(
            "orders",
            NodeEntry(name, 1, "", 1),
            LinkSecurity(SECRET),
            lambda sender, message: None,
            lambda gone: None,
            node_sockets(),
        )
        links.take_asker = lambda who, *given, report=report: give_report(report, *given)
        addresses[name] = f"127.0.0.1:{await links.listen('127.0.0.1', 0)}"
        nodes.append(links)
    peers = ["http://a", "http://b", "http://c"]
    options = partial(ClusterOptions, "orders", "", addresses, ("", 0))
    told = options(SECRET, None, [], peers, "", "", 2)
    stranger = options(b"another secret", None, [], peers, "", "", 2)
    try:
        status = reported_status(told, await ask_nodes(told), "no answer")
        refused = await ask_nodes(stranger)
    finally:
        for each in nodes:
            await each.aclose()
    says = {row["node"]: (row["alive"], row["says"]) for row in status["nodes"]}
    assert says["a"] == (
        True,
        "etcd does not answer; is connected with b; its journal ends at 9",
    )
    assert says["b"] == (
        True,
        "serves clients by way of a; is connected with no other node; its journal ends at 8",
    )
    assert says["c"][0] is False
    assert says["c"][1].startswith("cannot be reached: ")
    (shard,) = status["shards"]
    assert (shard["leader"], shard["epoch"], shard["led"]) == ("a", 2, False)
    assert not status["is_well"]
    assert status["summary"] == (
        "etcd does not answer: without a majority of its members nobody leads; "
        "2 of 3 nodes answer (no answer)"
    )
    assert all(isinstance(each, str) for each in refused.values())
