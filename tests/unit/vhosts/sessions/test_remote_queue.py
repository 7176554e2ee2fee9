"""A queue that another node leads: what it goes by, its messages one by one, and its counts."""

import asyncio
from array import array
from typing import Any

import pytest
from support.queue_samples import bodies, give_back, records, settle
from unit.vhosts.sessions.session_pipe import RemoteTaker, ScriptedLeader, call_of

from routelog.exchanges import QueueNotFound
from routelog.log_backend import NOTHING, Durability, Records
from routelog.vhosts import ConsumeOptions, QueueProperties
from routelog.vhosts.errors import GetRefused, OutcomePending, SessionLost
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.sessions.session_message import (
    BadSessionMessage,
    Kind,
    SessionMessage,
    batch_pieces,
)


@pytest.fixture
def leader() -> ScriptedLeader:
    return ScriptedLeader()


def batch_of(batch: Records) -> bytes:
    """A batch as it is sent."""
    return b"".join(batch_pieces(SessionMessage(Kind.PUBLISH), batch)[2:])


def got(**values: Any) -> dict[str, Any]:
    usual = {"ready": 3, "partition": 0, "offset": 5, "redelivered": False, "count": 0}
    return {**usual, "batch": batch_of(records("m5")), **values}


@pytest.mark.parametrize(
    ("arguments", "refuses"),
    [
        ({}, False),
        ({"max_length": 5}, False),
        ({"max_length": 5, "overflow": "reject-publish"}, True),
        ({"max_length_bytes": 5, "overflow": "reject-publish-dlx"}, True),
        ({"overflow": "reject-publish"}, False),
        ({"message_deduplication": True}, True),
        ({"max_length": 5, "overflow": "reject-publish", "queue_type": "stream"}, False),
    ],
)
def test_a_queue_may_refuse_by_its_arguments(
    leader: ScriptedLeader, arguments: dict[str, object], refuses: bool
) -> None:
    assert leader.queue(**arguments).may_refuse is refuses


@pytest.mark.parametrize(
    ("arguments", "durability", "counts"),
    [
        ({}, Durability.DISK, False),
        ({"durability": "memory"}, Durability.MEMORY, False),
        ({"queue_type": "quorum"}, Durability.DISK, True),
        ({"delivery_limit": 3}, Durability.DISK, True),
        ({"delivery_limit": -1}, Durability.DISK, False),
    ],
)
def test_what_is_promised_and_counted_follows_from_the_arguments(
    leader: ScriptedLeader, arguments: dict[str, object], durability: Durability, counts: bool
) -> None:
    queue = leader.queue(**arguments)
    assert (queue.durability, queue.counts_deliveries) == (durability, counts)


def test_other_arguments_are_in_force_at_once(leader: ScriptedLeader) -> None:
    queue = leader.queue()
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    queue.change(QueueProperties("q", arguments=arguments), None, None)
    assert (queue.may_refuse, queue.effective.values) == (True, arguments)
    assert str(queue) == "queue 'q' in vhost '/'"


def test_a_run_waits_for_what_its_queues_promise(leader: ScriptedLeader) -> None:
    session = leader.open()
    queue, faster = leader.queue(), leader.queue(8, durability="memory")
    appending = Appending(leader.turns.scheduler)
    appending.begin(True)
    receipt = appending.append_run(records("a"), (queue,), range(1))
    later = appending.append_run(records("b"), (faster, queue, faster), range(1))
    assert receipt is not NOTHING
    assert [receipt.is_covered(), later.is_covered()] == [False, False]
    leader.says(Kind.CONFIRM, number=4, first=1)
    assert [receipt.is_covered(), later.is_covered()] == [True, False]
    leader.says(Kind.CONFIRM, number=4, first=3)
    assert later.is_covered()
    assert receipt.progress is session.progress
    assert (queue.counters.publish, appending.routed) == (2, 4)


async def test_what_queues_refuse_is_learned_when_all_have_said_it(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue(max_length=1, overflow="reject-publish")
    plain, other = leader.queue(8), leader.queue(9, message_deduplication=True)
    appending = Appending(leader.turns.scheduler)
    appending.begin(True)
    batches = [(records("a", "b"), (queue, plain), [0, 2]), (records("c"), (other,), [1])]
    receipt = appending.append(batches, True)
    assert (receipt.durable, appending.learn_outcomes()) == (3, False)
    leader.says(Kind.REFUSED, array("I", [1]).tobytes(), number=1, count=1)
    assert not appending.learn_outcomes()
    leader.says(Kind.REFUSED, number=3)
    assert appending.learn_outcomes()
    assert appending.refused == {2: queue}


def test_a_deleted_queue_takes_nothing(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue(max_length=1, overflow="reject-publish")
    queue.delete()
    assert queue.publish(records("a"), True) == 0
    assert leader.said() == []
    with pytest.raises(QueueNotFound):
        queue.get()


async def test_a_message_is_got_and_settled_or_given_back(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue(7, 8, queue_type="quorum")
    first = queue.get()
    named, call = leader.said()
    assert call_of(call) == ["get", False]
    leader.answers(call, got(partition=1, redelivered=True, count=2))
    delivery = await first
    assert delivery is not None
    assert (bodies(delivery), delivery.offset, delivery.redelivered) == (["m5"], 5, True)
    assert (queue.ready, delivery.partition_index) == (3, 1)
    assert delivery.partition.delivery_count(5) == 2
    settle(delivery)
    (settled,) = leader.said()
    assert (settled.kind, settled.subject, settled.partition) == (Kind.SETTLE, named.subject, 1)
    second = queue.get(while_paused=True)
    (call,) = leader.said()
    leader.answers(call, got(partition=1, offset=6))
    again = await second
    assert again is not None
    assert again.partition is delivery.partition
    give_back(again)
    (returned,) = leader.said()
    assert (returned.kind, returned.first, returned.count) == (Kind.RETURN, 6, 1)


async def test_there_may_be_nothing_to_get_or_an_error(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue()
    nothing, refused = queue.get(), queue.get()
    calls = leader.said()[1:]
    leader.answers(calls[0], None)
    leader.answers(calls[1], GetRefused("q", "/"))
    assert await nothing is None
    with pytest.raises(GetRefused):
        await refused


async def test_what_was_got_for_nobody_goes_back(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue()
    gone = queue.get()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    leader.answers(leader.said()[-1], got())
    (returned,) = leader.said()
    assert (returned.kind, returned.first, returned.count) == (Kind.RETURN, 5, 1)


@pytest.mark.parametrize(
    "value",
    [
        5,
        {},
        got(partition=1),
        got(batch=b"x"),
        got(batch="x"),
        got(batch=batch_of(records("a", "b"))),
    ],
)
async def test_an_answer_that_is_no_message_is_refused(
    leader: ScriptedLeader, value: object
) -> None:
    leader.open()
    leader.queue().get()
    call = leader.said()[-1]
    with pytest.raises(BadSessionMessage):
        leader.answers(call, value)


async def test_messages_of_a_lost_session_are_not_settled_in_the_next_one(
    leader: ScriptedLeader,
) -> None:
    leader.open()
    queue = leader.queue()
    getting = queue.get()
    leader.answers(leader.said()[-1], got())
    lost, waiting = await getting, queue.get()
    leader.session.lost("cut")
    with pytest.raises(SessionLost):
        await waiting
    leader.open()
    again = queue.get()
    leader.answers(leader.said()[-1], got())
    delivery = await again
    assert lost is not None
    assert delivery is not None
    settle(lost)
    assert leader.said() == []
    settle(delivery)
    assert [each.kind for each in leader.said()] == [Kind.SETTLE]


async def test_it_is_purged_and_counted(leader: ScriptedLeader) -> None:
    leader.open()
    queue = leader.queue()
    purged, counted = queue.purge(), queue.counts()
    wrong: list[asyncio.Future[Any]] = [queue.counts(), queue.purge()]
    calls = leader.said()[1:]
    methods = ["purge", "counts", "counts", "purge"]
    assert [call_of(each) for each in calls] == [[method] for method in methods]
    leader.answers(calls[0], 8)
    leader.answers(calls[1], [1, 2])
    assert [await purged, await counted] == [8, (1, 2)]
    for call in calls[2:]:
        with pytest.raises(BadSessionMessage):
            leader.answers(call, "no counts")
    assert not any(each.done() for each in wrong)


async def test_a_consumer_stands_aside(leader: ScriptedLeader) -> None:
    leader.open()
    queue, taker = leader.queue(), RemoteTaker()
    queue.stand_aside(taker)
    queue.has_credit(taker)
    queue.attach(taker, ConsumeOptions(), taker.begin)
    call = leader.said()[-1]
    leader.answers(call, None)
    queue.stand_aside(taker)
    queue.on_ready()
    queue.has_credit(taker)
    (told,) = leader.said()
    assert (told.number, call_of(told)) == (0, ["stand_aside", call_of(call)[1]["consumer"]])
    assert (queue.activity(taker), queue.takes(1, 1), queue.partition_count) == ("up", True, 1)
    queue.transaction_ended(failed=False)


def test_a_refusing_queue_says_so_only_when_it_was_asked(leader: ScriptedLeader) -> None:
    assert issubclass(OutcomePending, Exception)
    assert leader.queue().publish(records("a"), False) == 1
