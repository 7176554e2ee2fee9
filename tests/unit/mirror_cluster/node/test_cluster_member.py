"""A node as its cluster has it: with a copy, or without one; tests/cluster has its life."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from routelog.log_backend import JournalDamaged, SystemClock, SystemDisk, has_copy
from routelog.mirror_cluster.coordination.coordinator import ClusterView, NodeEntry
from routelog.mirror_cluster.node import cluster_member
from routelog.mirror_cluster.node.cluster_member import CannotJoin, ClusterMember, LeadingNode
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.node.incarnation import read_incarnation
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


class Coordinator:
    """It holds a record, and the leases of these nodes at each reading, the last for ever."""

    def __init__(self, record: ShardRecord, *leases: list[NodeEntry]) -> None:
        self._record = record
        self._leases = [*leases]

    async def read(self) -> ClusterView:
        """The next of them."""
        entries = self._leases.pop(0) if len(self._leases) > 1 else self._leases[0]
        return ClusterView(1, {SHARD: self._record}, {each.node: each for each in entries})

    async def aclose(self) -> None:
        """Nothing is open."""


WHOLE = NodeEntry("a", 70, "127.0.0.1:1", 1)
BOTH_IN_SYNC = RECORD.with_member(Member("c", 3))


async def begin_anew(
    node: MemberNode,
    monkeypatch: pytest.MonkeyPatch,
    *leases: list[NodeEntry],
    record: ShardRecord = BOTH_IN_SYNC,
) -> None:
    """A start with a damaged journal."""
    monkeypatch.setattr(cluster_member, "JOIN_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(cluster_member, "SURE_LEASES", 0.0)
    node.member._node.coordinator = cast(Any, Coordinator(record, *leases))
    await node.member._begin_anew(JournalDamaged(Path("1.journal"), 0, "a commit has changed"))


async def test_damaged_data_go_where_a_living_node_has_all(
    node: MemberNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await begin_anew(node, monkeypatch, [], [WHOLE])
    assert node.member.ended.done()
    assert "copied" in SystemDisk().list_directory(tmp_path)


async def test_data_that_could_not_be_given_up_are_of_the_same_incarnation(
    node: MemberNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = read_incarnation(tmp_path, SystemDisk())
    with monkeypatch.context() as full:
        error = OSError(errno.ENOSPC, "the disk is full")
        full.setattr(SystemDisk, "make_directory", Mock(side_effect=error))
        with pytest.raises(OSError, match="the disk is full"):
            node.member._give_up_data()
    assert read_incarnation(tmp_path, SystemDisk()) == before
    node.member._give_up_data()
    assert read_incarnation(tmp_path, SystemDisk()) != before
    assert has_copy(tmp_path, SystemDisk())


@pytest.mark.parametrize(
    "leases",
    [
        [[]],
        [[replace(WHOLE, incarnation=8)]],  # its disk is another one since
        [[replace(WHOLE, is_damaged=True)]],
        [[NodeEntry("b", 71, "127.0.0.1:2", 2)]],  # it is not in sync
        [[NodeEntry("c", 72, "127.0.0.1:3", 3)]],  # this node, before it died
        [[WHOLE], []],  # it died, too
        [[replace(WHOLE, process=process)] for process in range(31)],  # it ends at each start
    ],
)
async def test_damaged_data_stay_where_no_living_node_has_all(
    node: MemberNode,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    leases: list[list[NodeEntry]],
) -> None:
    with pytest.raises(CannotJoin, match=r"log repair.*No other node that has everything is alive"):
        await begin_anew(node, monkeypatch, *leases)
    assert not node.member.ended.done()
    assert SystemDisk().list_directory(tmp_path) == []


async def test_what_a_node_has_that_is_not_in_sync_may_be_all_there_is_of_a_damaged_queue(
    node: MemberNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = replace(WHOLE, is_damaged=True)
    with pytest.raises(CannotJoin, match="is alive and whole"):
        await begin_anew(node, monkeypatch, [damaged], record=RECORD)
    assert SystemDisk().list_directory(tmp_path) == []
    await begin_anew(node, monkeypatch, [WHOLE], record=RECORD)
    assert node.member.ended.done()
