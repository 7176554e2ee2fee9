"""The first record of a shard, which makes the cluster: made once, when all nodes are there.

Whose data are the cluster's? Those of the one node that has any: so a node that ran on its own grows to three
in place. When no node has any, those of the first. When several have some, nobody but the operator knows:
`routelog cluster init --from NODE`.
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

    def viewed(self, view: ClusterView) -> None:
        """The coordinator was read."""
        if self._shard in view.records or self._making is not None:
            return
        missing = [name for name in self._names if name not in view.nodes]
        if missing:
            return self._tell(f"the cluster begins when all nodes are there: {', '.join(missing)}")
        with_data = [name for name in self._names if _has_data(view, name, self._shard)]
        if len(with_data) > 1:
            who = ", ".join(with_data)
            return self._tell(f"whose data count? `routelog cluster init --from` one of {who}")
        maker = (with_data or self._names)[0]
        if maker == self._node.name:
            self.begin()

    def begin(self) -> None:
        """Make it, with the data of this node: the operator says so, or there is no other choice."""
        if self._making is None:
            self._making = self._node.spawn(self._make())

    async def _make(self) -> None:
        try:
            if await self._node.create_shard(self._shard, self._names):
                log.info("the cluster begins with the data of this node")
        except (CoordinatorUnavailable, CoordinatorRefused) as error:
            log.info("the cluster's record was not made: %s", error)
        finally:
            self._making = None

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            log.info("%s", text)


def _has_data(view: ClusterView, name: str, shard: int) -> bool:
    _, position = view.nodes[name].ends.get(shard, (0, 0))
    return position > 0
