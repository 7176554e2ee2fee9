import pytest
from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.protocol.shard_record import BadRecord, Member, decode_record


def test_a_record_is_read_as_it_was_written() -> None:
    written = record(in_sync="ac", revision=9)
    assert decode_record(written.encode(), 9) == written


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[1]", record().encode().replace(b'"version":1', b'"version":2')],
)
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode_record(value, 1)


def test_a_member_that_comes_back_with_another_disk_is_another_member() -> None:
    before = record()
    after = before.with_member(Member("b", 9))
    assert after.in_sync == before.in_sync
    assert after.members - before.members == {Member("b", 9)}


def test_who_leaves_takes_its_incarnation_along() -> None:
    assert record().without(frozenset("b")) == record(in_sync="ac")


def test_an_unclean_election_is_written_down() -> None:
    after = record().recovered_by(Member("c", 4), 77)
    assert (after.leader, after.claim, after.epoch, after.unclean) == ("c", 77, 2, 2)
    assert after.members == {Member("c", 4)}


def test_a_replica_that_is_needed_is_not_removed() -> None:
    assert record(in_sync="ab").with_replicas(("a", "b")).replicas == ("a", "b")
    with pytest.raises(ValueError, match="first"):
        record(in_sync="abc").with_replicas(("a", "b"))
