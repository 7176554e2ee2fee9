"""Who led a shard and why that changed, told from one record to the next."""

from dataclasses import replace

import pytest

from routelog.mirror_cluster.coordination.coordinator import NodeEntry
from routelog.mirror_cluster.node.leadership_history import CHANGES_MAX, LeadershipHistory
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord

FIRST = ShardRecord(
    0, "a", 1, 7, frozenset("abc"), ("a", "b", "c"), {"a": 1, "b": 1, "c": 1}, changed_at=50
)
B, C = Member("b", 1), Member("c", 1)


def alive(**processes: int) -> dict[str, NodeEntry]:
    return {name: NodeEntry(name, process, "", 1) for name, process in processes.items()}


ALL = alive(a=1, b=2, c=3)


@pytest.mark.parametrize(
    ("after", "nodes", "what"),
    [
        (FIRST.led_by(B, 2), alive(b=2, c=3), "b leads, as a is gone"),
        (FIRST.led_by(B, 2), alive(a=9, b=2), "b leads, as a was started again"),
        (FIRST.led_by(B, 2), ALL, "b leads in the place of a"),
        (FIRST.led_by(Member("a", 1), 9), ALL, "a leads again, after a start"),
        (FIRST.led_by(B, 0), ALL, "a asks b to lead"),
        (FIRST.without(frozenset("b")), alive(a=1), "b is gone"),
        (FIRST.without(frozenset("bc")), ALL, "b does not keep up; c does not keep up"),
        (FIRST.with_replicas(("a", "b", "c", "d")), ALL, "d is to have a copy"),
        (replace(FIRST, replicas=("a", "b")), ALL, "c is to have no copy"),
        (
            FIRST.recovered_by(C, 3),
            alive(c=3),
            "an operator had c lead with what it has; a is gone; b is gone",
        ),
        (replace(FIRST), ALL, "proposed again"),
    ],
)
def test_a_change_is_told_with_its_reason(
    after: ShardRecord, nodes: dict[str, NodeEntry], what: str
) -> None:
    history = LeadershipHistory()
    history.on_view(None, ALL)
    history.on_view(FIRST, ALL)
    history.on_view(FIRST, nodes)
    history.on_view(replace(after, revision=1, changed_at=60), nodes)
    first, second = history.changes
    assert first.what == "as it was when this process began"
    assert (second.what, second.at, second.epoch) == (what, 60, after.epoch)
    assert second.leader == after.leader
    assert second.in_sync == tuple(sorted(after.in_sync))


def test_a_node_that_was_asked_to_lead_does() -> None:
    history = LeadershipHistory()
    asked = replace(FIRST.led_by(B, 0), revision=1)
    history.on_view(asked, ALL)
    history.on_view(replace(asked.led_by(B, 2), revision=2), ALL)
    assert history.changes[-1].what == "b leads, as it was asked to"
    back = replace(asked.without(frozenset("c")), revision=3)
    history.on_view(back, ALL)
    history.on_view(replace(back.with_member(C), revision=4), ALL)
    assert history.changes[-1].what == "c has everything"


def test_only_the_last_changes_are_kept() -> None:
    history = LeadershipHistory()
    for revision in range(CHANGES_MAX + 5):
        history.on_view(replace(FIRST, revision=revision, epoch=revision), ALL)
    assert len(history.changes) == CHANGES_MAX
    assert history.changes[-1].epoch == CHANGES_MAX + 4
