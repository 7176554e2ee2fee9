"""The cluster and its nodes, as the node that leads knows them and shows operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A node of the cluster.

    Attributes:
        is_damaged: some of its queues are quarantined: it cannot read all that it has.
        blocks_behind: blocks of the leader's journal that may not be on this node's disk; None: nobody knows.
    """

    name: str
    is_running: bool = True
    is_in_sync: bool = True
    blocks_behind: int | None = 0
    is_damaged: bool = False


class ClusterState(Protocol):
    """The cluster as this node knows it; a node on its own is a cluster of one."""

    @property
    def min_in_sync(self) -> int:
        """How many nodes must be in sync for a confirm."""

    def replicas(self) -> Sequence[ReplicaState]:
        """All nodes."""

    def leadership(self) -> dict[str, Any] | None:
        """Who leads, in which epoch and since when, and what changed; None: a node on its own."""

    def standbys(self) -> list[dict[str, Any]]:
        """Each one's name, whether it is connected, and how far it is behind, in bytes and seconds."""
