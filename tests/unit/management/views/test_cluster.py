"""The cluster over HTTP: whether one more failure stops confirms, and a node on its own."""

import pytest
from unit.management.managed_node import ManagedNode

from routelog.management.views import cluster
from routelog.mirror_cluster import ReplicaState


async def test_a_node_on_its_own_leads_without_an_epoch(node: ManagedNode) -> None:
    state = await node.ask(cluster.get_cluster)
    assert (state["is_cluster"], state["leader"], state["epoch"]) == (False, "routelog@here", None)
    assert (state["critical"], state["may_fail"], state["history"]) == (False, None, [])
    (row,) = state["nodes"]
    assert row["leads"]


@pytest.mark.parametrize(
    ("others", "may_fail", "critical"),
    [
        ([(True, True), (True, True)], 1, False),
        ([(True, True), (True, False)], 0, True),
        ([(True, True), (False, True)], 0, True),
        ([(False, False), (False, True)], -1, True),
    ],
)
async def test_it_is_told_how_many_may_fail(
    node: ManagedNode, others: list[tuple[bool, bool]], may_fail: int, critical: bool
) -> None:
    node.cluster.led = {"leader": "routelog@here", "epoch": 7, "since": 5, "unclean_epoch": None}
    node.cluster.led["history"] = [{"what": "x"}]
    named = zip(("b", "c"), others, strict=True)
    node.cluster.nodes += [ReplicaState(name, *of, 3) for name, of in named]
    state = await node.ask(cluster.get_cluster)
    assert (state["epoch"], state["history"]) == (7, [{"what": "x"}])
    assert (state["min_in_sync"], state["may_fail"], state["critical"]) == (2, may_fail, critical)
    assert [each["leads"] for each in state["nodes"]] == [True, False, False]
    assert state["nodes"][1]["blocks_behind"] == 3
