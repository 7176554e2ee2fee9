"""Which command mends a record that nodes refuse."""

from dataclasses import replace

import pytest
from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.coordination.coordinator import ClusterView, NodeEntry, ReplicaNote
from routelog.mirror_cluster.coordination.refused_record import refused
from routelog.mirror_cluster.protocol.promise import Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import ShardRecord

OLDER = replace(record(claim=5, epoch=2, revision=10), cluster=7)
LESS = replace(OLDER, in_sync=frozenset("ac"), incarnations={"a": 1, "c": 3})
CHANGED = replace(LESS, revision=12)
DROPPED = replace(OLDER, in_sync=frozenset("fg"), epoch=9, revision=40)
NEWER = replace(OLDER, leader="c", claim=6, epoch=3, revision=20)
OTHERS = replace(NEWER, cluster=8)


def note(known: ShardRecord, position: int = 0, **more: object) -> ReplicaNote:
    """Of a node that is in sync, and refuses what is there if it has known something else."""
    refusal = "" if known in (OLDER, LESS) else Refusal.OLDER
    end = (known.epoch, position)
    return replace(ReplicaNote(Promise.of(known), refusal, is_in_sync=True, end=end), **more)


def gone(known: ShardRecord, position: int, **more: object) -> ReplicaNote:
    """As `note`, where etcd has no record; without a block where the position is -1."""
    end = {"end": (0, 0)} if position < 0 else {}
    return note(known, position, **{"refusal": Refusal.MISSING, **end, **more})


def unsaid(known: ReplicaNote) -> ReplicaNote:
    """By a promise that was written before promises had the in-sync set."""
    return replace(known, promise=replace(known.promise, in_sync=frozenset()))


def leading(known: ShardRecord, position: int = 0, **more: object) -> ReplicaNote:
    """Of the leader of a record, which its followers answer."""
    return note(known, position, **{"serves": True, "is_alone": True, **more})


def view(led: ShardRecord | None, **notes: ReplicaNote) -> ClusterView:
    nodes = {
        name: NodeEntry(name, number, f"{name}:1", number, {0: each})
        for number, (name, each) in enumerate(notes.items(), 1)
    }
    return ClusterView(30, {} if led is None else {0: led}, nodes)


INIT = "Is it the right etcd? Then start all nodes, and `routelog cluster init --from {}`"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (view(OLDER, a=note(OLDER), b=note(OLDER), c=note(OLDER)), ""),
        # Of those that refuse, who has most.
        (view(OLDER, a=note(OLDER), b=note(NEWER, 7), c=note(NEWER, 9)), INIT.format("c")),
        # Members of the newest set have everything, others may be as long.
        (
            view(OLDER, a=note(OLDER), b=note(NEWER, 9, is_in_sync=False), c=note(NEWER, 9)),
            INIT.format("c"),
        ),
        # Who leads may confirm more at any time.
        (
            view(OLDER, a=note(NEWER, 9), b=leading(NEWER, 8), c=note(NEWER, 9)),
            INIT.format("b"),
        ),
        (view(OLDER, a=note(OLDER), b=note(NEWER, 7)), INIT.format("b")),
        # One that was not in sync may know of a record by which the others have never led.
        (
            view(OLDER, a=note(OLDER), b=note(NEWER, 9, is_in_sync=False), c=note(OLDER)),
            INIT.format("c"),
        ),
        # One that was in sync long ago has less than one that the newest set, which is gone, has dropped.
        (
            view(None, b=gone(OLDER, 9), e=gone(DROPPED, 500, is_in_sync=False)),
            INIT.format("e"),
        ),
        # A member has everything, though it has taken none of the newer records.
        (
            view(None, b=gone(OLDER, 9), e=gone(CHANGED, 500, is_in_sync=False), a=gone(OLDER, 9)),
            INIT.format("a"),
        ),
        # A promise of an earlier version does not say whom the newest record has in sync.
        (
            view(None, b=gone(OLDER, 9), e=unsaid(gone(DROPPED, 500, is_in_sync=False))),
            INIT.format("b"),
        ),
        # Who has just got an empty disk knows the newest record, and has nothing.
        (view(None, b=gone(OLDER, 9), e=gone(DROPPED, -1, is_in_sync=False)), INIT.format("b")),
        # Others have known more, too, and have not seen yet what is there.
        (view(OLDER, a=note(OLDER), b=note(NEWER, 7), c=note(NEWER, refusal="")), ""),
        # It confirms by the record that is there: all of the set follow it.
        (
            view(LESS, a=leading(LESS), b=note(NEWER, 7), c=note(LESS)),
            "a confirms by it. `routelog cluster repair b`",
        ),
        # One of the set is gone, or refuses: it is to come back, and it may be that the others have confirmed.
        (view(LESS, a=leading(LESS), b=note(NEWER, 7)), ""),
        (view(OLDER, a=leading(OLDER), b=note(NEWER, 7), c=note(OLDER)), ""),
        # It was cut off while others led. It serves again, and does not know yet that nobody follows it.
        (
            view(OLDER, a=note(OLDER, serves=True), b=note(NEWER, 7), c=note(NEWER, 8)),
            INIT.format("c"),
        ),
        (view(OLDER, a=note(OLDER, serves=True), c=note(NEWER, 8)), ""),
        (
            view(
                None,
                a=note(OLDER, serves=True, refusal=Refusal.MISSING),
                b=note(NEWER, 7, refusal=Refusal.MISSING),
            ),
            INIT.format("b"),
        ),
        # The leader of what is there confirms by a later set, and has not seen yet that this is gone.
        (view(OLDER, a=leading(CHANGED, refusal=""), b=note(OLDER), c=note(CHANGED)), ""),
        # Of an etcd that was set back, with what nodes told then.
        (view(LESS, a=leading(LESS), b=note(replace(OLDER, revision=12)), c=note(LESS)), ""),
        # Of another cluster: nothing is given up for that.
        (
            view(
                LESS,
                a=leading(LESS),
                c=note(LESS),
                x=note(OTHERS, refusal=Refusal.OTHER),
                y=note(OTHERS, refusal=Refusal.OTHER),
            ),
            "",
        ),
        (view(OLDER, a=note(OLDER), x=note(OTHERS, refusal=Refusal.OTHER)), ""),
        (view(OLDER, x=note(OTHERS, refusal=Refusal.OTHER)), INIT.format("x")),
    ],
)
def test_the_command_names_the_node_that_has_what_was_confirmed(
    seen: ClusterView, told: str
) -> None:
    found = refused(0, seen)
    assert told in found
    assert ("routelog" in found) == bool(told)


STUCK = (
    "start all nodes of this cluster; if some are gone for good, restart a: it serves by what is"
    " there, and too few answer it"
)


def test_who_serves_without_answers_is_to_be_restarted_where_others_do_not_come_back() -> None:
    cut_off, known = note(OLDER, serves=True), note(NEWER, 8)
    assert refused(0, view(OLDER, a=cut_off, c=known)).endswith(f"? Then {STUCK}")
    assert refused(0, view(LESS, a=note(LESS, serves=True), b=known)).endswith(STUCK)
    assert INIT.format("c") in refused(0, view(OLDER, a=note(OLDER), c=known)), "it was restarted"
    # It is about to confirm, or its set is there and will answer.
    assert STUCK not in refused(0, view(LESS, a=leading(LESS), b=known))
    assert STUCK not in refused(0, view(LESS, a=note(LESS, serves=True), b=known, c=note(LESS)))
    # Two clusters are there.
    assert STUCK not in refused(0, view(OLDER, a=cut_off, x=note(OTHERS)))


def test_a_leader_by_another_record_is_not_the_one_that_is_there() -> None:
    missing = note(NEWER, 5, refusal=Refusal.MISSING)
    seen = view(None, a=leading(NEWER, refusal=""), b=missing, c=missing)
    assert "confirms" not in refused(0, seen)
    assert "routelog" not in refused(0, seen), "it has not said yet what it makes of that"


def test_a_refusal_of_what_is_not_there_any_more_is_old() -> None:
    begun = replace(NEWER, leader="", in_sync=frozenset("a"), epoch=4, begun=4, revision=30)
    missing = note(NEWER, 9, refusal=Refusal.MISSING)
    assert refused(0, view(begun, a=missing, b=note(begun, refusal=""), c=missing)) == ""
    assert refused(
        0, view(begun, a=note(begun, refusal=""), b=note(begun, refusal=Refusal.LACKING))
    )
