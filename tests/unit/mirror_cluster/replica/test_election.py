from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica.election import claim_reason, claimed, rank

A, B, C = Member("a", 1), Member("b", 2), Member("c", 3)


def test_nobody_claims_while_the_leaders_process_runs() -> None:
    assert rank(record(claim=1), B, {"a": 1, "b": 5}) is None


def test_candidates_go_in_the_order_of_the_replicas() -> None:
    alive = {"b": 5, "c": 6}
    assert rank(record(), B, alive) == 0
    assert rank(record(), C, alive) == 1
    assert rank(record(in_sync="ac"), C, alive) == 0


def test_a_leader_whose_process_was_started_again_leads_no_more() -> None:
    alive = {"a": 9, "b": 5}
    assert rank(record(claim=1), A, alive) == 0
    assert rank(record(claim=1), B, alive) == 1


def test_who_is_asked_to_lead_goes_first() -> None:
    alive = {"a": 1, "b": 5, "c": 6}
    assert [rank(record("c", claim=0), each, alive) for each in (C, A, B)] == [0, 1, 2]


def test_who_is_not_in_sync_or_has_another_disk_claims_nothing() -> None:
    assert rank(record(in_sync="ab"), C, {"c": 6}) is None
    assert rank(record(), Member("b", 9), {"b": 5}) is None


def test_a_claim_leaves_out_who_does_not_run_but_not_below_the_smallest_size() -> None:
    after = claimed(record(), B, 5, {"b": 5, "c": 6}, 2)
    assert (after.leader, after.claim, after.epoch, after.in_sync) == ("b", 5, 2, {"b", "c"})
    assert len(claimed(record(), B, 5, {"b": 5}, 2).in_sync) == 2
    assert claimed(record(), B, 5, {"b": 5}, 1).in_sync == {"b"}


def test_why_a_node_claims_is_said() -> None:
    def reason(seen: ShardRecord, alive: str) -> str:
        running = dict.fromkeys(alive, 1)
        wanted = claimed(seen, Member("b", 2), 7, running, 2)
        return claim_reason(seen, wanted)

    assert reason(record(leader="", claim=0), "abc") == "b leads: nobody has led yet"
    assert reason(record(leader="b", claim=0), "abc") == "b leads: b was to lead"
    assert reason(record(), "bc") == (
        "b leads: a, or its process that led, is gone; not alive, so not in sync any more: a"
    )
