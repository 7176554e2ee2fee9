"""Faults of real node processes and their etcd, while clients publish."""

import signal
from collections.abc import Sequence

from cluster.faults.random_faults import Kind, RandomFaults
from cluster.nodes.node_processes import NAMES, NodeCluster


class NodeFaults(RandomFaults):
    """See the module. What is stopped goes on; a node that ends is started again by its keeper."""

    def __init__(self, cluster: NodeCluster, seed: int) -> None:
        super().__init__(seed, NAMES)
        self._cluster = cluster

    def kinds(self) -> Sequence[Kind]:
        """See `RandomFaults`."""
        return [
            (4, self._kill),
            (4, self._stop),
            (1, self._kill_all),
            (2, self._wipe),
            (2, self._kill_etcd),
            (2, self._stop_etcd),
            (2, self._transfer),
        ]

    async def leader(self) -> str:
        """See `RandomFaults`."""
        statuses = await self._cluster.statuses()
        leads = [name for name, each in statuses.items() if each["shards"][0]["epoch"]]
        return self.randomness.choice(leads) if leads else ""

    async def _kill(self, name: str) -> None:
        self._cluster.nodes[name].signal(signal.SIGKILL)

    async def _stop(self, name: str) -> None:
        node = self._cluster.nodes[name]
        process = node.process
        node.signal(signal.SIGSTOP)
        await self.last()
        if node.process is process:
            node.signal(signal.SIGCONT)

    async def _kill_all(self, name: str) -> None:
        for node in self._cluster.nodes.values():
            node.signal(signal.SIGKILL)

    async def _wipe(self, name: str) -> None:
        # One disk at a time, and all others have everything: a second loss would be one of confirmed texts.
        await self._cluster.until_well()
        await self._cluster.nodes[name].wipe()

    async def _kill_etcd(self, name: str) -> None:
        child = self.randomness.choice(self._cluster.etcd.children)
        self._cluster.etcd.signal(child, signal.SIGKILL)

    async def _stop_etcd(self, name: str) -> None:
        children = self._cluster.etcd.children
        for child in children:
            self._cluster.etcd.signal(child, signal.SIGSTOP)
        await self.last()
        for child in children:
            self._cluster.etcd.signal(child, signal.SIGCONT)

    async def _transfer(self, name: str) -> None:
        await self._cluster.nodes[name].ask(transfer=0)
