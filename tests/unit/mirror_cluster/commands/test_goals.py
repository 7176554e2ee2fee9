"""What an operator can have, what is asked of whom, and when it is done."""

from dataclasses import replace

import pytest
from unit.mirror_cluster.journals import record

from routelog.mirror_cluster.commands.goals import (
    DrainGoal,
    Goal,
    InitGoal,
    JoinGoal,
    LeaveGoal,
    RecoverGoal,
    RepairGoal,
    TransferGoal,
)
from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    NodeCommand,
    NodeEntry,
    ReplicaNote,
    Verb,
)
from routelog.mirror_cluster.protocol.promise import Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import SHARD, ShardRecord


def view(
    led: ShardRecord | None, alive: str = "abc", processes: dict[str, int] | None = None
) -> ClusterView:
    """Nodes whose processes are 1, 2 and 3, as their disks."""
    numbers = {"a": 1, "b": 2, "c": 3}
    nodes = {
        name: NodeEntry(name, (processes or numbers)[name], f"{name}:1", numbers[name])
        for name in alive
    }
    return ClusterView(9, {} if led is None else {SHARD: replace(led, shard=SHARD)}, nodes)


LED = record()  # by a, whose process is 1


def refused_by(seen: ClusterView) -> ClusterView:
    """By b, which has the newest block, and c, of the cluster 7."""
    ends = {"b": (4, 20), "c": (3, 90)}
    known = Promise(cluster=7, epoch=4, claim=9, revision=9)
    nodes = {
        name: replace(entry, notes={SHARD: ReplicaNote(known, Refusal.OTHER, end=ends[name])})
        for name, entry in seen.nodes.items()
        if name in ends
    }
    return replace(seen, nodes={**seen.nodes, **nodes})


def older_for(seen: ClusterView, node: str, serves: str = "") -> ClusterView:
    """One node has known a later record, which the others take no part in."""
    taken = Promise.of(seen.records[SHARD])
    notes = {
        name: ReplicaNote(taken, "", name == serves, name == serves, is_in_sync=True)
        for name in seen.nodes
    }
    notes[node] = ReplicaNote(replace(taken, claim=9, revision=9), Refusal.OLDER, is_in_sync=True)
    entries = seen.nodes.items()
    nodes = {name: replace(entry, notes={SHARD: notes[name]}) for name, entry in entries}
    return replace(seen, nodes=nodes)


def serving(seen: ClusterView, node: str) -> ClusterView:
    """By the record that is there."""
    note = ReplicaNote(Promise.of(seen.records[SHARD]), "", True, True, True)
    entry = replace(seen.nodes[node], notes={SHARD: note})
    return replace(seen, nodes={**seen.nodes, node: entry})


def noted(seen: ClusterView, **notes: ReplicaNote) -> ClusterView:
    """What nodes tell of their replicas."""
    nodes = {name: replace(seen.nodes[name], notes={SHARD: each}) for name, each in notes.items()}
    return replace(seen, nodes={**seen.nodes, **nodes})


def init(seen: ClusterView, node: str, *, accepts_loss: bool = False) -> InitGoal:
    return InitGoal(seen, node, "abc", 2, accepts_loss=accepts_loss)


@pytest.mark.parametrize(
    ("goal", "refusal"),
    [
        (TransferGoal(view(LED), ""), ""),
        (TransferGoal(view(LED), "c"), ""),
        (TransferGoal(view(None), ""), "nobody leads"),
        (TransferGoal(view(record(claim=7)), ""), "nobody leads"),
        (TransferGoal(view(record(in_sync="ab")), "c"), "c is not in sync"),
        (TransferGoal(view(LED, "ab"), "c"), "c is not alive"),
        (TransferGoal(view(LED, "a"), ""), "no other node is alive and in sync"),
        (DrainGoal(view(LED), "a", 2), ""),
        (DrainGoal(view(LED), "c", 2), ""),
        (DrainGoal(view(LED, "bc"), "c", 2), "nobody leads"),
        (DrainGoal(view(LED, "ab"), "c", 2), "c is not alive"),
        (
            DrainGoal(view(LED, "ab"), "b", 2),
            "confirms would stop: without it, a would be in sync, and cluster_min_in_sync is 2",
        ),
        (DrainGoal(view(record(in_sync="ab")), "c", 2), ""),
        (RepairGoal(view(LED), "c", 2), ""),
        (RepairGoal(view(LED, "ab"), "c", 2), "c is not alive"),
        (
            RepairGoal(view(record(in_sync="ab")), "b", 2),
            "confirms would stop: without it, a would be in sync, and cluster_min_in_sync is 2",
        ),
        # Whose data count is not known while nodes refuse the record.
        (
            RepairGoal(older_for(view(LED), "c"), "b", 2),
            f"{Refusal.OLDER}: c refuse it. Is it the right etcd? Then start all nodes, and"
            " `routelog cluster init --from c`",
        ),
        (RepairGoal(older_for(view(record(in_sync="ab")), "c", serves="a"), "c", 2), ""),
        (JoinGoal(view(record(in_sync="ab", replicas="ab"), "abc"), "c"), ""),
        (JoinGoal(view(record(in_sync="ab", replicas="ab"), "ab"), "c"), "c is not alive"),
        (JoinGoal(view(record(claim=7)), "c"), "nobody leads"),
        (
            JoinGoal(view(None), "c"),
            "the cluster has not begun: all nodes of cluster_nodes will be in it",
        ),
        (LeaveGoal(view(LED), "a", 2), ""),
        (LeaveGoal(view(record(in_sync="ab"), "ab"), "c", 2), ""),
        (
            LeaveGoal(view(record(in_sync="ab")), "b", 2),
            "confirms would stop: without it, a would be in sync, and cluster_min_in_sync is 2",
        ),
        (LeaveGoal(view(record(claim=7)), "c", 2), "nobody leads"),
        (LeaveGoal(view(record(in_sync="ab", replicas="ab")), "b", 1), ""),
        (
            LeaveGoal(view(record(in_sync="a", replicas="a")), "a", 1),
            "confirms would stop: without it, nobody would be in sync, and cluster_min_in_sync is 1; to end the"
            " cluster, stop all nodes, the leader last, and start that one without cluster_nodes",
        ),
        (init(view(None), "b"), ""),
        (init(view(None, "ac"), "b"), "b is not alive"),
        (init(view(LED), "b"), "the cluster has begun: a leads epoch 1"),
        (init(refused_by(view(None)), "b"), ""),
        (
            init(refused_by(view(None)), "c"),
            "b has more than c: `routelog cluster init --from b`",
        ),
        (init(refused_by(view(LED, "bc")), "b"), ""),
        (
            init(refused_by(view(None, "b")), "b"),
            "a, c are not alive with the data that they had: start them with it, or lose it: --accept-loss",
        ),
        (init(refused_by(view(None, "b")), "b", accepts_loss=True), ""),
        (
            init(serving(refused_by(view(replace(record(in_sync="a"), cluster=7))), "a"), "b"),
            "a leads, and confirms: what only b has is not to be had",
        ),
        (RecoverGoal(view(record(in_sync="ab"), "c"), "c"), ""),
        (
            RecoverGoal(view(None), "c"),
            "the cluster has not begun: `routelog cluster init --from NODE`",
        ),
        (RecoverGoal(view(LED), "c"), "a leads: there is nothing to recover"),
        (RecoverGoal(view(LED, "bc"), "c"), "b, c will lead, without a loss"),
        (RecoverGoal(view(record(in_sync="a"), "b"), "c"), "c is not alive"),
    ],
)
def test_what_cannot_be_had_is_said(goal: Goal, refusal: str) -> None:
    assert goal.refusal() == refusal


def test_a_node_with_another_disk_has_nothing_to_lead_with() -> None:
    lost = view(record(in_sync="ab"), "bc")
    wiped = replace(lost.nodes["b"], incarnation=17)
    lost = replace(lost, nodes={**lost.nodes, "b": wiped})
    assert RecoverGoal(lost, "c").refusal() == ""


def test_the_leader_is_told_to_hand_over_until_another_one_leads() -> None:
    goal = TransferGoal(view(LED), "b")
    assert goal.command(view(LED)) == NodeCommand("a", 1, Verb.TRANSFER, "b")
    asked = view(record(leader="b", claim=0, epoch=2))
    assert not goal.is_reached(asked, ())
    assert goal.command(asked) is None
    assert not goal.is_reached(view(record(leader="c", claim=3, epoch=2)), ()), "not that one"
    assert goal.is_reached(view(record(leader="b", claim=2, epoch=3)), ())
    assert TransferGoal(view(LED), "").is_reached(view(record(leader="c", claim=3)), ())


def test_a_leader_is_drained_when_its_next_process_has_taken_that() -> None:
    goal = DrainGoal(view(LED), "a", 2)
    hand_over = NodeCommand("a", 1, Verb.TRANSFER)
    assert goal.command(view(LED)) == hand_over
    handed_over = record(leader="b", in_sync="bc", claim=2, epoch=3)
    ending, starting = view(handed_over), view(handed_over, "bc")
    for each in (ending, starting):
        assert goal.command(each) is None, "the process that led does nothing any more"
        assert not goal.is_reached(each, [hand_over])
    again = {"a": 8, "b": 2, "c": 3}
    started = view(handed_over, processes=again)
    assert not goal.is_reached(started, [hand_over]), "it is about to come back"
    command = goal.command(started)
    assert command == NodeCommand("a", 8, Verb.DRAIN)
    waiting = replace(started, commands={"a": command})
    assert not goal.is_reached(waiting, [hand_over, command])
    back = view(record(leader="b", claim=2, epoch=3), processes=again)
    assert not goal.is_reached(back, [hand_over, command])
    assert goal.is_reached(started, [hand_over, command])


def test_who_leads_hands_over_and_its_next_process_gives_up_what_is_damaged() -> None:
    goal = RepairGoal(view(LED), "a", 2)
    hand_over = NodeCommand("a", 1, Verb.TRANSFER)
    assert goal.command(view(LED)) == hand_over
    handed_over = record(leader="b", in_sync="bc", claim=2, epoch=3)
    assert goal.command(view(handed_over)) is None, "the process that led ends by itself"
    started = view(handed_over, processes={"a": 8, "b": 2, "c": 3})
    assert goal.command(started) == NodeCommand("a", 8, Verb.REPAIR)
    assert not goal.is_reached(started, [hand_over])
    unled = view(record(leader="b", claim=7, epoch=3), processes={"a": 8, "b": 2, "c": 3})
    assert goal.command(unled) is None, "nobody has what a has, for now"
    gone = replace(started, nodes={name: started.nodes[name] for name in "bc"})
    assert not goal.is_reached(gone, [hand_over])
    empty = replace(started.nodes["a"], process=9, incarnation=17)
    again = replace(started, nodes={**started.nodes, "a": empty})
    assert goal.is_reached(again, [hand_over])
    assert goal.command(again) is None


def test_a_member_leaves_the_set_before_it_gives_up_what_is_damaged() -> None:
    goal = RepairGoal(view(LED), "b", 2)
    assert goal.command(view(LED)) == NodeCommand("b", 2, Verb.DRAIN)
    drained = view(record(in_sync="ac"))
    assert goal.command(drained) == NodeCommand("b", 2, Verb.REPAIR)
    for left in (view(LED, "ab"), view(record(in_sync="ac"), "ab"), view(record(in_sync="ab"))):
        assert goal.command(left) is None, "what it has may be needed by now"
    assert goal.command(older_for(drained, "c")) is None


def test_who_refuses_what_another_node_confirms_by_gives_up_what_it_has() -> None:
    refused = older_for(view(record(in_sync="ab")), "c", serves="a")
    assert RepairGoal(refused, "c", 2).command(refused) == NodeCommand("c", 3, Verb.REPAIR)


def test_a_cluster_begins_with_the_data_of_the_node_that_is_named() -> None:
    goal = init(view(None), "b")
    assert goal.command(view(None)) == NodeCommand("b", 2, Verb.INIT)
    made = view(record(leader="", in_sync="b", claim=0, epoch=0))
    assert goal.command(made) is None
    assert not goal.is_reached(made, ())
    assert goal.is_reached(view(record(leader="b", in_sync="b", claim=2)), ())


def test_a_cluster_begins_again_in_the_place_of_the_record_that_is_refused() -> None:
    older = refused_by(view(record(claim=9, epoch=4, revision=12)))
    goal = init(older, "b")
    assert goal.command(older) == NodeCommand("b", 2, Verb.INIT, seen=12)
    begun = replace(record(leader="b", in_sync="b", claim=2, epoch=9), begun=8)
    assert goal.command(view(begun)) is None
    assert goal.is_reached(view(begun), ())
    assert not goal.is_reached(view(replace(begun, begun=0)), ()), "it is still the older one"
    right = view(record(claim=9, epoch=4, revision=30))
    assert goal.command(right) == NodeCommand("b", 2, Verb.INIT, seen=12), (
        "which does nothing: the operator has not seen that record"
    )


EMPTY = ReplicaNote(refusal=Refusal.MISSING)


@pytest.mark.parametrize(
    ("a", "c", "names", "missing"),
    [
        # Their disks were replaced: nobody can tell what was on them.
        (EMPTY, EMPTY, "abc", "a, c"),
        # So was that of a member, which the newest record that it knows has with another one.
        (ReplicaNote(Promise(7, epoch=3, incarnation=99), Refusal.MISSING), EMPTY, "abc", "a, c"),
        (EMPTY, ReplicaNote(Promise(cluster=8), Refusal.OTHER), "abc", "a, c"),
        # Another list of names changes nothing.
        (EMPTY, EMPTY, "b", "a, c"),
        # So many cannot have everything without one of those that are there.
        (EMPTY, ReplicaNote(Promise(7, epoch=3, incarnation=3), Refusal.MISSING), "abc", ""),
        (EMPTY, ReplicaNote(Promise(7, epoch=3), Refusal.MISSING), "abc", ""),
    ],
)
def test_who_has_no_data_of_the_cluster_is_missing(
    a: ReplicaNote, c: ReplicaNote, names: str, missing: str
) -> None:
    known = ReplicaNote(Promise(7, epoch=3, incarnation=2), Refusal.MISSING, is_in_sync=True)
    seen = noted(view(None), a=a, b=replace(known, end=(3, 90)), c=c)
    refusal = InitGoal(seen, "b", names, 2, accepts_loss=False).refusal()
    assert refusal.partition(" are not alive with the data that they had")[0] == missing
    assert InitGoal(seen, "b", names, 2, accepts_loss=True).refusal() == ""
    # The operator had it go on alone since then, and emptied the others.
    alone = noted(seen, b=replace(known, end=(4, 91)))
    assert "not alive" not in InitGoal(alone, "b", names, 2, accepts_loss=False).refusal()


def test_a_cluster_begins_again_when_who_serves_without_answers_was_restarted() -> None:
    """What etcd has is older than what the others, of which one is lost, have known."""
    seen = older_for(view(replace(record(), cluster=7), "ab"), "b", serves="a")
    a, b = (seen.nodes[name].notes[SHARD] for name in "ab")
    cut_off = noted(seen, a=replace(a, is_alone=False), b=replace(b, end=(2, 7)))
    for accepts_loss in (False, True):
        assert init(cut_off, "b", accepts_loss=accepts_loss).refusal() == (
            "nobody can tell yet which node has most: start all nodes of this cluster; if some are"
            " gone for good, restart a: it serves by what is there, and too few answer it"
        )
    restarted = noted(cut_off, a=replace(a, serves=False, is_alone=False))
    assert init(restarted, "b").refusal() == ""


def test_replicas_that_the_command_does_not_name_are_missing() -> None:
    known = ReplicaNote(Promise(7, epoch=3), Refusal.OLDER, is_in_sync=True)
    for cluster, missing in ((7, "a, c"), (8, "")):
        led = noted(view(replace(record(), cluster=cluster), "b"), b=known)
        refusal = InitGoal(led, "b", "b", 2, accepts_loss=False).refusal()
        assert refusal.partition(" are not alive with the data that they had")[0] == missing


def test_nobody_makes_another_record_from_one_that_nodes_refuse() -> None:
    begun = view(record(in_sync="ab", replicas="ab"))
    older = refused_by(begun)
    for goal in (JoinGoal(begun, "c"), LeaveGoal(begun, "c", 1)):
        assert goal.change(older) is None
    for goal in (JoinGoal(older, "c"), LeaveGoal(older, "c", 1)):
        assert "`routelog cluster init --from b`" in goal.refusal()


def test_a_loss_is_accepted_for_the_record_that_the_operator_saw() -> None:
    lost = view(record(in_sync="ab", revision=5), "c")
    goal = RecoverGoal(lost, "c")
    command = NodeCommand("c", 3, Verb.RECOVER, seen=5)
    assert goal.command(lost) == command
    recovered = replace(record(leader="c", in_sync="c", claim=3, epoch=2, revision=6), unclean=2)
    assert goal.command(view(recovered)) == command, "which does nothing when it has changed"
    assert goal.is_reached(view(recovered), ())
    assert not goal.is_reached(view(replace(recovered, unclean=0)), ())


def test_who_joins_is_the_last_replica() -> None:
    begun = view(record(in_sync="ab", replicas="ab"))
    goal = JoinGoal(begun, "c")
    assert goal.command(begun) is None
    wanted = goal.change(begun)
    assert wanted is not None
    assert (wanted.replicas, wanted.in_sync) == (("a", "b", "c"), {"a", "b"})
    assert not goal.is_reached(begun, ())
    assert goal.is_reached(view(wanted), ())


def test_who_leaves_is_drained_first_and_a_dead_one_just_goes() -> None:
    begun = view(LED)
    goal = LeaveGoal(begun, "c", 2)
    told = goal.command(begun)
    assert told is not None
    assert (told.node, told.verb) == ("c", Verb.DRAIN)
    assert goal.change(begun) is None
    for later in (view(record(in_sync="ab")), view(record(in_sync="ab"), "ab")):
        wanted = goal.change(later)
        assert wanted is not None
        assert (wanted.replicas, wanted.revision) == (("a", "b"), record().revision)
        assert goal.is_reached(view(wanted), ())
    leading = LeaveGoal(begun, "a", 2).command(begun)
    assert leading is not None
    assert (leading.node, leading.verb) == ("a", Verb.TRANSFER)
