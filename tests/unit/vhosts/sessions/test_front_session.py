"""The front's end of a session: what it sends, and what it makes of what the leader says."""

import asyncio
from array import array
from typing import Any

import msgspec
import pytest
from support.queue_samples import records
from unit.vhosts.sessions.session_pipe import ScriptedLeader, call_of

from routelog.exchanges import QueueNotFound, held_name
from routelog.vhosts.errors import OutcomePending, SessionLost, Untaken
from routelog.vhosts.sessions import front_session
from routelog.vhosts.sessions.remote_exchange import RemoteExchanges
from routelog.vhosts.sessions.session_message import (
    ASKED,
    OUTBOX_BYTES_MAX,
    WAITED,
    BadSessionMessage,
    Kind,
    SessionMessage,
    records_of,
    reply_of,
    reply_pieces,
)


@pytest.fixture
def leader() -> ScriptedLeader:
    return ScriptedLeader()


class Waiter:
    def __init__(self) -> None:
        self.told: list[str] = []

    def journal_reached(self) -> None:
        self.told.append("reached")

    def journal_late(self) -> None:
        self.told.append("late")

    def journal_failed(self) -> None:
        self.told.append("failed")


def test_a_queue_is_named_before_its_first_batch_and_batches_are_numbered(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue, other = leader.queue(), leader.queue(9)
    assert [queue.publish(records("a"), True), other.publish(records("b", "c"), False)] == [1, 2]
    assert queue.publish(records("d"), False) == 3
    said = leader.said()
    kinds = [Kind.QUEUE, Kind.PUBLISH, Kind.QUEUE, Kind.PUBLISH, Kind.PUBLISH]
    assert [each.kind for each in said] == kinds
    assert [(each.subject, each.number) for each in said] == [
        (1, 7),
        (1, 1),
        (2, 9),
        (2, 2),
        (1, 3),
    ]
    assert msgspec.msgpack.decode(said[0].content) == ["/", "q"]
    assert [said[1].flags, said[3].flags] == [WAITED, 0]
    assert records_of(said[3].content).body(1) == b"c"


def test_confirms_reach_those_who_wait_for_what_is_written_or_durable(
    leader: ScriptedLeader,
) -> None:
    session, queue = leader.open(), leader.queue()
    for _ in range(3):
        queue.publish(records("a"), True)
    progress, waiter, durable = session.progress, Waiter(), Waiter()
    progress.wait(waiter, progress.receipt(2, 0))
    progress.wait(durable, progress.receipt(0, 2))
    leader.says(Kind.CONFIRM, number=2, first=1)
    assert (waiter.told, durable.told) == (["reached"], [])
    leader.says(Kind.CONFIRM, number=3, first=2)
    assert durable.told == ["reached"]


@pytest.mark.parametrize(("written", "durable"), [(1, 2), (4, 1), (1, 1)])
def test_a_confirm_of_what_was_not_sent_or_was_confirmed_is_refused(
    leader: ScriptedLeader, written: int, durable: int
) -> None:
    leader.open()
    for _ in range(3):
        leader.queue().publish(records("a"), True)
    leader.says(Kind.CONFIRM, number=2, first=2)
    with pytest.raises(BadSessionMessage, match="CONFIRM"):
        leader.says(Kind.CONFIRM, number=written, first=durable)


def test_the_window_is_full_and_free_again_at_half(
    leader: ScriptedLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = records("x" * 1_000)
    monkeypatch.setattr(front_session, "WINDOW_BYTES", 4 * batch.batch_bytes)
    session, queue, told = leader.open(), leader.queue(), list[bool]()
    session.on_window = told.append
    for _ in range(5):
        queue.publish(batch, True)
    assert told == [True]
    assert session.unconfirmed_bytes == 5 * batch.batch_bytes
    leader.says(Kind.CONFIRM, number=2, first=0)
    assert told == [True]
    leader.says(Kind.CONFIRM, number=4, first=0)
    assert told == [True, False]


async def test_refusals_are_known_before_the_confirm_that_covers_them(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue = leader.queue(max_length=1, overflow="reject-publish")
    pending: list[Any] = []
    for _ in range(3):
        with pytest.raises(OutcomePending) as raised:
            queue.publish(records("a", "b"), True)
        pending.append(raised.value.untaken)
        assert raised.value.position == len(pending)
    leader.says(Kind.REFUSED, number=1)
    leader.says(Kind.REFUSED, b"\1\0\0\0", number=2, count=1)
    assert [each.done() for each in pending] == [True, True, False]
    leader.says(Kind.CONFIRM, number=2, first=0)
    with pytest.raises(BadSessionMessage, match="CONFIRM 3"):
        leader.says(Kind.CONFIRM, number=3, first=0)
    assert [list(each.result().refused) for each in pending[:2]] == [[], [1]]
    leader.session.lost("cut")
    assert pending[2].result() == Untaken()


async def test_refusals_are_asked_for_by_who_knows_of_the_limit(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    limited = leader.queue(8, max_length=1, overflow="reject-publish")
    leader.queue().publish(records("a"), True)
    for waited in (True, False):
        with pytest.raises(OutcomePending):
            limited.publish(records("a"), waited)
    flags = [each.flags for each in leader.said() if each.kind is Kind.PUBLISH]
    assert flags == [WAITED, WAITED | ASKED, ASKED]


async def test_an_exchange_says_of_each_batch_what_it_does_not_take(leader: ScriptedLeader) -> None:
    leader.open()
    exchange = RemoteExchanges("/", leader.link).recipient(held_name("x"))
    assert exchange is not None
    pending: list[Any] = []
    for _ in range(2):
        with pytest.raises(OutcomePending) as raised:
            exchange.publish(records("a", "b", "c"), True)
        pending.append(raised.value.untaken)
    named, *batches = leader.said()
    assert (named.kind, named.number) == (Kind.QUEUE, 0)
    assert msgspec.msgpack.decode(named.content) == ["/", held_name("x")]
    assert [(each.subject, each.number) for each in batches] == [(named.subject, n) for n in (1, 2)]
    indexes = array("I", [2, 0]).tobytes()
    leader.says(Kind.ROUTED, indexes, number=1, first=1, count=1)
    leader.says(Kind.ROUTED, number=2)
    untaken = [pending[0].result(), pending[1].result()]
    assert [(list(each.refused), list(each.returned)) for each in untaken] == [([2], [0]), ([], [])]


async def test_a_reply_is_lost_when_the_leader_does_not_read(leader: ScriptedLeader) -> None:
    session = leader.link.session
    session.send_reply(b"address", records("before it is open"))
    leader.open()
    session.send_reply(b"address", records("a"))
    session.outbox_bytes = lambda: OUTBOX_BYTES_MAX + 1
    session.send_reply(b"address", records("b"))
    (reply,) = leader.said()
    address, batch = reply_of(reply)
    assert (reply.kind, address, batch.body(0)) == (Kind.REPLY, b"address", b"a")
    taken: list[tuple[bytes, bytes]] = []
    session.on_reply = lambda address, batch: taken.append((address, batch.body(0)))
    leader.to_front.write(reply_pieces(b"mine", records("c")))
    leader.to_front.carry()
    assert taken == [(b"mine", b"c")]


@pytest.mark.parametrize(
    "message",
    [
        SessionMessage(Kind.REFUSED, number=1, count=1, content=b"\0\0\0\0"),
        SessionMessage(Kind.REFUSED, number=3, count=1, content=b"\0\0\0\0"),
        SessionMessage(Kind.REFUSED, number=2, count=2, content=b"\0\0\0\0"),
        SessionMessage(Kind.REFUSED, number=2, count=1, content=b"\5\0\0\0"),
        SessionMessage(Kind.REFUSED, number=2, count=1, content=b"\0\0\0"),
        SessionMessage(Kind.REFUSED, number=2, content=b"\0\0\0\0"),
        SessionMessage(Kind.CONFIRM, number=2),
        SessionMessage(Kind.ROUTED, number=1),
        SessionMessage(Kind.ROUTED, number=2, first=1, content=b"\1\0\0\0"),
        SessionMessage(Kind.ROUTED, number=2, count=1),
        SessionMessage(Kind.REPLY, number=7, content=b"address"),
        SessionMessage(Kind.DELIVER, subject=1),
        SessionMessage(Kind.ENDED, subject=5),
        SessionMessage(Kind.ANSWER, number=5),
        SessionMessage(Kind.PRESSURE, content=b"\xc1"),
        SessionMessage(Kind.PRESSURE, content=b"\1"),
        SessionMessage(Kind.PUBLISH),
        SessionMessage(Kind.OPENED),
    ],
)
async def test_what_is_out_of_protocol_is_refused(
    leader: ScriptedLeader, message: SessionMessage
) -> None:
    session = leader.open()
    leader.queue().publish(records("a"), True)
    with pytest.raises(OutcomePending):
        leader.queue(8, message_deduplication=True).publish(records("a"), True)
    with pytest.raises(BadSessionMessage):
        session.received(message)


async def test_calls_are_answered_by_number_with_values_or_the_leaders_errors(
    leader: ScriptedLeader,
) -> None:
    session = leader.open()
    first, second = session.call("one", 1, "x"), session.call("two", subject=4)
    session.tell("three", [5])
    calls = leader.said()
    assert [(each.number, each.subject) for each in calls] == [(1, 0), (2, 4), (0, 0)]
    assert [call_of(each) for each in calls] == [["one", 1, "x"], ["two"], ["three", [5]]]
    leader.answers(calls[1], QueueNotFound("q", "/"))
    leader.answers(calls[0], {"a": 1})
    assert await first == {"a": 1}
    with pytest.raises(QueueNotFound, match=r"no queue 'q' in vhost '/'"):
        await second


async def test_what_is_sent_before_it_opens_goes_first_and_once(leader: ScriptedLeader) -> None:
    queue = leader.queue()
    assert [queue.publish(records("a"), True), queue.publish(records("b"), True)] == [1, 2]
    counted = queue.counts()
    leader.open()
    queue.publish(records("c"), True)
    said = leader.said()
    kinds = [Kind.QUEUE, Kind.PUBLISH, Kind.PUBLISH, Kind.CALL, Kind.PUBLISH]
    assert [each.kind for each in said] == kinds
    leader.answers(said[3], [3, 1])
    assert (await counted) == (3, 1)
    leader.session.lost("cut")
    leader.open()
    assert leader.said() == []


async def test_a_lost_session_fails_what_waits_and_the_next_one_begins_anew(
    leader: ScriptedLeader,
) -> None:
    session, queue, waiter = leader.open(), leader.queue(), Waiter()
    session.leader = "b"
    queue.publish(records("a"), True)
    session.progress.wait(waiter, session.progress.receipt(0, 1))
    purged, called = queue.purge(), session.call("one")
    session.lost("cut")
    session.lost("again")
    assert waiter.told == ["failed"]
    text = "home node 'b' of durable queue 'q' in vhost '/' is down or inaccessible"
    with pytest.raises(SessionLost, match=text):
        await purged
    with pytest.raises(SessionLost, match="home node 'b' of the definitions"):
        await called
    assert session.unconfirmed_bytes == 0
    assert queue.progress is not session.progress
    leader.open()
    assert queue.publish(records("b"), True) == 1
    assert [each.kind for each in leader.said()] == [Kind.QUEUE, Kind.PUBLISH]
    session.received(SessionMessage(Kind.CONFIRM, number=1))  # of the lost one, late


async def test_a_session_that_is_given_up_refuses_what_waits(leader: ScriptedLeader) -> None:
    queue, waiter = leader.queue(), Waiter()
    queue.publish(records("a"), True)
    queue.progress.wait(waiter, queue.progress.receipt(0, 1))
    counted = queue.counts()
    leader.link.give_up("no leader")
    assert waiter.told == ["failed"]
    with pytest.raises(SessionLost):
        await counted
    leader.open()
    assert leader.said() == []
    leader.link.give_up("not while it is open")
    assert leader.session.is_open


def test_definitions_and_pressure_are_told(leader: ScriptedLeader) -> None:
    session = leader.open()
    applied, pressed = list[int](), list[frozenset[str]]()
    session.on_apply, session.on_pressure = applied.append, pressed.append
    leader.says(Kind.APPLY, number=8)
    leader.says(Kind.PRESSURE, msgspec.msgpack.encode(["disk"]))
    leader.says(Kind.PRESSURE, msgspec.msgpack.encode([]))
    leader.says(Kind.BEAT)
    session.applied(8)
    assert applied == [8]
    assert pressed == [frozenset({"disk"}), frozenset()]
    assert leader.said() == [SessionMessage(Kind.APPLIED, number=8)]


async def test_who_does_not_wait_any_more_keeps_nothing_from_others(
    leader: ScriptedLeader,
) -> None:
    session = leader.open()
    gone = session.call("one")
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    leader.answers(leader.said()[0], 1)
