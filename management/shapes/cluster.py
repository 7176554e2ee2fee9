"""The cluster."""

from typing import Any, TypedDict

from routelog.management.shapes.node import Standby


class ClusterNode(TypedDict):
    """A node of the cluster."""

    name: str
    leads: bool
    running: bool
    in_sync: bool
    damaged: bool
    blocks_behind: int | None


class Cluster(TypedDict):
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
