"""A node's own life; what it does with its replicas is shown by clusters of nodes."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from cluster.nodes.memory_coordinator import Held, MemoryCoordinator
from cluster.nodes.store_node import SHARD, StoreNode
from support.node_sockets import node_sockets
from support.waiting import until

from routelog.log_backend import SystemClock
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    NodeEntry,
    ReplicaNote,
)
from routelog.mirror_cluster.links.node_links import LinkSecurity
from routelog.mirror_cluster.node import cluster_node
from routelog.mirror_cluster.node.cluster_node import ClusterNode, NodeSettings
from routelog.mirror_cluster.protocol.promise import Promise
from routelog.mirror_cluster.protocol.shard_record import Member

END_SECONDS_MAX = 30.0  # at once; a node that does not end never does


SETTINGS = NodeSettings(
    "orders", "a", 1, "127.0.0.1:1", "127.0.0.1", 0, LinkSecurity(b"a secret of this test")
)


class Owner:
    """Has no shard."""

    def end(self, reason: str) -> None:
        raise AssertionError(reason)


async def synced() -> None:
    pass


@pytest.mark.parametrize("turns", range(6))
async def test_a_node_ends_whenever_something_has_asked_for_a_read(turns: int) -> None:
    node = ClusterNode(
        SETTINGS, SystemClock(), MemoryCoordinator(Held()), synced, Owner(), node_sockets()
    )
    await node.start([])
    for _ in range(10):  # turns of the loop: it waits for its next read
        await asyncio.sleep(0)
    node.read_soon()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(END_SECONDS_MAX):
        await node.aclose()


class UnreadableRecord(MemoryCoordinator):
    """One whose record cannot be read for a while.

    Attributes:
        refuses: so many reads yet.
    """

    refuses = 3

    async def read(self) -> ClusterView:
        if self.refuses:
            self.refuses -= 1
            raise CoordinatorRefused("shards/0 cannot be read")
        return await super().read()


async def test_a_record_that_cannot_be_read_is_told_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_node, "READ_SECONDS", 0.01)
    viewed = asyncio.Event()
    node = ClusterNode(
        SETTINGS, SystemClock(), UnreadableRecord(Held()), synced, Owner(), node_sockets()
    )
    node.on_view = lambda view: viewed.set()
    with caplog.at_level(logging.INFO):
        await node.start([])
        async with asyncio.timeout(END_SECONDS_MAX):
            await viewed.wait()
        await node.aclose()
    told = [each for each in caplog.messages if "coordinator" in each]
    assert told == [
        "the coordinator gives an answer of no use: shards/0 cannot be read",
        "the coordinator answers again",
    ]


async def test_a_cluster_begins_above_every_epoch_that_one_of_its_nodes_knows(
    tmp_path: Path,
) -> None:
    held = Held()
    held.nodes["b"] = NodeEntry("b", 2, "127.0.0.1:1", 2, {SHARD: ReplicaNote(end=(12, 5))})
    node = await StoreNode("a", tmp_path, held).start()
    await until(lambda: "b" in node.node.view.nodes)
    await node.lead_alone("a")
    assert node.epoch == 14  # it would not follow one that it takes for old
    await node.aclose()


async def test_a_record_that_nobody_refuses_is_not_begun_again(tmp_path: Path) -> None:
    held = Held()
    node = await StoreNode("a", tmp_path, held).start()
    await node.lead_alone("a")
    record = held.records[SHARD]
    await until(lambda: node.node.view.records.get(SHARD) == record)
    assert not await node.node.begin_shard(SHARD, "a", record.revision)
    assert held.records[SHARD] == record
    await node.aclose()


async def test_who_neither_leads_nor_follows_tells_where_its_journal_ends(tmp_path: Path) -> None:
    held = Held()
    node = await StoreNode("a", tmp_path, held).start()
    await node.lead_alone("a", "z")
    await node.declare("orders")
    assert node.node.replicas[SHARD].replica.serving
    await node.aclose()
    other, held.revision = Member("z", 26), held.revision + 1
    led = held.records[SHARD].led_by(other, 9).with_member(other).without(frozenset("a"))
    held.records[SHARD] = led = replace(led, revision=held.revision)
    node = await StoreNode("a", tmp_path, held).start()
    replica = node.node.replicas[SHARD].replica
    await until(lambda: replica.record == led)
    end = replica.log.chain.end
    assert end.position
    await until(
        lambda: "a" in held.nodes and held.nodes["a"].notes[SHARD].promise == Promise.of(led)
    )
    assert held.nodes["a"].notes[SHARD].end == (end.epoch, end.position)
    await node.aclose()
