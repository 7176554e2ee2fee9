"""The cluster: who leads, who has everything, whether one more failure stops confirms, and what changed."""

from routelog.management.calls.answer import Answer, Row, Value
from routelog.management.calls.broker_side import Replica
from routelog.management.calls.call import Call
from routelog.management.calls.operation import answers
from routelog.management.shapes.cluster import Cluster


@answers(Cluster)
def get_cluster(call: Call) -> Answer:
    """Nodes, standbys and changes of leader; a node on its own has neither epoch nor changes."""
    broker = call.broker
    replicas = broker.replicas()
    in_sync = sum(each.is_running and each.is_in_sync for each in replicas)
    is_cluster = len(replicas) > 1
    leadership = broker.leadership()
    return Value(
        {
            "name": broker.cluster_name(),
            "is_cluster": is_cluster,
            "leader": broker.node.name,  # whoever answers leads
            "epoch": None,
            "since": None,
            "unclean_epoch": None,
            "history": [],
            **(leadership or {}),
            "min_in_sync": broker.min_in_sync,
            "in_sync": in_sync,
            "may_fail": in_sync - broker.min_in_sync if is_cluster else None,
            "critical": is_cluster and in_sync <= broker.min_in_sync,
            "nodes": [_row(each, broker.node.name) for each in replicas],
            "standbys": broker.standbys(),
        }
    )


def _row(replica: Replica, leader: str) -> Row:
    return {
        "name": replica.name,
        "leads": replica.name == leader,
        "running": replica.is_running,
        "in_sync": replica.is_in_sync,
        "damaged": replica.is_damaged,
        "blocks_behind": replica.blocks_behind,
    }
