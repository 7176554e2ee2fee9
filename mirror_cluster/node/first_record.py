"""The first record of a shard, which makes the cluster: made once, when all nodes are there.

Whose data are the cluster's? Those of the one node that has any: so a node that ran on its own grows to three
in place. When no node has any, those of the first. When several have some, or belong to a cluster whose record
is not there, nobody but the operator knows: `routelog cluster init --from NODE`.
"""

import asyncio
import logging
from collections.abc import Sequence

from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.node.cluster_node import ClusterNode

log = logging.getLogger(__name__)


class FirstRecord:
    """Makes it, if that is for this node to do.

    Args:
        names: of all nodes, as the operator lists them; the same on each.
    """

    def __init__(self, node: ClusterNode, shard: int, names: Sequence[str]) -> None:
        self._node = node
        self._shard = shard
        self._names = names
        self._making: asyncio.Task[None] | None = None
        self._told = ""

    def on_view(self, view: ClusterView) -> None:
        """Look whether the cluster can begin: the coordinator was read."""
        if self._shard in view.records or self._making is not None:
            return
        missing = [name for name in self._names if name not in view.nodes]
        if missing:
            return self._tell(f"the cluster begins when all nodes are there: {', '.join(missing)}")
        notes = view.notes(self._shard)
        if any(note.promise.cluster for note in notes.values()):
            return  # of a cluster whose record is gone: they refuse that, and tell what to do
        with_data = [name for name in self._names if name in notes and notes[name].end[1]]
        if len(with_data) > 1:
            who = ", ".join(with_data)
            return self._tell(f"whose data count? `routelog cluster init --from` one of {who}")
        maker = (with_data or self._names)[0]
        if maker == self._node.name:
            self.begin(0)

    def begin(self, revision: int) -> None:
        """Make it, with the data of this node: the operator says so, or there is no other choice.

        Args:
            revision: see `ClusterNode.begin_shard`.
        """
        if self._making is None:
            self._making = self._node.spawn(self._make(revision))

    async def _make(self, revision: int) -> None:
        try:
            if await self._node.begin_shard(self._shard, self._names, revision):
                log.info("the cluster begins with the data of this node")
            else:
                log.warning("the cluster's record was not made: another one is there, or followed")
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            log.info("the cluster's record was not made: %s", error)
        finally:
            self._making = None

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            log.info("%s", text)
