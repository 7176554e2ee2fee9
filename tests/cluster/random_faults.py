"""Faults drawn from a seed, struck at real processes while clients publish."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from random import Random

from cluster.node_processes import NodeCluster, NodeProcess

PAUSE_SECONDS_MAX = 3.0  # between two faults: some strike while the one before is being healed
STOP_SECONDS_MAX = 5.0  # longer than a lease


class RandomFaults:
    """See the module.

    Attributes:
        struck: what was done, in order.
    """

    def __init__(self, cluster: NodeCluster, seed: int) -> None:
        self.struck: list[str] = []
        self._cluster = cluster
        self._randomness = Random(seed)
        self._kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self._kill),
            (4, self._stop),
            (1, self._kill_all),
            (2, self._wipe),
            (2, self._kill_etcd),
            (2, self._stop_etcd),
            (2, self._transfer),
        ]

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long; what is stopped goes on at the end."""
        ends = time.monotonic() + seconds
        weights = [weight for weight, _ in self._kinds]
        while time.monotonic() < ends:
            await asyncio.sleep(self._randomness.uniform(0, PAUSE_SECONDS_MAX))
            _, kind = self._randomness.choices(self._kinds, weights)[0]
            self.struck.append(kind.__name__.strip("_"))
            await kind()

    async def _kill(self) -> None:
        (await self._node()).signal(signal.SIGKILL)

    async def _stop(self) -> None:
        node = await self._node()
        process = node.process
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._randomness.uniform(0.1, STOP_SECONDS_MAX))
        if node.process is process:
            node.signal(signal.SIGCONT)

    async def _kill_all(self) -> None:
        for node in self._cluster.nodes.values():
            node.signal(signal.SIGKILL)

    async def _wipe(self) -> None:
        # One disk at a time, and all others have everything: a second loss would be one of confirmed texts.
        await self._cluster.until_well()
        await (await self._node()).wipe()

    async def _kill_etcd(self) -> None:
        child = self._randomness.choice(self._cluster.etcd.children)
        self._cluster.etcd.signal(child, signal.SIGKILL)

    async def _stop_etcd(self) -> None:
        children = self._cluster.etcd.children
        for child in children:
            self._cluster.etcd.signal(child, signal.SIGSTOP)
        await asyncio.sleep(self._randomness.uniform(0.1, STOP_SECONDS_MAX))
        for child in children:
            self._cluster.etcd.signal(child, signal.SIGCONT)

    async def _transfer(self) -> None:
        node = await self._node()
        await node.ask(transfer=0)

    async def _node(self) -> NodeProcess:
        nodes = list(self._cluster.nodes.values())
        if self._randomness.random() < 0.5:
            statuses = await self._cluster.statuses()
            leads = [name for name, each in statuses.items() if each["shards"][0]["epoch"]]
            nodes = [self._cluster.nodes[name] for name in leads] or nodes
        return self._randomness.choice(nodes)
