"""A node as its cluster has it: with a copy, or without one; tests/cluster has its life."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from routelog.log_backend import SystemClock, SystemDisk
from routelog.mirror_cluster.coordination.coordinator import ClusterView
from routelog.mirror_cluster.node.cluster_member import ClusterMember, LeadingNode
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.protocol.shard_record import SHARD, Member, ShardRecord

NODES = "a", "b", "c"
RECORD = ShardRecord.beginning(SHARD, 7, Member("a", 1), NODES, 0).led_by(Member("a", 1), 70)


class MemberNode:
    """A node of three, c, as the coordinator and a connection with a tell it."""

    def __init__(self, tmp_path: Path) -> None:
        addresses = {name: f"127.0.0.1:{port}" for port, name in enumerate(NODES, 1)}
        options = ClusterOptions(
            name="cluster",
            node="c",
            addresses=addresses,
            listen=("127.0.0.1", 3),
            secret=b"a secret of these tests",
            tls=None,
            etcd=["http://127.0.0.1:4"],
            etcd_peers=[],
            etcd_user="",
            etcd_password="",
            min_in_sync=1,
        )
        self.member = member = ClusterMember(
            options, tmp_path, SystemDisk(), SystemClock(), [], cast(Any, None)
        )
        self.left = 0
        member.on_left = self._has_left
        member._node = member._open(1)
        self.replica = SimpleNamespace(record=None, refusal=None, has_caught_up=True)
        member._node.replicas[SHARD] = cast(Any, SimpleNamespace(replica=self.replica))
        member._node.links = cast(Any, SimpleNamespace(connected={"a"}))

    def _has_left(self) -> None:
        self.left += 1

    def see(self, *replicas: str) -> None:
        """The coordinator is read: these nodes are to have copies."""
        record = replace(RECORD, replicas=replicas)
        self.replica.record, self.replica.has_caught_up = record, "c" in replicas
        self.member._on_view(ClusterView(1, {SHARD: record}, {}))


@pytest.fixture
async def node(tmp_path: Path) -> MemberNode:
    return MemberNode(tmp_path)


async def test_a_node_that_is_taken_out_tells_so_once_each_time(node: MemberNode) -> None:
    node.see("a", "b", "c")
    assert not node.left
    node.see("a", "b")
    node.see("a", "b")
    assert node.left == 1
    node.see("a", "b", "c")
    assert node.left == 1
    node.see("a", "b")
    assert node.left == 2


async def test_clients_are_told_that_a_node_has_no_copy(node: MemberNode) -> None:
    node.see("a", "b", "c")
    assert node.member.leader == LeadingNode("a", 70)
    assert node.member.refusal == "this node takes no clients: it lacks what a has"
    node.see("a", "b")
    assert "it has no copy, `routelog cluster join` gives it one" in node.member.refusal


async def test_a_node_without_a_copy_has_no_session(node: MemberNode) -> None:
    node.see("a", "b")
    with pytest.raises(ConnectionError):
        await node.member.connect_session(LeadingNode("a", 70), lambda transport, unread: None)
