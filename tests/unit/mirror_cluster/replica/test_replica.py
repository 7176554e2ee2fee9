"""Replicas beside each other: their actions are carried out at once, by the hands of the test."""

from dataclasses import replace

from unit.mirror_cluster.journals import SHARD, chain_of, record

from routelog.log_backend import START, Mark, ShardBlock
from routelog.mirror_cluster.node.cluster_node import replica_note
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    Append,
    CopyFrom,
    Fenced,
    Hello,
    TruncateTo,
)
from routelog.mirror_cluster.protocol.promise import NOTHING, Promise, Refusal
from routelog.mirror_cluster.protocol.shard_record import Member, ShardRecord
from routelog.mirror_cluster.replica.actions import (
    AbortCopy,
    Action,
    BeginEpoch,
    Commit,
    CopyCheckpoint,
    Drained,
    Exit,
    Propose,
    ReadRecord,
    SavePromise,
    Send,
    Serve,
    Ship,
    StopServing,
    Store,
    Truncate,
)
from routelog.mirror_cluster.replica.chain import HEAD_BYTES, Chain
from routelog.mirror_cluster.replica.events import (
    Appended,
    Copied,
    CopyFailed,
    Damaged,
    Drain,
    Durable,
    LeaseHeld,
    LeaseLost,
    NodeGone,
    NodesAlive,
    Promised,
    Proposed,
    Received,
    RecordSeen,
    RecoverWithLoss,
    Recycled,
    TellCommitted,
    Tick,
    Transfer,
    Truncated,
)
from routelog.mirror_cluster.replica.leader import HEAL_LAGS, Leader
from routelog.mirror_cluster.replica.replica import Replica
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity, ShardLog

DISKS = {"a": 1, "b": 2, "c": 3}
PROCESSES = {"a": 11, "b": 12, "c": 13}


SETTINGS = ReplicaSettings(window_bytes=1000)


def replica(
    node: str, chain: Chain | None = None, promise: Promise = NOTHING, applied: int = 0
) -> Replica:
    identity = Identity(SHARD, Member(node, DISKS[node]), PROCESSES[node])
    return Replica(identity, SETTINGS, chain or Chain(), promise, applied)


class Cluster:
    """Replicas whose disks, network and coordinator answer at once; `held` nodes are cut off."""

    def __init__(self, first: ShardRecord) -> None:
        self.now = 100.0
        self.record = first
        self.held: set[str] = set()
        self.seen: dict[str, list[Action]] = {node: [] for node in DISKS}
        self.blocks: dict[int, ShardBlock] = {}
        self.nodes = {node: replica(node) for node in DISKS}
        for node in self.nodes:
            self.tell(node, LeaseHeld(), NodesAlive(PROCESSES), RecordSeen(first))
        self.wait(3)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.25)):
            self.now += 0.25
            for node in self.nodes:
                self.tell(node, Tick())

    def tell(self, node: str, *events: object) -> None:
        for event in events:
            self.carry_out(node, self.nodes[node].handle(event, self.now))

    def submit(self, node: str, payload: bytes) -> None:
        leads, log = self.nodes[node].leader, self.nodes[node].log
        assert leads is not None
        block = ShardBlock.following(log.chain.end, SHARD, leads.epoch, payload)
        self.blocks[block.position] = block
        self.tell(node, Appended(block), Durable(block.mark))

    def carry_out(self, node: str, actions: list[Action]) -> None:
        self.seen[node] += actions
        for action in actions:
            self._carry_out(node, action)

    def _carry_out(self, node: str, action: Action) -> None:
        match action:
            case Store(blocks):
                self.blocks |= {block.position: block for block in blocks}
                self.tell(node, Durable(blocks[-1].mark))
            case BeginEpoch():
                self.submit(node, b"")
            case Truncate(position, _):
                self.tell(node, Truncated(position))
            case SavePromise(promise):
                self.tell(node, Promised(promise))
            case Send(to, message) if not {node, to} & self.held:
                self.tell(to, Received(node, message))
            case Ship(to, epoch, session, after, end, committed, stamp) if (
                not {node, to} & self.held
            ):
                blocks = tuple(self.blocks[each] for each in range(after + 1, end + 1))
                message = Append(SHARD, epoch, session, after, committed, stamp, blocks)
                self.tell(to, Received(node, message))
            case Propose(wanted, seen) if node not in self.held:
                if seen != self.record:
                    self.tell(node, Proposed(wanted.revision, None), RecordSeen(self.record))
                    return
                self.record = ShardRecord(**{**vars(wanted), "revision": wanted.revision + 1})
                self.tell(node, Proposed(wanted.revision, self.record))
                for each in self.nodes.keys() - self.held:
                    self.tell(each, RecordSeen(self.record))
            case _:
                pass

    def reasons(self, node: str) -> list[str]:
        """Why a node has proposed what it has."""
        return [each.reason for each in self.seen[node] if isinstance(each, Propose)]

    def committed(self) -> dict[str, int]:
        return {node: each.log.committed for node, each in self.nodes.items()}


def cluster() -> Cluster:
    return Cluster(record("", claim=0, epoch=0))


def test_the_first_replica_claims_begins_its_epoch_and_serves() -> None:
    nodes = cluster()
    assert (nodes.record.leader, nodes.record.epoch) == ("a", 1)
    assert Serve(1) in nodes.seen["a"]
    assert [each.serving for each in nodes.nodes.values()] == [True, False, False]


def test_a_block_is_committed_on_all_when_all_have_it() -> None:
    nodes = cluster()
    nodes.submit("a", b"one")
    assert nodes.committed()["a"] == 2
    nodes.wait(1)
    assert nodes.committed() == {"a": 2, "b": 2, "c": 2}
    assert Commit(2) in nodes.seen["c"]


def test_followers_apply_what_is_committed_at_once_when_somebody_waits_for_that() -> None:
    nodes = cluster()
    nodes.submit("a", b"x")
    end = nodes.committed()["a"]
    nodes.tell("b", TellCommitted())
    assert nodes.committed()["c"] < end, "it hears of it with the next block, or heartbeat"
    nodes.tell("a", TellCommitted())
    assert nodes.committed() == dict.fromkeys(DISKS, end)


def test_a_leader_whose_journal_makes_a_block_of_another_chain_ends() -> None:
    for epoch, after in ((1, 1), (2, 0)):
        nodes = cluster()
        end = nodes.nodes["a"].log.chain.end
        block = ShardBlock.following(
            end._replace(position=end.position + after), SHARD, epoch, b"x"
        )
        nodes.tell("a", Appended(block))
        assert isinstance(nodes.seen["a"][-1], Exit)
        assert nodes.nodes["a"].has_ended


def test_a_member_that_is_silent_leaves_before_more_is_committed() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.submit("a", b"one")
    assert nodes.committed()["a"] == 1
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "b"}
    assert nodes.reasons("a")[-1] == "c has not caught up for 3 s: not in sync any more"
    assert nodes.committed()["a"] == 2


def test_a_follower_that_acknowledges_nothing_is_sent_a_window_of_bytes() -> None:
    nodes = cluster()
    nodes.held = {"b"}
    sizes = [400, 400, 400, 5_000, 5_000, 100]
    for size in sizes:
        nodes.submit("a", bytes(size - HEAD_BYTES))
    sent = [each.end for each in nodes.seen["a"] if isinstance(each, Ship) and each.to == "b"]
    assert max(sent) == 3  # behind the block that begins the epoch
    nodes.seen["a"].clear()
    nodes.held = set()
    nodes.wait(2)
    spans = [
        sum(sizes[each.after - 1 : each.end - 1])
        for each in nodes.seen["a"]
        if isinstance(each, Ship) and each.to == "b"
    ]
    assert max(spans) == 5_000  # however long a block is, it is sent
    assert nodes.nodes["b"].log.durable == 7


def test_a_member_whose_process_has_ended_leaves_at_once() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.submit("a", b"one")
    assert nodes.committed()["a"] == 1
    nodes.tell("a", NodeGone("c"))
    assert nodes.committed()["a"] == 2
    assert nodes.reasons("a")[-1] == "c has ended: not in sync any more"
    nodes.tell("a", NodeGone("b"))
    assert nodes.record.in_sync == {"a", "b"}


def test_a_member_that_only_refused_a_connection_comes_back_without_another_session() -> None:
    nodes = cluster()
    nodes.seen["c"].clear()
    nodes.tell("a", NodeGone("c"))
    assert nodes.record.in_sync == {"a", "b"}
    nodes.wait(1)
    assert nodes.record.in_sync == {"a", "b", "c"}
    sent = [each.message for each in nodes.seen["c"] if isinstance(each, Send)]
    assert not any(isinstance(each, Hello) for each in sent)


def test_it_comes_back_when_it_has_caught_up() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.submit("a", b"one")
    nodes.wait(4)
    nodes.held = set()
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "b", "c"}
    assert nodes.committed() == {"a": 2, "b": 2, "c": 2}


def test_the_last_two_stay_members_and_nothing_more_is_committed() -> None:
    nodes = cluster()
    nodes.held = {"b", "c"}
    nodes.submit("a", b"one")
    nodes.wait(20)
    assert len(nodes.record.in_sync) == 2
    assert nodes.committed()["a"] == 1


def test_another_member_leads_when_the_leaders_process_is_gone() -> None:
    nodes = cluster()
    nodes.submit("a", b"one")
    nodes.held = {"a"}
    nodes.tell("b", NodeGone("a"))
    assert nodes.nodes["b"].gone == {"a"}
    nodes.wait(4)
    assert (nodes.record.leader, nodes.record.in_sync) == ("b", {"b", "c"})
    nodes.submit("b", b"two")
    nodes.wait(1)
    assert nodes.committed() == {"a": 2, "b": 4, "c": 4}


def test_a_node_is_gone_until_its_next_process_runs() -> None:
    nodes = cluster()
    nodes.held = {"a"}
    nodes.tell("b", NodeGone("a"))
    nodes.tell("b", NodesAlive({"a": 21, "b": 12, "c": 13}))
    assert nodes.nodes["b"].gone == set()


def test_a_deposed_leader_ends_as_soon_as_it_is_told() -> None:
    nodes = cluster()
    nodes.held = {"a"}
    nodes.tell("b", NodesAlive({"b": 12, "c": 13}))
    nodes.wait(4)
    nodes.tell("a", RecordSeen(nodes.record))
    assert isinstance(nodes.seen["a"][-1], Exit)
    assert nodes.nodes["a"].handle(Tick(), nodes.now) == []


def test_a_leader_without_its_lease_goes_on_while_no_other_node_can_serve() -> None:
    nodes = cluster()
    nodes.tell("a", LeaseLost())
    nodes.wait(3)
    assert nodes.nodes["a"].serving
    nodes.held = {"b"}  # it would need one that follows it
    nodes.wait(3)
    assert nodes.nodes["a"].serving
    nodes.held = {"b", "c"}
    nodes.wait(3)
    assert not nodes.nodes["a"].serving
    assert any(isinstance(each, StopServing) for each in nodes.seen["a"])
    assert not nodes.nodes["a"].has_ended, "nobody has led meanwhile"
    nodes.tell("a", LeaseHeld())
    assert isinstance(nodes.seen["a"][-1], Serve)


def test_a_leader_that_has_its_lease_again_does_not_call_itself_alone_before_it_is_followed() -> (
    None
):
    nodes = cluster()
    leader = nodes.nodes["a"]
    assert leader.is_alone(nodes.now)
    assert not nodes.nodes["b"].is_alone(nodes.now)
    nodes.held = {"b", "c"}
    nodes.tell("a", LeaseLost())
    nodes.wait(3)
    nodes.tell("a", LeaseHeld())
    assert leader.serving
    assert not replica_note(leader, nodes.now).is_alone, "others may have led"
    nodes.held = set()
    nodes.wait(3)
    assert replica_note(leader, nodes.now).is_alone


def test_a_leader_that_could_not_serve_ends_when_another_one_leads() -> None:
    nodes = cluster()
    nodes.tell("a", LeaseLost())
    nodes.held = {"a"}
    nodes.wait(3)
    assert not nodes.nodes["a"].serving
    nodes.tell("b", NodesAlive({"b": 12, "c": 13}))
    nodes.wait(1)
    assert nodes.record.leader == "b"
    nodes.tell("a", RecordSeen(nodes.record))
    assert isinstance(nodes.seen["a"][-1], Exit)


def test_a_leader_whose_lease_ends_before_it_serves_waits_for_the_members_or_the_lease() -> None:
    nodes = cluster()
    nodes.held = {"a", "c"}
    nodes.tell("b", NodesAlive({"b": 12, "c": 13}))
    assert nodes.record.leader == "b"
    nodes.tell("b", LeaseLost())
    nodes.wait(1)
    assert not nodes.nodes["b"].has_ended
    nodes.held = {"a"}
    nodes.tell("c", RecordSeen(nodes.record))
    nodes.wait(1)
    assert nodes.nodes["b"].serving


def test_a_leader_without_its_lease_goes_on_while_a_member_opens_another_session() -> None:
    nodes = cluster()
    nodes.tell("a", LeaseLost())
    nodes.wait(3)
    end = nodes.nodes["a"].log.chain.end
    for node in ("b", "c"):
        hello = Hello(SHARD, end.epoch, 77, node, DISKS[node], (end,))
        nodes.tell("a", Received(node, hello), Tick())  # it has not answered in this session yet
    assert nodes.nodes["a"].serving
    nodes.held = {"b", "c"}
    nodes.wait(3)
    assert not nodes.nodes["a"].serving


def test_leadership_is_handed_over_without_a_loss() -> None:
    nodes = cluster()
    nodes.submit("a", b"one")
    nodes.tell("a", Transfer("c"))
    assert StopServing() in nodes.seen["a"]
    nodes.wait(2)
    assert (nodes.record.leader, nodes.record.epoch) == ("c", 3)
    assert nodes.nodes["a"].has_ended
    assert nodes.nodes["c"].log.chain.mark(2) == nodes.nodes["a"].log.chain.mark(2)


def test_a_follower_that_is_drained_leaves_the_set_at_once() -> None:
    nodes = cluster()
    nodes.tell("c", Drain())
    assert nodes.record.in_sync == {"a", "b"}
    assert nodes.reasons("a") == [
        "a leads: nobody has led yet",
        "c is about to stop: not in sync any more",
    ]
    assert Drained() in nodes.seen["c"]
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "b"}


def test_a_drained_follower_that_opens_another_session_stays_out_of_the_set() -> None:
    nodes = cluster()
    nodes.tell("c", Drain())
    nodes.seen["c"].clear()
    nodes.held = {"c"}
    nodes.submit("a", b"lost on its way")
    nodes.held = set()
    nodes.submit("a", b"one")
    assert any(
        isinstance(each.message, Hello) for each in nodes.seen["c"] if isinstance(each, Send)
    )
    assert nodes.committed()["a"] == 3
    assert nodes.reasons("a")[1:] == ["c is about to stop: not in sync any more"]


def test_a_follower_whose_leave_was_lost_leaves_all_the_same() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.tell("c", Drain())
    nodes.held = set()
    nodes.wait(1)
    assert nodes.record.in_sync == {"a", "b"}
    assert nodes.reasons("a")[1:] == ["c is about to stop: not in sync any more"]


def dispensable(nodes: Cluster) -> list[str]:
    return [name for name, each in nodes.nodes.items() if each.is_dispensable]


def test_of_two_members_that_are_to_be_given_up_one_stays() -> None:
    nodes = cluster()
    assert not dispensable(nodes)
    nodes.tell("b", Drain())
    nodes.tell("c", Drain())
    nodes.wait(10)
    assert nodes.record.in_sync == {"a", "c"}
    assert dispensable(nodes) == ["b"]


def test_who_copies_or_may_lead_is_not_dispensable() -> None:
    follower = following(chain_of(1))
    without = record(in_sync="ab", epoch=2, revision=2)
    follower.handle(RecordSeen(without), 1.0)
    assert follower.is_dispensable
    follower.handle(Received("a", CopyFrom(SHARD, 2, SESSIONS[follower])), 1.0)
    assert not follower.is_dispensable, "it is about to be replaced"
    follower = following(chain_of(1))
    follower.handle(RecordSeen(replace(without, leader="c")), 1.0)
    assert not follower.is_dispensable


def test_nothing_is_dispensable_while_the_record_of_the_coordinator_is_refused() -> None:
    nodes = cluster()
    older = nodes.record
    nodes.tell("b", Drain())
    assert dispensable(nodes) == ["b"]
    nodes.tell("b", RecordSeen(older))
    assert not dispensable(nodes)
    nodes.tell("b", RecordSeen(nodes.record))
    assert dispensable(nodes) == ["b"]


def with_replicas(nodes: Cluster, *names: str) -> None:
    """As an operator's command changes the record."""
    wanted = nodes.record.with_replicas(names)
    nodes.record = replace(wanted, revision=wanted.revision + 1)
    for each in nodes.nodes:
        nodes.tell(each, RecordSeen(nodes.record))


def test_who_has_left_is_sent_nothing_and_takes_part_again_when_it_joins() -> None:
    nodes = cluster()
    nodes.tell("c", Drain())
    assert nodes.record.in_sync == {"a", "b"}
    with_replicas(nodes, "a", "b")
    assert not nodes.nodes["c"].is_streaming
    for actions in nodes.seen.values():
        actions.clear()
    nodes.submit("a", b"one")
    nodes.wait(4)
    assert not [each for each in nodes.seen["a"] if isinstance(each, Ship) and each.to == "c"]
    assert not [each for each in nodes.seen["c"] if isinstance(each, Send | Propose)]
    with_replicas(nodes, "a", "b", "c")
    nodes.wait(2)
    assert nodes.record.in_sync == {"a", "b", "c"}
    assert nodes.committed() == {"a": 2, "b": 2, "c": 2}


def test_a_follower_has_caught_up_as_long_as_it_takes_part() -> None:
    nodes = cluster()
    assert [nodes.nodes[name].has_caught_up for name in DISKS] == [False, True, True]
    nodes.tell("c", Drain())
    assert nodes.nodes["c"].has_caught_up
    with_replicas(nodes, "a", "b")
    assert not nodes.nodes["c"].has_caught_up
    with_replicas(nodes, *DISKS)
    nodes.wait(3)
    assert nodes.nodes["c"].has_caught_up


def test_who_has_left_is_not_met_and_claims_nothing() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.wait(4)
    with_replicas(nodes, "a", "b")
    nodes.held = {"a"}
    nodes.tell("a", Received("c", Hello(SHARD, 1, 77, "c", DISKS["c"], (START,))))
    assert nodes.seen["a"][-1] != Send("c", TruncateTo(SHARD, 1, 77, START))
    for node in ("b", "c"):
        nodes.tell(node, NodesAlive({**PROCESSES, "a": 99}))
    nodes.wait(4)
    assert (nodes.record.leader, nodes.record.replicas) == ("b", ("a", "b"))


def test_a_tail_that_the_leader_has_not_is_erased_before_the_answer() -> None:
    follower = following(chain_of(1, 1, 1))
    common = chain_of(1, 1).end
    (action,) = follower.handle(told(follower, TruncateTo, common), 1.0)
    assert action == Truncate(2, keep=False)
    (send,) = follower.handle(Truncated(2), 1.0)
    assert isinstance(send, Send)
    assert isinstance(send.message, Acknowledge)
    assert send.message.durable == 2


def test_what_is_applied_is_given_up_for_no_leader_that_lacks_it() -> None:
    follower = following(chain_of(1, 1, 1), applied=3)
    assert follower.handle(told(follower, TruncateTo, chain_of(1, 1).end), 1.0) == []
    assert follower.refusal is Refusal.LACKING
    assert follower.handle(Tick(), 60.0) == [ReadRecord()]


def test_what_is_applied_is_never_erased_but_copied_anew_when_an_operator_chose_so() -> None:
    follower = following(chain_of(1, 1, 1), applied=3, unclean=2)
    (send,) = follower.handle(told(follower, TruncateTo, chain_of(1, 1).end), 1.0)
    assert isinstance(send, Send)
    assert isinstance(send.message, Hello)
    assert send.message.epoch_ends == ()


def test_a_copy_takes_the_place_of_the_journal() -> None:
    nodes = cluster()
    checkpoint = nodes.nodes["a"].log.chain.end
    nodes.nodes["c"] = replica("c")
    nodes.tell("a", Recycled(checkpoint.position))
    nodes.tell("c", NodesAlive(PROCESSES), RecordSeen(nodes.record))
    assert CopyCheckpoint("a") in nodes.seen["c"]
    nodes.tell("c", Copied(checkpoint))
    nodes.submit("a", b"one")
    nodes.wait(2)
    assert nodes.nodes["c"].log.committed == nodes.nodes["a"].log.committed


def damaged_at(nodes: Cluster, *names: str) -> None:
    """These nodes cannot read all that they have, and all others are told."""
    for node in nodes.nodes:
        if node in names:
            nodes.tell(node, Damaged())
        nodes.tell(node, NodesAlive(PROCESSES, frozenset(names)))


def test_a_damaged_member_leaves_the_set_and_takes_a_copy() -> None:
    nodes = cluster()
    damaged_at(nodes, "c")
    assert CopyCheckpoint("a", heals=True) not in nodes.seen["c"]
    nodes.wait(0.25)
    assert CopyCheckpoint("a", heals=True) in nodes.seen["c"]
    assert nodes.record.in_sync == {"a", "b"}, "confirms do not wait for the copy"
    nodes.tell("c", Copied(nodes.nodes["a"].log.chain.end))
    nodes.wait(2)
    assert nodes.record.in_sync == {"a", "b", "c"}
    assert nodes.seen["c"].count(CopyCheckpoint("a", heals=True)) == 1


def test_a_damaged_member_that_must_stay_in_the_set_keeps_confirms_waiting() -> None:
    nodes = cluster()
    nodes.held = {"b"}
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "c"}
    damaged_at(nodes, "c")
    nodes.wait(0.25)
    nodes.submit("a", b"one")
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "c"}
    assert nodes.nodes["a"].log.committed == 1
    nodes.tell("c", Copied(nodes.blocks[1].mark))
    nodes.wait(1)
    assert nodes.nodes["a"].log.committed == 2


def test_a_damaged_member_follows_until_its_leader_has_begun() -> None:
    follower = following(chain_of(1), epoch=2)
    follower.handle(Damaged(), 1.0)
    (streams,) = follower.handle(told(follower, TruncateTo, chain_of(1).end), 1.0)
    assert isinstance(streams, Send)
    block = ShardBlock.following(chain_of(1).end, SHARD, 2, b"")
    append = Append(SHARD, 2, SESSIONS[follower], 1, 0, 0.0, (block,))
    follower.handle(Received("a", append), 1.0)
    follower.handle(Durable(block.mark), 1.0)
    assert not [each for each in follower.handle(Tick(), 1.1) if isinstance(each, Send)]
    heartbeat = Append(SHARD, 2, SESSIONS[follower], 2, 2, 0.0, ())
    follower.handle(Received("a", heartbeat), 1.2)
    (hello,) = [each for each in follower.handle(Tick(), 1.3) if isinstance(each, Send)]
    assert isinstance(hello.message, Hello)
    assert hello.message.epoch_ends == ()


def test_only_the_answer_of_a_member_that_lacks_a_block_has_the_next_session() -> None:
    follower = following(chain_of(1))
    asked = SESSIONS[follower]
    answer = follower.handle(told(follower, TruncateTo, chain_of(1, 1).end), 1.0)
    again = follower.handle(Tick(), 60.0)
    sent = [each.message for each in (*answer, *again) if isinstance(each, Send)]
    hellos = [each for each in sent if isinstance(each, Hello)]
    assert [(each.session - asked, each.epoch_ends) for each in hellos] == [(1, ()), (3, ())]

    damaged = following(chain_of(1), epoch=1)
    damaged.handle(Damaged(), 1.0)
    damaged.handle(told(damaged, TruncateTo, chain_of(1).end, epoch=1), 1.0)
    heartbeat = Append(SHARD, 1, SESSIONS[damaged], 1, 1, 0.0, ())
    damaged.handle(Received("a", heartbeat), 1.1)
    (hello,) = [each for each in damaged.handle(Tick(), 1.2) if isinstance(each, Send)]
    assert isinstance(hello.message, Hello)
    assert (hello.message.session - SESSIONS[damaged], hello.message.epoch_ends) == (2, ())


def test_a_copy_that_is_damaged_itself_is_not_asked_for_again() -> None:
    nodes = cluster()
    damaged_at(nodes, "c")
    nodes.wait(0.25)
    nodes.tell("c", CopyFailed(is_damaged=True))
    nodes.submit("a", b"one")
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "b", "c"}
    assert nodes.nodes["c"].log.committed == 2
    assert nodes.seen["c"].count(CopyCheckpoint("a", heals=True)) == 1


def test_a_damaged_leader_hands_over_to_a_member_that_is_whole() -> None:
    nodes = cluster()
    damaged_at(nodes, "a", "b")
    nodes.wait(1)
    assert (nodes.record.leader, nodes.record.claim) == ("c", PROCESSES["c"])


def test_a_damaged_leader_leads_on_where_nobody_is_whole() -> None:
    nodes = cluster()
    damaged_at(nodes, "a", "b", "c")
    nodes.wait(4)
    assert nodes.record.leader == "a"
    for name in "bc":
        assert CopyCheckpoint("a", heals=True) in nodes.seen[name]
        nodes.tell(name, CopyFailed(is_damaged=True))
    nodes.wait(4)
    assert nodes.record.leader == "a"
    assert nodes.record.in_sync == {"a", "b", "c"}
    for name in "bc":
        assert nodes.seen[name].count(CopyCheckpoint("a", heals=True)) == 1


def test_where_nobody_is_whole_the_first_that_has_made_a_copy_whole_leads() -> None:
    nodes = cluster()
    damaged_at(nodes, "a", "b", "c")
    nodes.wait(1)
    nodes.tell("c", Copied(nodes.nodes["a"].log.chain.end))
    for node in "ab":
        nodes.tell(node, NodesAlive(PROCESSES, frozenset("ab")))
    nodes.wait(2 * HEAL_LAGS * SETTINGS.lag_seconds)
    assert (nodes.record.leader, nodes.record.claim) == ("c", PROCESSES["c"])
    nodes.wait(2 * SETTINGS.lag_seconds)
    assert CopyCheckpoint("c", heals=True) in nodes.seen["b"]


def test_a_damaged_member_waits_for_one_that_is_whole_and_does_not_run() -> None:
    nodes = cluster()
    nodes.held = {"a"}
    alive = {node: PROCESSES[node] for node in "bc"}
    for node in ("b", "c"):
        nodes.tell(node, Damaged(), NodesAlive(alive, frozenset("bc")))
    nodes.wait(4)
    assert nodes.record.leader == "a"
    # It comes back as damaged as they are.
    for node in ("b", "c"):
        nodes.tell(node, NodesAlive(PROCESSES | {"a": 21}, frozenset("abc")))
        nodes.tell(node, NodesAlive(alive, frozenset("bc")))
    nodes.wait(4)
    assert nodes.record.leader == "b"


def test_a_damaged_member_leads_where_the_others_lost_their_disks() -> None:
    nodes = cluster()
    nodes.held = {"a", "c"}
    alive = {"b": PROCESSES["b"], "c": PROCESSES["c"]}
    nodes.tell("b", Damaged(), NodesAlive(alive, frozenset("b"), DISKS | {"a": 77, "c": 78}))
    nodes.wait(4)
    assert nodes.record.leader == "b"


def test_who_has_nothing_takes_a_copy_of_a_node_that_ran_on_its_own() -> None:
    one, both = chain_of(3), chain_of(3, 3)
    leader = Leader(
        Identity(SHARD, Member("a", 1), 11),
        ShardLog(both, 2, alone=3),
        SETTINGS,
        record("a", "a"),
        1.0,
    )
    leader.epoch = 4

    def answer(*ends: Mark) -> object:
        hello = Hello(SHARD, 4, 77, "b", DISKS["b"], ends)
        return next(
            each.message
            for each in leader.received("b", hello, 1.0)
            if isinstance(each, Send) and each.to == "b"
        )

    assert answer(START) == CopyFrom(SHARD, 4, 77)
    assert answer(one.end) == CopyFrom(SHARD, 4, 77)
    assert answer(both.end) == TruncateTo(SHARD, 4, 77, both.end), "as its copy ends"


def test_a_late_word_of_a_block_that_was_cut_makes_nothing_durable() -> None:
    one, other = chain_of(1, 1), chain_of(1)
    follower = following(other)
    assert follower.handle(Durable(one.end), 1.0) == []
    assert follower.log.durable == 1


def test_a_leader_of_an_older_epoch_is_fenced() -> None:
    follower = following(chain_of(1), epoch=5)
    (send,) = follower.handle(Received("b", Append(SHARD, 4, 1, 1, 0, 0.0, ())), 1.0)
    assert isinstance(send, Send)
    assert send.message == Fenced(SHARD, 5, send.message.session)


def test_an_older_record_is_not_followed_after_a_newer_promise() -> None:
    follower = replica("c", promise=Promise.of(record(epoch=7, revision=2)))
    assert follower.handle(RecordSeen(record(epoch=6), is_fresh=False), 1.0) == []
    assert follower.refusal is None, "it may be late news"
    later = record(epoch=8, revision=3)
    assert follower.handle(RecordSeen(later), 1.0) == [SavePromise(Promise.of(later))]


def test_an_operator_can_lead_with_a_loss_and_the_tail_is_kept() -> None:
    nodes = cluster()
    nodes.submit("a", b"one")
    nodes.held = {"a", "b"}
    seen = nodes.record.revision
    nodes.tell("c", RecoverWithLoss(seen - 1))
    assert nodes.record.leader == "a", "it has changed since the operator saw it"
    nodes.tell("c", RecoverWithLoss(seen))
    assert (nodes.record.leader, nodes.record.unclean, nodes.record.in_sync) == ("c", 2, {"c"})
    follower = following(chain_of(1, 1, 1), unclean=5, epoch=5)
    (action,) = follower.handle(told(follower, TruncateTo, chain_of(1, 1).end, 5), 1.0)
    assert action == Truncate(2, keep=True)


def claim_of(node: Replica, seen: ShardRecord, *events: object) -> ShardRecord:
    """What a node proposes that has seen a record, and some events."""
    actions: list[Action] = []
    for event in (LeaseHeld(), NodesAlive(PROCESSES), RecordSeen(seen), *events):
        actions += node.handle(event, 1.0)
    (proposed,) = (each.record for each in actions if isinstance(each, Propose))
    return proposed


def test_a_claim_is_above_the_epochs_that_a_node_has_begun_on_its_own() -> None:
    seen = record("a", claim=7)
    alone = replica("a", chain_of(1, 4, 5), Promise.of(seen), applied=3)
    assert claim_of(alone, seen).epoch == 6
    seen = record("a", claim=7, in_sync="ab")
    alone = replica("c", chain_of(1, 4, 5), Promise.of(seen), applied=3)
    told = claim_of(alone, seen, RecoverWithLoss(1))
    assert (told.epoch, told.unclean) == (6, 6)


def following(chain: Chain, applied: int = 0, epoch: int = 2, unclean: int = 0) -> Replica:
    """The replica of node c that has said hello to the leader a."""
    seen = ShardRecord(**{**vars(record(epoch=epoch)), "unclean": unclean})
    follower = replica("c", chain, Promise.of(seen), applied)
    (send,) = follower.handle(RecordSeen(seen), 0.5)
    assert isinstance(send, Send)
    assert isinstance(send.message, Hello)
    SESSIONS[follower] = send.message.session
    return follower


SESSIONS: dict[Replica, int] = {}


def told(follower: Replica, kind: type[TruncateTo], content: object, epoch: int = 2) -> Received:
    return Received("a", kind(SHARD, epoch, SESSIONS[follower], content))


def test_a_copy_is_given_up_when_somebody_else_leads() -> None:
    follower = following(chain_of(1))
    head = (SHARD, 2, SESSIONS[follower])
    assert follower.handle(Received("a", CopyFrom(*head)), 1.0) == [CopyCheckpoint("a")]
    assert follower.handle(Tick(), 60.0)[:1] == [ReadRecord()]
    later = record("b", epoch=3, revision=2)
    assert follower.handle(RecordSeen(later), 61.0) == [AbortCopy(), SavePromise(Promise.of(later))]


def test_an_answer_of_an_earlier_session_does_not_count() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.submit("a", b"one")
    head = (SHARD, 1, 77)
    nodes.tell("a", Received("c", Hello(*head, "c", DISKS["c"], (START,))))
    nodes.tell("a", Received("c", Acknowledge(SHARD, 1, 76, 2, 0.0)))
    assert nodes.committed()["a"] == 1
    nodes.tell("a", Received("c", Acknowledge(*head, 2, 0.0)))
    assert nodes.committed()["a"] == 2


def test_a_member_with_another_disk_is_not_the_member() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.submit("a", b"one")
    head = (SHARD, 1, 77)
    nodes.tell("a", Received("c", Hello(*head, "c", 99, (START,))))
    nodes.tell("a", Received("c", Acknowledge(*head, 2, 0.0)))
    assert nodes.committed()["a"] == 1


def test_a_record_that_the_watch_tells_late_forgets_no_proposal() -> None:
    nodes = cluster()
    nodes.held = {"c"}
    nodes.wait(4)
    assert nodes.record.in_sync == {"a", "b"}
    leader, known = nodes.nodes["a"].leader, nodes.record
    assert leader is not None
    nodes.held = {"a", "b"}
    nodes.tell("a", Received("c", Hello(SHARD, 1, 77, "c", DISKS["c"], (START,))))
    nodes.tell("a", Received("c", Acknowledge(SHARD, 1, 77, 1, 0.0)))
    ship = [each for each in nodes.seen["a"] if isinstance(each, Ship) and each.to == "c"][-1]
    nodes.tell("a", Received("c", Acknowledge(SHARD, 1, 77, 1, ship.stamp)))
    assert isinstance(nodes.seen["a"][-1], Propose)
    nodes.tell("a", RecordSeen(known))
    assert Member("c", DISKS["c"]) in leader.counted


def test_a_node_without_a_lease_claims_nothing() -> None:
    one = replica("b")
    assert one.handle(NodesAlive(PROCESSES), 1.0) == []
    alone = record("a", claim=99)
    one.handle(RecordSeen(alone), 1.0)
    one.handle(Promised(Promise.of(alone)), 1.0)
    assert not [each for each in one.handle(Tick(), 9.0) if isinstance(each, Propose)]
    one.handle(LeaseHeld(), 9.0)
    assert [each for each in one.handle(Tick(), 20.0) if isinstance(each, Propose)]


def test_a_leader_counts_a_member_until_it_will_remember_that_it_has_left() -> None:
    nodes = cluster()
    leader, c = nodes.nodes["a"], Member("c", DISKS["c"])
    assert leader.leader is not None
    (shrink,) = leader.handle(NodeGone("c"), nodes.now)
    assert isinstance(shrink, Propose)
    before = shrink.record.revision
    without = replace(shrink.record, revision=before + 1)
    promise = Promise.of(without)
    assert leader.handle(Proposed(before, without), nodes.now) == [SavePromise(promise)]
    assert c in leader.leader.counted
    leader.handle(Promised(promise), nodes.now)
    assert c not in leader.leader.counted
    assert leader.handle(Promised(Promise.of(nodes.record)), nodes.now) == [], "it comes late"


def test_who_refuses_what_is_there_claims_nothing_and_goes_on_when_it_is_as_it_was() -> None:
    known = record("a", claim=99, epoch=3, revision=7)
    node = replica("b", promise=Promise.of(known))
    for event in (LeaseHeld(), NodesAlive(PROCESSES), RecordSeen(record(claim=99))):
        assert not [each for each in node.handle(event, 1.0) if isinstance(each, Propose)]
    assert node.refusal is Refusal.OLDER
    assert not [each for each in node.handle(Tick(), 60.0) if isinstance(each, Propose)]
    node.handle(RecordSeen(known), 61.0)
    assert node.refusal is None
    node.handle(Tick(), 61.0)
    assert [each for each in node.handle(Tick(), 90.0) if isinstance(each, Propose)]


def test_nobody_claims_who_has_promised_less_than_another_node_or_could_not_serve() -> None:
    seen = record("a", claim=99, epoch=3, revision=7)
    newer = Promise.of(record("c", claim=98, epoch=4, revision=9))
    for alive in (NodesAlive(PROCESSES, promises=[newer]), NodesAlive({"b": PROCESSES["b"]})):
        node = replica("b", promise=Promise.of(seen))
        events = (LeaseHeld(), alive, RecordSeen(seen), Tick(), Tick())
        found = [
            each for now, event in enumerate(events) for each in node.handle(event, now * 30.0)
        ]
        assert not [each for each in found if isinstance(each, Propose)]
        node.handle(NodesAlive(PROCESSES), 151.0)
        assert [each for each in node.handle(Tick(), 200.0) if isinstance(each, Propose)]
