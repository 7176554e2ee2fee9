"""A leader: what comes in, and the actions that follow, at the times of the test."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
from unit.mirror_cluster.journals import SHARD, record

from routelog.log_backend import START, Mark, ShardBlock
from routelog.mirror_cluster.protocol.messages import (
    Acknowledge,
    CopyFrom,
    Fenced,
    Hello,
    Leave,
    TruncateTo,
)
from routelog.mirror_cluster.protocol.shard_record import Member
from routelog.mirror_cluster.replica.actions import (
    Action,
    BeginEpoch,
    Commit,
    Exit,
    Propose,
    ReadRecord,
    Send,
    Serve,
    Ship,
    StopServing,
)
from routelog.mirror_cluster.replica.chain import HEAD_BYTES, Chain
from routelog.mirror_cluster.replica.leader import HEAL_LAGS, Leader
from routelog.mirror_cluster.replica.settings import ReplicaSettings
from routelog.mirror_cluster.replica.shard_log import Identity, ShardLog

A, B, C = Member("a", 1), Member("b", 2), Member("c", 3)
PROCESS = 11
SETTINGS = ReplicaSettings(window_bytes=1000)
LAG, BEAT = SETTINGS.lag_seconds, SETTINGS.heartbeat_seconds
NOW = 100.0


class Led:
    """A leader of epoch 1 on node a, and the hands that store its blocks."""

    def __init__(self, in_sync: str = "abc", *, blocks: int = 0, alone: int = 0) -> None:
        self.log = ShardLog(Chain(), 0, alone)
        for _ in range(blocks):  # of an epoch before
            self.log.extend(ShardBlock.following(self.log.chain.end, SHARD, 0, b"old"))
        self.record = record(in_sync=in_sync, claim=PROCESS)
        self.leader = Leader(Identity(SHARD, A, PROCESS), self.log, SETTINGS, self.record, NOW)

    def append(self, payload: bytes = b"", now: float = NOW) -> list[Action]:
        """A block is made, and is on its disk at once."""
        block = ShardBlock.following(self.log.chain.end, SHARD, 1, payload)
        actions = self.leader.appended(block, now)
        self.log.synced(block.mark)
        return actions + self.leader.synced(now)

    def hello(self, node: str, *ends: Mark, session: int = 7, epoch: int = 1) -> list[Action]:
        """A follower opens a session."""
        return self.say_hello(node, ends or (START,), session, epoch)

    def wants_copy(self, node: str, session: int = 7) -> list[Action]:
        """A follower opens a session, and tells nothing of what it has."""
        return self.say_hello(node, (), session)

    def say_hello(
        self, node: str, ends: tuple[Mark, ...], session: int, epoch: int = 1
    ) -> list[Action]:
        """A follower opens a session."""
        incarnation = {"b": 2, "c": 3}.get(node, 9)
        message = Hello(SHARD, epoch, session, node, incarnation, ends)
        return self.leader.received(node, message, NOW)

    def acknowledge(
        self, node: str, durable: int, now: float = NOW, session: int = 7, epoch: int = 1
    ) -> list[Action]:
        """A follower has the blocks up to a position, and heard what was sent at this time."""
        return self.leader.received(node, Acknowledge(SHARD, epoch, session, durable, now), now)

    def follow(self, *nodes: str, durable: int = 0, now: float = NOW) -> None:
        """These followers have opened a session, and have so much."""
        for node in nodes:
            self.hello(node)
            self.acknowledge(node, durable, now)


def served(in_sync: str = "abc") -> Led:
    """One that serves, with a first block that all have."""
    led = Led(in_sync)
    led.append()
    led.follow("b", "c", durable=1)
    assert led.leader.serving
    return led


def proposals(actions: list[Action]) -> list[tuple[str, str]]:
    """What of the record is to change, and why."""
    return [
        ("".join(sorted(each.record.in_sync)) + f" led by {each.record.leader}", each.reason)
        for each in actions
        if isinstance(each, Propose)
    ]


def test_it_begins_with_a_block_and_serves_when_that_is_on_all_disks() -> None:
    led = Led()
    assert led.leader.begin() == [BeginEpoch(1)]
    assert led.append() == []
    led.follow("b")
    assert (led.leader.has_begun, led.leader.serving) == (False, False)
    assert led.acknowledge("b", 1) == []
    led.hello("c")
    assert led.acknowledge("c", 1)[:2] == [Commit(1), Serve(1)]
    assert led.leader.has_begun


def test_it_does_not_serve_before_its_own_first_block_is_committed() -> None:
    led = Led(blocks=3)
    led.log.durable = 3
    for node in ("b", "c"):
        led.hello(node, led.log.chain.end)
    led.acknowledge("b", 3)
    assert led.acknowledge("c", 3)[0] == Commit(3)
    assert not led.leader.serving
    led.append()
    led.acknowledge("b", 4)
    assert led.acknowledge("c", 4)[:2] == [Commit(4), Serve(1)]


@pytest.mark.parametrize(
    ("epoch", "gap", "ends"), [(1, 0, False), (0, 0, True), (2, 0, True), (1, 1, True)]
)
def test_a_block_that_does_not_follow_ends_it(epoch: int, gap: int, ends: bool) -> None:
    led = Led()
    end = led.log.chain.end
    after = end._replace(position=end.position + gap)
    actions = led.leader.appended(ShardBlock.following(after, SHARD, epoch, b"x"), NOW)
    assert [type(each) for each in actions] == ([Exit] if ends else [])
    assert led.log.chain.end_position == (0 if ends else 1)


def test_a_block_goes_to_all_that_follow_and_to_nobody_else() -> None:
    led = served()
    led.hello("c", session=8)  # it has not answered in this session
    assert led.append(b"x", NOW + 1) == [Ship("b", 1, 7, 1, 2, 1, NOW + 1)]
    assert led.append(b"y", NOW + 2) == [Ship("b", 1, 7, 2, 3, 1, NOW + 2)]


def test_no_more_than_a_window_is_under_way() -> None:
    led = served("ab")
    sizes = [400, 400, 400, 5_000, 100]
    for size in sizes:
        led.append(bytes(size - HEAD_BYTES))
    sent = []
    for durable in range(1, 7):
        for each in led.acknowledge("b", durable):
            if isinstance(each, Ship) and each.to == "b":
                sent.append((each.after, each.end))
    # The first two went out as they came. A block that is longer than the window goes alone.
    assert sent == [(3, 4), (4, 5), (5, 6)]


def test_a_member_that_has_not_caught_up_for_long_leaves() -> None:
    led = served()
    led.append(b"x")
    led.acknowledge("b", 2)
    assert proposals(led.leader.tick(NOW + LAG)) == []
    led.acknowledge("b", 2, NOW + LAG)
    (proposal,) = proposals(led.leader.tick(NOW + LAG + 0.1))
    assert proposal == ("ab led by a", "c has not caught up for 3 s: not in sync any more")
    assert led.log.committed == 1, "not before the coordinator has it"
    assert proposals(led.leader.tick(NOW + LAG + 1)) == [], "one proposal at a time"


def test_what_was_proposed_counts_when_it_is_answered() -> None:
    led = served()
    led.append(b"x")
    led.acknowledge("b", 2)
    (propose,) = [each for each in led.leader.gone("c", NOW) if isinstance(each, Propose)]
    revision = propose.record.revision
    assert led.leader.answered(revision + 1, is_accepted=False) == []
    assert led.leader.answered(revision, is_accepted=True) == []
    adopted = replace(propose.record, revision=revision + 1)
    assert led.leader.adopt(adopted, NOW) == [Commit(2)]
    assert led.leader.counted == {A, B}


def test_without_an_answer_it_reads_the_record() -> None:
    led = served()
    (propose,) = [each for each in led.leader.gone("c", NOW) if isinstance(each, Propose)]
    assert led.leader.answered(propose.record.revision, is_accepted=False) == [ReadRecord()]


def test_without_the_coordinators_record_it_proposes_nothing() -> None:
    led = served()
    led.leader.may_propose = False
    assert led.leader.gone("c", NOW) == []


@pytest.mark.parametrize(
    ("leave", "why"),
    [
        (lambda led: led.leader.gone("c", NOW), "has ended"),
        (
            lambda led: led.leader.received("c", Leave(SHARD, 1, 7), NOW),
            "is about to stop",
        ),
    ],
)
def test_who_says_that_it_goes_leaves_at_once(
    leave: Callable[[Led], list[Action]], why: str
) -> None:
    led = served()
    assert proposals(leave(led)) == [("ab led by a", f"c {why}: not in sync any more")]
    assert led.leader.gone("unknown", NOW) == []


def test_a_follower_joins_when_it_has_everything() -> None:
    led = Led("ab")
    led.append()
    led.follow("b", durable=1)
    assert led.leader.serving
    led.append(b"x")
    led.acknowledge("b", 2)
    assert led.log.committed == 2
    led.hello("c")
    assert proposals(led.acknowledge("c", 1)) == []
    assert proposals(led.acknowledge("c", 2)) == [
        ("abc led by a", "c has everything: it is in sync")
    ]


def test_a_follower_that_lacks_what_was_committed_since_does_not_join() -> None:
    led = Led("ab")
    led.append()
    led.leader.may_propose = False
    led.follow("b", "c", durable=1)
    led.acknowledge("c", 1)
    led.append(b"x")
    led.acknowledge("b", 2)
    assert led.log.committed == 2
    led.leader.may_propose = True
    assert proposals(led.leader.tick(NOW)) == []
    assert proposals(led.acknowledge("c", 2)) == [
        ("abc led by a", "c has everything: it is in sync")
    ]


def test_messages_of_other_sessions_and_epochs_are_not_heard() -> None:
    led = served()
    led.append(b"x")
    assert led.acknowledge("b", 2, session=6) == []
    assert led.acknowledge("b", 2, epoch=0) == []
    assert led.acknowledge("unknown", 2) == []
    assert led.leader.blocks_behind() == {"a": 0, "b": 1, "c": 1}
    (ended,) = led.acknowledge("b", 2, epoch=2)
    assert ended == Exit("b follows epoch 2")


def test_a_hello_is_answered_by_what_the_follower_has() -> None:
    led = served()
    end = led.log.chain.end
    assert led.hello("b", end) == [Send("b", TruncateTo(SHARD, 1, 7, end))]
    longer = end._replace(position=5, checksum=77)  # than what the leader has of this epoch
    assert led.hello("b", longer) == [Send("b", TruncateTo(SHARD, 1, 7, end))]
    assert led.hello("b", epoch=0) == [Send("b", Fenced(SHARD, 1, 7))]
    assert led.hello("z", end) == [], "it is no replica"
    assert [type(each) for each in led.hello("b", Mark(1, 5, 5))] == [Exit]


def test_who_has_nothing_in_common_gets_a_copy() -> None:
    led = served("ab")
    led.log.chain.rebase(1)
    assert led.hello("c") == [Send("c", CopyFrom(SHARD, 1, 7))]


def test_a_member_that_wants_a_copy_is_not_waited_for() -> None:
    led = served()
    copy, propose = led.wants_copy("c")
    assert copy == Send("c", CopyFrom(SHARD, 1, 7))
    assert proposals([propose])[0][0] == "ab led by a"
    assert proposals(served("ab").wants_copy("b")) == [], "two must be in sync"


@pytest.mark.parametrize("is_recycled", [False, True])
def test_a_member_without_what_is_committed_leaves_at_once(is_recycled: bool) -> None:
    led = served("ab")
    if is_recycled:
        led.log.chain.rebase(1)
    # It is asked for what it had acknowledged: this may have come late.
    assert led.hello("b", session=8) == [Send("b", TruncateTo(SHARD, 1, 8, led.log.chain.end))]
    copy, propose = led.wants_copy("b", session=9)
    assert copy == Send("b", CopyFrom(SHARD, 1, 9))
    assert proposals([propose]) == [
        ("a led by a", "the disk of b is an older one: not in sync any more")
    ]
    assert isinstance(propose, Propose)
    assert led.leader.adopt(replace(propose.record, revision=2), NOW) == []
    led.append(b"x")
    assert led.log.committed == 1, "two must be in sync"
    led.hello("b", led.log.chain.mark(1) or START, session=10)
    led.acknowledge("b", 1, session=10)
    assert proposals(led.acknowledge("b", 2, session=10)) == [
        ("ab led by a", "b has everything: it is in sync")
    ]


def test_a_hello_that_comes_late_proves_nothing_of_a_disk() -> None:
    led = served("ab")
    led.hello("b", session=3)  # a process before
    assert led.hello("b", led.log.chain.end, session=8) != []
    assert proposals(led.acknowledge("b", 1, session=8)) == []
    led.hello("b", session=7)  # a session before
    assert proposals(led.wants_copy("b", session=10)) == [], "it may be damaged"
    assert proposals(led.leader.tick(NOW)) == []


def test_a_member_whose_answer_is_lost_is_asked_again() -> None:
    led = served("ab")
    asked = led.log.chain.end
    led.hello("b", session=8)
    assert led.wants_copy("b", session=11) == [Send("b", TruncateTo(SHARD, 1, 11, asked))]
    copy, propose = led.wants_copy("b", session=12)
    assert copy == Send("b", CopyFrom(SHARD, 1, 12))
    assert proposals([propose])[0][0] == "a led by a"


def test_a_damaged_member_that_has_what_is_committed_takes_its_copy_in_its_place() -> None:
    led = served("ab")
    led.hello("b", session=7)  # it came twice
    asked = led.log.chain.end
    assert led.wants_copy("b", session=9) == [Send("b", TruncateTo(SHARD, 1, 9, asked))]
    assert proposals(led.acknowledge("b", 1, session=9)) == []
    assert led.wants_copy("b", session=11) == [Send("b", CopyFrom(SHARD, 1, 11))]


def test_what_a_node_on_its_own_wrote_is_only_in_a_copy() -> None:
    led = Led(alone=1)
    led.append()
    assert led.hello("b", START)[0] == Send("b", CopyFrom(SHARD, 1, 7))


def test_an_idle_leader_sends_heartbeats() -> None:
    led = served("ab")
    led.append(b"x", NOW)
    assert led.leader.tick(NOW + BEAT / 2) == []
    beats = [each for each in led.leader.tick(NOW + BEAT) if isinstance(each, Ship)]
    assert {(each.to, each.after, each.end, each.stamp) for each in beats} == {
        ("b", 2, 2, NOW + BEAT),
        ("c", 2, 2, NOW + BEAT),
    }


def test_followers_are_told_at_once_what_is_committed_if_they_do_not_know_it() -> None:
    led = served("ab")
    led.append(b"x", NOW)
    led.hello("c", session=8)  # it is not known yet what it has
    assert led.acknowledge("b", 2)[0] == Commit(2)
    told = led.leader.tell_committed(NOW + 0.01)
    assert told == [Ship("b", 1, 7, 2, 2, 2, NOW + 0.01)]
    assert led.leader.tell_committed(NOW + 0.01) == [], "all know it"
    assert led.append(b"y", NOW)[0] == Ship("b", 1, 7, 2, 3, 2, NOW)
    assert led.leader.tell_committed(NOW) == []


def test_without_its_lease_it_serves_while_enough_nodes_answer() -> None:
    led = served()
    led.leader.lease_lost = True
    last = NOW + 1
    led.acknowledge("b", 1, last)
    assert not [e for e in led.leader.tick(last + SETTINGS.lease_seconds) if type(e) is StopServing]
    stopped = led.leader.tick(last + SETTINGS.lease_seconds + 0.1)
    assert [each for each in stopped if isinstance(each, StopServing)]
    assert not led.leader.serving
    led.leader.lease_lost = False
    assert Serve(1) in led.leader.tick(last + SETTINGS.lease_seconds + 0.2)


def test_it_knows_since_when_another_node_may_have_served() -> None:
    led = served()
    led.acknowledge("b", 1, NOW + 1)
    assert led.leader.alone_since == NOW + 1  # one is too few to follow another one
    led.acknowledge("c", 1, NOW + 3)
    assert led.leader.alone_since == NOW + 3
    assert Led("a").leader.alone_since == inf  # nobody else may lead


def test_it_is_handed_over_when_the_other_one_has_everything() -> None:
    led = served()
    led.append(b"x")
    assert led.leader.transfer("c", NOW)[:1] == [StopServing("another node is to lead")]
    assert proposals(led.acknowledge("b", 2)) == []
    assert proposals(led.acknowledge("c", 2)) == [("abc led by c", "c is to lead")]
    assert not led.leader.serving


def test_one_that_has_less_in_another_session_is_handed_nothing() -> None:
    led = served()
    led.append(b"x")
    led.acknowledge("b", 2)
    led.acknowledge("c", 2)
    assert led.log.committed == 2
    led.hello("c", session=8)
    led.acknowledge("c", 1, session=8)
    assert proposals(led.leader.transfer("c", NOW)) == []
    assert proposals(led.acknowledge("c", 2, session=8)) == [("abc led by c", "c is to lead")]


def test_it_serves_again_when_the_other_one_takes_long() -> None:
    led = served()
    led.append(b"x")
    led.leader.transfer("c", NOW)
    led.acknowledge("b", 2, NOW + LAG)
    led.acknowledge("c", 1, NOW + LAG)
    assert Serve(1) in led.leader.tick(NOW + LAG)


@pytest.mark.parametrize("to", ["z", "a", "c"])
def test_nobody_is_handed_what_he_cannot_lead(to: str) -> None:
    led = served()
    led.leader.damaged = frozenset("c")
    assert led.leader.transfer(to, NOW) == []
    assert led.leader.serving


def test_a_leader_that_is_damaged_hands_over_now_and_then() -> None:
    led = served()
    led.leader.damaged = frozenset("b")
    led.leader.is_damaged = True
    stopped = led.leader.tick(NOW)
    assert proposals(stopped) == [("abc led by c", "c is to lead")]
    led.leader.answered(led.record.revision, is_accepted=False)
    led.acknowledge("b", 1, NOW + LAG)
    led.acknowledge("c", 1, NOW + LAG)
    assert Serve(1) in led.leader.tick(NOW + LAG)
    led.leader.answered(led.record.revision, is_accepted=False)
    assert led.leader.serving
    again = NOW + HEAL_LAGS * LAG
    led.acknowledge("b", 1, again)
    led.acknowledge("c", 1, again)
    assert not [e for e in led.leader.tick(again - 0.1) if type(e) is StopServing]
    assert [e for e in led.leader.tick(again) if type(e) is StopServing]


def test_another_leader_ends_it() -> None:
    led = served()
    assert led.leader.deposed_by(led.record) == []
    for other in (record("b", claim=12, epoch=2), record("a", claim=99)):
        assert [type(each) for each in led.leader.deposed_by(other)] == [Exit]
