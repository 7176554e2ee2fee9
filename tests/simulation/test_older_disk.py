"""An older image of a node's disk is put back, as from a snapshot, while its node is in sync."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from simulation.cluster import Cluster
from simulation.node import Node

from routelog.mirror_cluster.protocol.messages import Hello

LOST_SECONDS = (0.5, 1.5, 8.0)  # the leader's journal goes back as far, or begins later


def _cluster() -> Cluster:
    """Three nodes, of which two must be in sync, that serve."""
    cluster = next(
        each
        for each in map(Cluster, count())
        if len(each.nodes) == 3 and each.settings.min_in_sync == 2 and not each.has_operator
    )
    cluster.faults.end()
    cluster._publish()
    _run(cluster, 3.0)
    return cluster


def _run(cluster: Cluster, seconds: float) -> None:
    cluster.scheduler.run_until(cluster.scheduler.now + seconds)


def _end(node: Node) -> None:
    node.stays_down = True
    node.crash(power=True, restart_after=None)


def _begin(node: Node) -> None:
    node.stays_down = False
    node.start()


def _lose_answer(cluster: Cluster, node: Node) -> None:
    """The next `Hello` of a node that says that it cannot use what it has is lost."""
    send = cluster.network.send

    def lose(source: str, target: str, call: Callable[..., Any], *arguments: Any) -> None:
        hellos = [each for each in arguments if isinstance(each, Hello)]
        if source == node.name and any(not each.epoch_ends for each in hellos):
            cluster.network.send = send  # type: ignore[method-assign]
        else:
            send(source, target, call, *arguments)

    cluster.network.send = lose  # type: ignore[method-assign]


@pytest.mark.parametrize("lost_seconds", LOST_SECONDS)
@pytest.mark.parametrize(
    ("caught_up_seconds", "is_answer_lost"), [(0.5, False), (8.0, False), (1.25, True)]
)
def test_a_node_with_an_older_disk_does_not_lead_with_it(
    lost_seconds: float, caught_up_seconds: float, is_answer_lost: bool
) -> None:
    cluster = _cluster()
    leader = cluster.nodes[cluster.coordinator.last.leader]
    older, away = [node for node in cluster.nodes.values() if node is not leader]
    _end(away)
    _run(cluster, 5.0)
    image = older.disk.image()
    _run(cluster, lost_seconds)
    _end(older)
    _run(cluster, 1.0)
    assert cluster.coordinator.last.in_sync == {leader.name, older.name}
    older.disk.put_back(image)
    cluster.checker.older(older)
    if is_answer_lost:
        _lose_answer(cluster, older)
    _begin(older)
    _run(cluster, caught_up_seconds)
    _end(leader)
    _begin(away)
    _run(cluster, 10.0)
    _begin(leader)
    _run(cluster, 10.0)
    assert leader.serves or older.serves
    cluster._published = -1
    _run(cluster, 5.0)
    assert cluster.checker.agreed() is None
    cluster.checker.finish()
