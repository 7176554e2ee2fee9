"""Three nodes as processes: whatever is done to them, nothing confirmed is lost, and they end up equal."""

import asyncio
import signal
from pathlib import Path

import pytest
from cluster.nodes.etcd_cluster import LEASE_SECONDS
from cluster.nodes.node_processes import NodeCluster, node_cluster

BEYOND_LEASE_SECONDS = LEASE_SECONDS + 2.0
WAIT_SECONDS_MAX = 30.0  # for what never comes


async def begin(cluster: NodeCluster) -> int:
    """Publish; the epoch that is served."""
    cluster.publish()
    await cluster.until_confirmed(0)
    return cluster.epoch()


async def test_the_leader_is_killed_and_then_all_at_once(tmp_path: Path) -> None:
    async with node_cluster(tmp_path, shards=2, journal=True) as cluster:
        epoch = await begin(cluster)
        for _ in range(2):
            (await cluster.leader()).signal(signal.SIGKILL)
            await cluster.until_confirmed(epoch)
            await cluster.until_well()
            epoch = cluster.epoch()
        for node in cluster.nodes.values():
            node.signal(signal.SIGKILL)
        await cluster.until_confirmed(epoch)
        await cluster.check()


@pytest.mark.long
async def test_the_leader_is_stopped_for_longer_than_its_lease(tmp_path: Path) -> None:
    async with node_cluster(tmp_path) as cluster:
        epoch = await begin(cluster)
        leader = await cluster.leader()
        process = leader.process
        leader.signal(signal.SIGSTOP)
        await cluster.until_confirmed(epoch)
        leader.signal(signal.SIGCONT)
        await cluster.until_well()
        assert leader.process is not process, "a leader that was deposed ends"
        await cluster.check()


async def test_a_wiped_node_gets_all_again(tmp_path: Path) -> None:
    async with node_cluster(tmp_path) as cluster:
        epoch = await begin(cluster)
        leader = await cluster.leader()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        await follower.wipe()
        await cluster.until_well()
        await leader.wipe()
        await cluster.until_confirmed(epoch)
        await cluster.check()


@pytest.mark.long
async def test_without_etcd_all_goes_on_as_long_as_all_run(tmp_path: Path) -> None:
    async with node_cluster(tmp_path) as cluster:
        epoch = await begin(cluster)
        (etcd,) = cluster.etcd.children
        cluster.etcd.signal(etcd, signal.SIGSTOP)
        await asyncio.sleep(BEYOND_LEASE_SECONDS)
        known = len(cluster.confirmed[0])
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(cluster.confirmed[0]) < known + 20:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert cluster.epoch() == epoch
        cluster.etcd.signal(etcd, signal.SIGKILL)
        cluster.etcd.signal(etcd, signal.SIGCONT)
        await asyncio.sleep(0.2)
        leader = await cluster.leader()
        leader.signal(signal.SIGKILL)
        await cluster.until_confirmed(epoch)
        await cluster.check()


@pytest.mark.long
async def test_nodes_drain_one_after_another(tmp_path: Path) -> None:
    async with node_cluster(tmp_path) as cluster:
        await begin(cluster)
        for node in cluster.nodes.values():
            process = node.process
            await node.ask(drain=0)
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while node.process is process:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await cluster.until_well()
        await cluster.check()
