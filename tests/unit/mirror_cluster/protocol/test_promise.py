"""What a node remembers of the coordinator's records, and which it refuses."""

from dataclasses import replace

import pytest
from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.protocol.promise import NOTHING, Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

KNOWN = replace(record(claim=5, epoch=4, revision=20), cluster=7, begun=2)


@pytest.mark.parametrize(
    ("seen", "refusal"),
    [
        (KNOWN, None),
        (replace(KNOWN, revision=21), None),
        (replace(KNOWN, revision=21, epoch=5, claim=6), None),
        (replace(KNOWN, revision=3, epoch=5, claim=6, begun=5), None),  # an operator began again
        (None, Refusal.MISSING),
        (replace(KNOWN, revision=21, epoch=9, cluster=8), Refusal.OTHER),
        (replace(KNOWN, revision=19), Refusal.OLDER),
        (replace(KNOWN, revision=19, epoch=5, claim=6), Refusal.OLDER),
        (replace(KNOWN, revision=21, epoch=3), Refusal.OLDER),
        (replace(KNOWN, revision=20, claim=6), Refusal.OLDER),
        (replace(KNOWN, revision=21, claim=6), Refusal.OLDER),  # an epoch has one leader
        (replace(KNOWN, revision=21, epoch=4, begun=4), Refusal.OLDER),
        (replace(KNOWN, revision=90, epoch=9, begun=1), Refusal.OLDER),
    ],
)
def test_what_is_not_newer_than_what_was_promised_is_refused(
    seen: ShardRecord | None, refusal: Refusal | None
) -> None:
    assert Promise.of(KNOWN).refusal(seen) is refusal


def test_who_has_promised_nothing_takes_what_is_there() -> None:
    assert NOTHING.refusal(None) is None
    assert NOTHING.refusal(KNOWN) is None


def test_a_promise_says_with_which_disk_the_node_was_in_sync() -> None:
    assert Promise.of(KNOWN, "b").incarnation == 2
    assert Promise.of(KNOWN.without(frozenset("b")), "b").incarnation == 0
    assert Promise.of(KNOWN, "b") == Promise.of(KNOWN), "of the same record"
    assert Promise.of(KNOWN, "b").in_sync == {*"abc"}
