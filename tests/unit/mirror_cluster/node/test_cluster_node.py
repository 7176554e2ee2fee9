"""A node's own life; what it does with its replicas is shown by clusters of nodes."""

import asyncio

import pytest
from cluster.nodes.memory_coordinator import Held, MemoryCoordinator

from routelog.log_backend import SystemClock
from routelog.mirror_cluster.links.node_links import LinkSecurity
from routelog.mirror_cluster.node.cluster_node import ClusterNode, NodeSettings

END_SECONDS_MAX = 30.0  # at once; a node that does not end never does


class Owner:
    """Has no shard."""

    def end(self, reason: str) -> None:
        raise AssertionError(reason)


async def synced() -> None:
    pass


@pytest.mark.parametrize("turns", range(6))
async def test_a_node_ends_whenever_something_has_asked_for_a_read(turns: int) -> None:
    security = LinkSecurity(b"a secret of this test")
    settings = NodeSettings("orders", "a", 1, "127.0.0.1:1", "127.0.0.1", 0, security)
    node = ClusterNode(settings, SystemClock(), MemoryCoordinator(Held()), synced, Owner())
    await node.start([])
    for _ in range(10):  # turns of the loop: it waits for its next read
        await asyncio.sleep(0)
    node.read_soon()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(END_SECONDS_MAX):
        await node.aclose()
