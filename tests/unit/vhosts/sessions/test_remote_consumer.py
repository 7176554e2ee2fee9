"""A consumer of a remote queue: from its attachment over deliveries and lost sessions to its end."""

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from support.queue_samples import Node, give_back, numbered, records, settle
from unit.vhosts.sessions.queue_places import Place
from unit.vhosts.sessions.session_pipe import PipedFront, RemoteTaker, ScriptedLeader, call_of

from routelog.exchanges import QueueNotFound
from routelog.log_backend import NotReplicated
from routelog.vhosts import ChannelPrefetch, ConsumeOptions, GroupOptions, ReturnReason, value_of
from routelog.vhosts.errors import (
    ConsumptionRefused,
    InvalidStreamOffset,
    QueueQuarantined,
    SessionLost,
)
from routelog.vhosts.sessions import remote_consumer
from routelog.vhosts.sessions.remote_queue import RemoteQueue
from routelog.vhosts.sessions.session_errors import encode_error
from routelog.vhosts.sessions.session_message import (
    MORE,
    BadSessionMessage,
    Kind,
    SessionMessage,
)

DELETED = msgspec.msgpack.encode(None)


@pytest.fixture
def leader() -> ScriptedLeader:
    return ScriptedLeader()


def attached(
    leader: ScriptedLeader,
    queue: RemoteQueue,
    taker: RemoteTaker,
    answer: object = None,
    **options: Any,
) -> SessionMessage:
    """Attach a consumer; returns the answered call."""
    attaching = queue.attach(taker, ConsumeOptions(**options), taker.begin)
    call = leader.said()[-1]
    leader.answers(call, answer)
    assert attaching.result() is None
    return call


def subject_of(call: SessionMessage) -> int:
    subject: int = call_of(call)[1]["consumer"]
    return subject


def ranges(messages: list[SessionMessage]) -> list[tuple[Kind, int, int, int]]:
    return [(each.kind, each.subject, each.first, each.first + each.count) for each in messages]


async def test_what_a_consumer_wants_is_sent_and_it_begins_with_the_answer(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker(5, exclusive=True, priority=-2)
    options = ConsumeOptions(GroupOptions("g", None, 10), datetime.fromtimestamp(9, UTC), 70)
    attaching = queue.attach(taker, options, taker.begin)
    named, call = leader.said()
    assert (named.kind, call.subject, call_of(call)[0]) == (Kind.QUEUE, named.subject, "consume")
    assert call_of(call)[1] == {
        "consumer": subject_of(call),
        "tag": "taker",
        "no_ack": False,
        "exclusive": True,
        "priority": -2,
        "prefetch": 5,
        "group": ["g", None, 10],
        "place": ["time", 9.0],
        "filter": None,
        "channel": None,
        "places": [],
        "comes_back": False,
        "lapsed": 0,
    }
    leader.delivers(subject_of(call), 0, records("m0"))
    assert (taker.source, taker.deliveries) == (None, [])
    leader.answers(call, None)
    assert (taker.source.group, taker.bodies()) == ("g", ["m0"])
    assert await attaching is None


async def test_the_leader_is_told_of_the_prefetch_count_of_a_channel_and_of_changes(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker, shared = leader.queue(), RemoteTaker(), ChannelPrefetch(7, 0)
    call = attached(leader, queue, taker, shared=shared)
    assert call_of(call)[1]["channel"] is None
    for prefetch in (3, 0):
        shared.count = prefetch
        taker.has_credit()
        taker.has_credit()
        (told,) = leader.said()
        assert (told.subject, told.number) == (call.subject, 0)
        assert call_of(told) == ["qos", subject_of(call), 7, prefetch]
    shared.count = 2
    leader.session.lost("")
    leader.open()
    assert call_of(leader.said()[-1])[1]["channel"] == [7, 2]
    queue.detach([taker])
    shared.count = 1
    taker.has_credit()
    assert [call_of(each)[0] for each in leader.said() if each.kind is Kind.CALL] == ["detach"]


async def test_an_attachment_that_is_refused_leaves_nothing(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attaching = queue.attach(taker, ConsumeOptions(), taker.begin)
    call = leader.said()[-1]
    leader.answers(call, ConsumptionRefused("q", "/"))
    with pytest.raises(ConsumptionRefused):
        await attaching
    queue.detach([taker])
    assert leader.said() == []
    with pytest.raises(InvalidStreamOffset):
        queue.attach(taker, ConsumeOptions(place=[1]), taker.begin)
    with pytest.raises(BadSessionMessage):
        leader.delivers(subject_of(call), 0, records("m0"))


async def test_deliveries_wait_in_order_until_there_is_credit_and_are_split(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker(3)
    subject = subject_of(attached(leader, queue, taker))
    leader.delivers(subject, 10, records(*numbered(0, 2)))
    leader.delivers(subject, 12, records(*numbered(2, 8)))
    assert taker.bodies() == ["m0", "m1", "m2"]
    assert (taker.deliveries[1].offset, taker.deliveries[1].count) == (12, 1)
    assert taker.source.ready == 5
    first, second = taker.take()
    settle(first)
    taker.unacked -= 2
    taker.has_credit()
    taker.has_credit()
    assert taker.deliveries == []  # not before the end of the turn
    said = leader.said()
    assert taker.bodies() == ["m3", "m4"]
    assert taker.deliveries[0].partition is second.partition
    assert ranges(said) == [(Kind.SETTLE, subject, 10, 12)]
    assert {each.partition_index for each in taker.deliveries} == {None}


async def test_credit_is_told_at_half_of_the_window_of_what_was_handed_on(
    leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = records(*numbered(0, 10))
    size = batch.batch_bytes
    monkeypatch.setattr(remote_consumer, "CREDIT_BYTES", 2 * size)
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    subject = subject_of(attached(leader, queue, taker))
    taker.is_stalled = True
    for at in range(3):
        leader.delivers(subject, 10 * at, batch)
    assert leader.said() == []
    taker.is_stalled = False
    taker.source.on_ready()
    (credit,) = leader.said()
    assert (credit.kind, credit.number, credit.first) == (Kind.CREDIT, 2 * size, 20)
    assert credit.subject == subject
    leader.delivers(subject, 30, batch)
    (credit,) = leader.said()
    assert (credit.number, credit.first) == (4 * size, 40)


async def test_partitions_and_counts_come_with_deliveries(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(7, 9, queue_type="quorum"), RemoteTaker()
    subject = subject_of(attached(leader, queue, taker))
    leader.delivers(subject, 5, records("a", "b"), 1, (3, 4))
    (delivery,) = taker.take()
    assert (delivery.redelivered, delivery.partition_index) == (True, 1)
    assert (delivery.partition.number, queue.partition_index(delivery.partition)) == (9, 1)
    assert taker.counts == [3, 4]
    assert list(queue.sources()) == [delivery.partition]
    with pytest.raises(BadSessionMessage, match="partition 2"):
        leader.delivers(subject, 5, records("a"), 2)


@pytest.mark.parametrize("content", [b"", b"\0" * 3, b"\0" * 80])
async def test_a_delivery_that_is_none_is_refused(leader: ScriptedLeader, content: bytes) -> None:
    leader.open()
    subject = subject_of(attached(leader, leader.queue(), RemoteTaker()))
    for flags in range(4):
        with pytest.raises(BadSessionMessage):
            leader.session.received(
                SessionMessage(Kind.DELIVER, flags, 0, subject, count=1, content=content)
            )


async def test_who_is_detached_gives_back_what_waits_and_what_comes_yet(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker, other = leader.queue(), RemoteTaker(2), RemoteTaker(no_ack=True)
    subject = subject_of(attached(leader, queue, taker))
    other_subject = subject_of(attached(leader, queue, other))
    leader.delivers(subject, 0, records(*numbered(0, 5)))
    other.is_stalled = True
    leader.delivers(other_subject, 9, records("z"))
    queue.detach([taker, other, RemoteTaker()])
    call, *returns = leader.said()
    assert call_of(call) == ["detach", [subject, other_subject]]
    assert ranges(returns) == [(Kind.RETURN, subject, 2, 5)]
    assert returns[0].flags == ReturnReason.UNUSED.value
    leader.delivers(subject, 5, records(*numbered(5, 7)))
    leader.delivers(other_subject, 10, records("z"))
    assert ranges(leader.said()) == [(Kind.RETURN, subject, 5, 7)]
    (held,) = taker.take()
    give_back(held)
    assert ranges(leader.said()) == [(Kind.RETURN, subject, 0, 2)]
    leader.answers(call, None)
    queue.detach([taker])
    assert leader.said() == []
    with pytest.raises(BadSessionMessage):
        leader.delivers(subject, 5, records("a"))


@pytest.mark.parametrize("end", ["answered", "refused", "lost"])
async def test_who_is_detached_has_left_when_the_leader_says_so(
    leader: ScriptedLeader, end: str
) -> None:
    leader.open()
    queue, taker = leader.queue(single_active_consumer=True), RemoteTaker()
    subject = subject_of(attached(leader, queue, taker))
    leader.delivers(subject, 0, records("m0"))
    left = queue.detach([taker])
    assert left is not None
    call = leader.said()[-1]
    assert not left.done()
    if end == "lost":
        leader.session.lost("cut")
    else:
        late = NotReplicated("too few nodes have stored that its queue went with it")
        leader.answers(call, None if end == "answered" else late)
        assert [each.flags & MORE for each in leader.said()] == [0]
    assert await left is None
    assert queue.detach([taker]) is None


async def test_without_a_session_who_is_detached_has_left(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attached(leader, queue, taker)
    leader.session.lost("cut")
    assert queue.detach([taker]) is None


async def test_who_follows_gets_nothing_before_all_is_back_that_was_on_the_way(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(single_active_consumer=True), RemoteTaker()
    subject = subject_of(attached(leader, queue, taker))
    leader.delivers(subject, 0, records(*numbered(0, 2)))
    queue.detach([taker])
    taker.take()[0].partition.give_back(0, 2, ReturnReason.FAILED)
    paused, call, *nothing = leader.said()
    assert (paused.flags & MORE, paused.count, call_of(call)[0]) == (MORE, 0, "detach")
    assert nothing == []
    leader.delivers(subject, 2, records(*numbered(2, 5)))
    (first,) = leader.said()
    assert (first.flags & MORE, first.first, first.count) == (MORE, 0, 2)
    leader.answers(call, None)
    (last,) = leader.said()
    assert (last.flags & MORE, last.first, last.count) == (0, 2, 3)


async def test_who_is_cancelled_is_delivered_what_is_due_before_that_is_answered(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker, no_ack = leader.queue(), RemoteTaker(2), RemoteTaker(no_ack=True)
    subject = subject_of(attached(leader, queue, taker))
    cancelled = queue.cancel(taker)
    assert cancelled is not None
    (call,) = leader.said()
    assert call_of(call) == ["cancel", subject]
    leader.delivers(subject, 0, records(*numbered(0, 3)))
    leader.answers(call, None)
    assert await cancelled is None
    assert taker.bodies() == ["m0", "m1"]
    assert ranges(leader.said()) == [(Kind.RETURN, subject, 2, 3)]
    settle(taker.take()[0])
    assert ranges(leader.said()) == [(Kind.SETTLE, subject, 0, 2)]
    assert queue.cancel(taker) is None

    subject = subject_of(attached(leader, queue, no_ack))
    no_ack.is_stalled = True
    leader.delivers(subject, 0, records(*numbered(0, 3)))
    cancelled = queue.cancel(no_ack)
    assert cancelled is not None
    no_ack.is_stalled = False
    leader.answers(leader.said()[0], None)
    assert no_ack.bodies() == ["m0", "m1", "m2"]
    assert leader.said() == []


async def test_who_is_cancelled_is_not_told_that_its_queue_goes_with_it(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    for deleted_here in (True, False):
        queue, taker = leader.queue(), RemoteTaker()
        subject = subject_of(attached(leader, queue, taker))
        cancelled = queue.cancel(taker)
        assert cancelled is not None
        (call,) = leader.said()
        if deleted_here:
            queue.delete()  # the definition is gone, before the answer comes
        else:
            leader.says(Kind.ENDED, DELETED, subject=subject)
        leader.answers(call, None)
        assert await cancelled is None
        assert taker.deleted == 0


async def test_a_cancellation_ends_with_its_session(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attached(leader, queue, taker)
    cancelled = queue.cancel(taker)
    assert cancelled is not None
    leader.session.lost("cut")
    assert await cancelled is None
    leader.open()
    assert leader.said() == []


async def test_a_deleted_or_damaged_queue_ends_its_consumers(leader: ScriptedLeader) -> None:
    leader.open()
    queue, takers = leader.queue(), [RemoteTaker() for _ in range(3)]
    subjects = [subject_of(attached(leader, queue, taker)) for taker in takers]
    leader.says(Kind.ENDED, DELETED, subject=subjects[0])
    leader.says(Kind.ENDED, encode_error(QueueQuarantined("q", "/", 5)), subject=subjects[1])
    assert (takers[0].deleted, len(takers[1].stopped)) == (1, 1)
    assert isinstance(takers[1].stopped[0], QueueQuarantined)
    queue.delete()
    leader.says(Kind.ENDED, DELETED, subject=subjects[2])
    assert [taker.deleted for taker in takers] == [1, 0, 1]
    with pytest.raises(QueueNotFound):
        queue.attach(takers[0], ConsumeOptions(), takers[0].begin)


@pytest.mark.parametrize("end", ["deleted", "damaged", "lost"])
async def test_without_acks_what_came_is_handed_on_when_the_consumer_ends(
    leader: ScriptedLeader, end: str
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker(no_ack=True)
    subject = subject_of(attached(leader, queue, taker, cancel_on_failover=True))
    taker.is_stalled = True
    leader.delivers(subject, 0, records(*numbered(0, 3)))
    assert taker.bodies() == []
    taker.is_stalled = False
    if end == "deleted":
        queue.delete()
    elif end == "damaged":
        damage = encode_error(QueueQuarantined("q", "/", 5))
        leader.says(Kind.ENDED, damage, subject=subject)
    else:
        leader.session.lost("cut")
    assert taker.bodies() == numbered(0, 3)  # the leader has settled it
    assert taker.deleted + len(taker.stopped) == 1


async def test_a_queue_that_is_deleted_refuses_who_is_attaching(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attaching = queue.attach(taker, ConsumeOptions(), taker.begin)
    queue.delete()
    with pytest.raises(QueueNotFound):
        await attaching
    leader.answers(leader.said()[-1], QueueNotFound("q", "/"))
    assert taker.source is None


async def test_consumers_are_attached_again_and_what_they_had_means_nothing(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker, ending = leader.queue(), RemoteTaker(2), RemoteTaker()
    subject = subject_of(attached(leader, queue, taker))
    attached(leader, queue, ending, cancel_on_failover=True)
    leader.delivers(subject, 0, records(*numbered(0, 3)))
    source, (held,) = taker.source, taker.take()
    leader.session.lost("cut")
    assert (taker.deleted, ending.deleted) == (0, 1)
    leader.open()
    named, call = leader.said()
    assert (named.kind, call_of(call)[0]) == (Kind.QUEUE, "consume")
    leader.answers(call, None)
    assert taker.source is source
    leader.delivers(subject_of(call), 0, records(*numbered(0, 3)), redelivered=True)
    assert taker.deliveries == []  # it holds two still
    settle(held)
    taker.unacked -= 2
    taker.has_credit()
    assert leader.said() == []
    assert (taker.bodies(), taker.deliveries[0].redelivered) == (["m0", "m1"], True)


async def test_who_was_settled_when_it_was_sent_gets_it_in_spite_of_a_lost_session(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker(no_ack=True)
    subject = subject_of(attached(leader, queue, taker))
    taker.is_stalled = True
    leader.delivers(subject, 0, records(*numbered(0, 2)))
    leader.session.lost("cut")
    leader.open()
    call = leader.said()[-1]
    leader.answers(call, None)
    leader.delivers(subject_of(call), 2, records(*numbered(2, 4)))
    taker.is_stalled = False
    taker.has_credit()
    assert leader.said() == []
    assert taker.bodies() == numbered(0, 4)


async def test_who_cannot_be_attached_again_is_told_that_its_queue_is_gone(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attached(leader, queue, taker)
    leader.session.lost("cut")
    leader.link.give_up("no leader")
    assert taker.deleted == 0
    leader.open()
    leader.answers(leader.said()[-1], QueueNotFound("q", "/"))
    assert taker.deleted == 1


async def test_who_was_not_attached_is_not_without_asking_again_whether_it_may(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    attaching = queue.attach(taker, ConsumeOptions(), taker.begin)
    leader.session.lost("cut")
    with pytest.raises(SessionLost):
        await attaching
    with pytest.raises(SessionLost):
        queue.attach(taker, ConsumeOptions(), taker.begin)
    leader.open()
    assert not leader.said()


@pytest.mark.parametrize("end", ["answered", "refused", "no leader", "leads itself"])
async def test_what_came_before_the_answer_was_lost_waits_for_that_of_the_next_leader(
    leader: ScriptedLeader, end: str
) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker(no_ack=True)
    attaching = queue.attach(taker, ConsumeOptions(), taker.begin)
    for first in (0, 2):
        call = leader.said()[-1]
        assert call_of(call)[1]["comes_back"] is False
        leader.delivers(subject_of(call), first, records(*numbered(first, first + 2)))
        leader.session.lost("cut")
        if (first, end) != (2, "leads itself"):
            leader.open()
    assert not attaching.done()
    if end == "answered":
        leader.answers(leader.said()[-1], None)
        assert taker.bodies() == numbered(0, 4)
        return await attaching
    error: type[Exception] = SessionLost
    if end == "refused":
        error = ConsumptionRefused
        leader.answers(leader.said()[-1], ConsumptionRefused("q", "/"))
    elif end == "leads itself":
        queue.hand_over(cast(Any, None))
    else:
        leader.session.lost("cut")
        leader.link.give_up("no leader")
    with pytest.raises(error):
        await attaching
    assert taker.source is None


async def test_a_reader_goes_on_where_it_was(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(7, 8, queue_type="stream"), RemoteTaker(100)
    subject = subject_of(attached(leader, queue, taker, [40, 30], place="next"))
    leader.delivers(subject, 30, records(*numbered(30, 35)), 1)
    for _ in range(2):
        leader.session.lost("cut")
        leader.open()
        call = leader.said()[-1]
        said = call_of(call)[1]
        assert (said["place"], said["places"]) == ("next", [40, 35])
        leader.answers(call, [40, 35])


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("led", ["here", "elsewhere"])
async def test_a_reader_of_partitions_gets_each_message_once(
    node: Node, led: str, no_ack: bool
) -> None:
    front, taker = PipedFront(node), RemoteTaker(100, no_ack=no_ack)
    place = Place(node, front)
    handle = await place.queue(queue_type="stream", partitions=3, durability="memory")
    await place.attach(handle, taker, place="first")
    queue = node.vhost.queues["q"]

    async def published(*counts: int) -> None:
        for partition, count in zip(queue.partitions, counts, strict=True):
            for _ in range(count):
                partition.log.append(records("m"), True)
        queue.on_ready()
        await place.rest()

    await published(1, 5, 9)
    assert len(taker.bodies()) == 15
    taker.is_stalled = True
    await published(1, 1, 1)  # it waits at the front
    front.cut()
    if led == "here":
        handle.hand_over(queue)
    else:
        front.open()
    await place.rest()
    taker.is_stalled = False
    taker.has_credit()
    await published(1, 1, 1)
    assert len(taker.bodies()) == 21
    queue.detach([taker])
    front.cut()


@pytest.mark.parametrize("places", [None, [1], [1, 2, 3], ["a", 1], 5])
async def test_places_of_a_reader_that_are_none_are_refused(
    leader: ScriptedLeader, places: object
) -> None:
    leader.open()
    queue, taker = leader.queue(7, 8, queue_type="stream"), RemoteTaker(100)
    queue.attach(taker, ConsumeOptions(place="next"), taker.begin)
    with pytest.raises(BadSessionMessage, match="places of a reader"):
        leader.answers(leader.said()[-1], places)


async def test_a_queue_of_this_node_takes_the_consumers_over(leader: ScriptedLeader) -> None:
    class Local:
        def __init__(self) -> None:
            self.attached: list[tuple[Any, ConsumeOptions]] = []
            self.error: Exception | None = None

        def attach(self, consumer: Any, options: ConsumeOptions, begin: Any) -> None:
            if self.error is not None:
                raise self.error
            self.attached.append((consumer, options))
            begin(self)

    leader.open()
    queue, local = leader.queue(), Local()
    taker, refused = RemoteTaker(), RemoteTaker()
    attached(leader, queue, taker)
    leader.session.lost("it leads itself")
    queue.hand_over(local)
    assert [each for each, _ in local.attached] == [taker]
    assert [taker.queue, taker.source] == [local] * 2
    leaving, left, waiting = RemoteTaker(), RemoteTaker(), RemoteTaker(no_ack=True)
    leader.open()
    attached(leader, queue, leaving)
    attached(leader, queue, left)
    subject = subject_of(attached(leader, queue, waiting))
    waiting.is_stalled = True
    leader.delivers(subject, 0, records("m0"))
    cancelled = queue.cancel(leaving)
    leader.session.lost("it leads itself")
    assert queue.cancel(left) is None
    waiting.is_stalled = False
    local.attached.clear()
    queue.hand_over(local)
    assert [each for each, _ in local.attached] == [waiting]
    assert (waiting.bodies(), await value_of(cancelled)) == (["m0"], None)
    leader.open()
    attached(leader, queue, refused)
    leader.session.lost("it leads itself")
    local.error = ConsumptionRefused("q", "/")
    queue.hand_over(local)
    assert refused.deleted == 1
