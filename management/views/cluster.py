"""The cluster: who leads, who has everything, whether one more failure stops confirms, and what changed."""

from typing import Any

import msgspec

from routelog.management.calls.answer import Answer, Value
from routelog.management.calls.call import Call
from routelog.management.calls.operation import answers
from routelog.management.shapes.node import Standby
from routelog.mirror_cluster import ReplicaState

_ALONE: dict[str, Any] = {"epoch": None, "since": None, "unclean_epoch": None, "history": []}


class ClusterNode(msgspec.Struct):
    """A node of the cluster."""

    name: str
    leads: bool
    running: bool
    in_sync: bool
    damaged: bool
    blocks_behind: int | None


class Cluster(msgspec.Struct):
    """Who leads and who has everything; a node on its own has neither epoch nor changes."""

    name: str
    is_cluster: bool
    leader: str
    epoch: int | None
    since: Any
    unclean_epoch: Any
    history: list[dict[str, Any]]
    min_in_sync: int
    in_sync: int
    may_fail: int | None
    critical: bool
    nodes: list[ClusterNode]
    standbys: list[Standby]


@answers(Cluster)
def get_cluster(call: Call) -> Answer:
    """Nodes, standbys and changes of leader; a node on its own has neither epoch nor changes."""
    broker = call.broker
    replicas = broker.cluster.replicas()
    in_sync = sum(each.is_running and each.is_in_sync for each in replicas)
    is_cluster = len(replicas) > 1
    return Value(
        Cluster(
            name=broker.cluster_name(),
            is_cluster=is_cluster,
            **(broker.cluster.leadership() or _ALONE | {"leader": broker.node.name}),
            min_in_sync=broker.cluster.min_in_sync,
            in_sync=in_sync,
            may_fail=in_sync - broker.cluster.min_in_sync if is_cluster else None,
            critical=is_cluster and in_sync <= broker.cluster.min_in_sync,
            nodes=[_row(each, broker.node.name) for each in replicas],
            standbys=[Standby(**each) for each in broker.cluster.standbys()],
        )
    )


def _row(replica: ReplicaState, leader: str) -> ClusterNode:
    return ClusterNode(
        name=replica.name,
        leads=replica.name == leader,
        running=replica.is_running,
        in_sync=replica.is_in_sync,
        damaged=replica.is_damaged,
        blocks_behind=replica.blocks_behind,
    )
