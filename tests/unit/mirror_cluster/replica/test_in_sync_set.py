from dataclasses import replace

from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.protocol.shard_record import Member
from routelog.mirror_cluster.replica.in_sync_set import InSyncSet

A, B, C = Member("a", 1), Member("b", 2), Member("c", 3)


def test_a_member_counts_from_the_proposal_on_until_the_revision_is_past() -> None:
    in_sync = InSyncSet(record(in_sync="ab"))
    in_sync.propose(in_sync.record.with_member(C))
    assert in_sync.counted == {A, B, C}
    in_sync.adopt(replace(in_sync.record, revision=2))
    assert in_sync.counted == {A, B}


def test_a_member_that_is_to_leave_counts_until_it_has_left() -> None:
    in_sync = InSyncSet(record())
    smaller = in_sync.shrunk(["c"], 2)
    assert smaller is not None
    in_sync.propose(smaller)
    assert in_sync.counted == {A, B, C}
    in_sync.adopt(replace(smaller, revision=2))
    assert in_sync.counted == {A, B}


def test_the_set_keeps_its_smallest_size_and_loses_the_latest_first() -> None:
    smaller = InSyncSet(record()).shrunk(["c", "b"], 2)
    assert smaller is not None
    assert smaller.in_sync == {"a", "b"}
    assert InSyncSet(smaller).shrunk(["b"], 2) is None
    assert InSyncSet(smaller).shrunk(["b"], 1) is not None
    assert InSyncSet(record()).shrunk([], 1) is None


def test_committed_is_what_all_members_have() -> None:
    in_sync = InSyncSet(record(in_sync="ab"))
    assert in_sync.committed_position({A: 9, B: 7, C: 3}, 2) == 7
    in_sync.propose(in_sync.record.with_member(C))
    assert in_sync.committed_position({A: 9, B: 7, C: 3}, 2) == 3


def test_nothing_is_committed_with_too_few_members_or_without_word_from_one() -> None:
    assert InSyncSet(record(in_sync="a")).committed_position({A: 9, B: 9}, 2) is None
    assert InSyncSet(record(in_sync="ab")).committed_position({A: 9}, 2) == 0
    assert InSyncSet(record(in_sync="ab")).committed_position({A: 9, Member("b", 8): 9}, 2) == 0
