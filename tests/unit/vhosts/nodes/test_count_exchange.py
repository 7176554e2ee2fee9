"""The counts that nodes tell each other: each knows those of all others."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routelog.vhosts.nodes.count_exchange import (
    CountedFront,
    FrontCounts,
    LeaderCounts,
    counts_message,
)
from routelog.vhosts.people.shared_counts import CountOf, SharedCounts
from routelog.vhosts.sessions.session_message import (
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    SessionMessage,
)

USER = CountOf.USER_CONNECTIONS


class Front:
    """A node that serves its own clients, and its session with the leader.

    Attributes:
        told: messages that the leader has sent it.
    """

    def __init__(self) -> None:
        self.counts = SharedCounts()
        self.end: FrontCounts | None = None
        self.hosted: CountedFront | None = None
        self.outbox = 0
        self.told: list[SessionMessage] = []

    def open(self, leader: LeaderCounts) -> None:
        """A session begins."""
        self.end = FrontCounts(self.counts)
        self.hosted = leader.opened(self._take, lambda: self.outbox)
        self.end.begin(self.hosted.told)

    def _take(self, message: SessionMessage) -> None:
        assert self.end is not None
        self.told.append(message)
        self.end.told(message)

    def tell(self) -> None:
        """A second has passed."""
        if self.end is not None:
            self.end.tell()

    def lose(self, leader: LeaderCounts) -> None:
        """The session ends."""
        assert self.hosted is not None
        leader.closed(self.hosted)
        self.end = self.hosted = None


class Cluster:
    """A leader with two fronts."""

    def __init__(self) -> None:
        self.counts = SharedCounts()
        self.leader = LeaderCounts(self.counts)
        self.fronts = [Front(), Front()]
        for front in self.fronts:
            front.open(self.leader)

    @property
    def nodes(self) -> list[SharedCounts]:
        """The counts of all nodes."""
        return [self.counts, *(front.counts for front in self.fronts)]

    def pass_seconds(self) -> None:
        """Two seconds: fronts tell, the leader tells, in any order."""
        for _ in range(2):
            self.leader.tell()
            for front in self.fronts:
                front.tell()
        self.leader.tell()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_all_nodes_count_the_clients_of_all(cluster: Cluster) -> None:
    for node, count in zip(cluster.nodes, (1, 2, 4), strict=True):
        node.add(USER, "ann", count)
    cluster.pass_seconds()
    assert [node.all(USER, "ann") for node in cluster.nodes] == [7, 7, 7]
    assert [node.nodes for node in cluster.nodes] == [3, 3, 3]
    cluster.nodes[2].add(USER, "ann", -4)
    cluster.pass_seconds()
    assert [node.all(USER, "ann") for node in cluster.nodes] == [3, 3, 3]


def test_nothing_is_said_when_nothing_has_changed(cluster: Cluster) -> None:
    cluster.nodes[1].add(USER, "ann", 1)
    cluster.pass_seconds()
    for front in cluster.fronts:
        front.told.clear()
    cluster.pass_seconds()
    assert [front.told for front in cluster.fronts] == [[], []]


def test_a_front_is_not_told_what_it_has_said(cluster: Cluster) -> None:
    cluster.pass_seconds()
    first, second = cluster.fronts
    first.told.clear()
    second.told.clear()
    first.counts.add(USER, "ann", 1)
    cluster.pass_seconds()
    assert (len(first.told), len(second.told)) == (0, 1)


def _note(told: list[int], number: int, message: SessionMessage) -> None:
    told.append(number)


def test_fronts_are_told_in_the_order_of_their_sessions() -> None:
    leader, told = LeaderCounts(SharedCounts()), list[int]()
    for number in range(20):
        leader.opened(partial(_note, told, number), lambda: 0)
    leader.tell()
    assert told == [*range(20)]


def test_a_node_that_is_gone_does_not_count(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.add(USER, "ann", 1)
    cluster.pass_seconds()
    cluster.fronts[1].lose(cluster.leader)
    cluster.pass_seconds()
    assert [node.all(USER, "ann") for node in cluster.nodes[:2]] == [2, 2]
    assert [node.nodes for node in cluster.nodes[:2]] == [2, 2]
    # What it does not know better it keeps, until a leader takes a session of it
    assert cluster.nodes[2].all(USER, "ann") == 3
    cluster.nodes[2].add(USER, "ann", 5)
    cluster.fronts[1].open(cluster.leader)
    cluster.pass_seconds()
    assert [node.all(USER, "ann") for node in cluster.nodes] == [8, 8, 8]


def test_another_leader_learns_all(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.add(USER, "ann", 1)
    cluster.pass_seconds()
    first, second = cluster.fronts
    first.lose(cluster.leader)
    second.lose(cluster.leader)
    leader = LeaderCounts(first.counts)  # the old one is gone, with its clients
    assert first.counts.all(USER, "ann") == 1
    second.open(leader)
    leader.tell()
    assert [node.all(USER, "ann") for node in cluster.nodes[1:]] == [2, 2]
    assert second.counts.nodes == 2


def test_who_does_not_read_is_told_later(cluster: Cluster) -> None:
    cluster.pass_seconds()
    front = cluster.fronts[0]
    front.outbox = OUTBOX_BYTES_MAX + 1
    front.told.clear()
    cluster.counts.add(USER, "ann", 1)
    cluster.pass_seconds()
    assert front.told == []
    front.outbox = 0
    cluster.pass_seconds()
    assert front.counts.all(USER, "ann") == 1


def test_a_node_on_its_own_notes_no_names() -> None:
    counts = SharedCounts()
    for name in ("ann", "bob"):
        counts.add(USER, name, 1)
        counts.add(USER, name, -1)
    assert counts.changed() == set()
    assert not counts.own


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 3), st.booleans()),
        max_size=30,
    )
)
def test_whatever_happens_all_nodes_agree_at_last(
    steps: list[tuple[int, str, int, bool]],
) -> None:
    cluster = Cluster()
    for node, name, count, is_lost in steps:
        cluster.nodes[node].put(USER, name, count)
        if is_lost and node:
            front = cluster.fronts[node - 1]
            front.lose(cluster.leader)
            front.open(cluster.leader)
        if count == 1:
            cluster.leader.tell()
        elif count == 2:
            cluster.fronts[0].tell()
    cluster.pass_seconds()
    for name in "ab":
        total = sum(node.own[USER, name] for node in cluster.nodes)
        assert [node.all(USER, name) for node in cluster.nodes] == [total] * 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        msgspec.msgpack.encode([["ann", 1, 1]]),
        msgspec.msgpack.encode([[1, "ann", -1]]),
        msgspec.msgpack.encode([[1, "ann", 1 << 63]]),
        msgspec.msgpack.encode([[1, "ann"]]),
    ],
)
def test_counts_that_cannot_be_are_refused(cluster: Cluster, content: bytes) -> None:
    message = SessionMessage(Kind.COUNTS, content=content)
    for front in cluster.fronts:
        assert front.end is not None
        assert front.hosted is not None
        for told in (front.end.told, front.hosted.told):
            with pytest.raises(BadSessionMessage, match=r"a value"):
                told(message)


def test_a_front_has_so_many_counts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routelog.vhosts.nodes.count_exchange.COUNTS_MAX", 3)
    hosted = cluster.fronts[0].hosted
    assert hosted is not None
    hosted.told(counts_message([((USER, name), 1) for name in "abc"]))
    with pytest.raises(BadSessionMessage, match=r"1 counts beside 3"):
        hosted.told(counts_message([((USER, "d"), 1)]))
