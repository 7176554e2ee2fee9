"""The leader's end of a session: batches, confirms, deliveries, settlements, and its end."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from support.queue_samples import Node, SlowDisk, Taker, bodies, delete_queue, fill, got, numbered
from support.waiting import until
from unit.vhosts.sessions.hand_front import HandFront, consume_call, declared

from routelog.log_backend import JournalFailed, NotReplicated, Reason
from routelog.vhosts import Queue, QueueProperties, ReturnReason
from routelog.vhosts.sessions import hosted_session
from routelog.vhosts.sessions.hosted_session import CALL_BYTES_MAX
from routelog.vhosts.sessions.session_message import (
    OUTBOX_BYTES_MAX,
    BadSessionMessage,
    Kind,
    SessionMessage,
)


def ready(queue: Queue) -> list[str]:
    """The bodies that are ready, in order; they are taken."""
    taken: list[str] = []
    while (delivery := got(queue)) is not None:
        taken += bodies(delivery)
    return taken


def is_paused(queue: Queue) -> bool:
    """It has messages, and hands none of them out."""
    return queue.ready > 0 and queue.partitions[0].take(1, 1) is None


# -- batches


async def test_batches_are_confirmed_by_number(front: HandFront, subject: int) -> None:
    for number in range(1, 4):
        assert front.publish(subject, f"m{number}") == number
    assert front.confirmed == (0, 0)
    await front.confirmed_up_to(3)
    assert front.confirmed == (3, 3)


async def test_a_turn_has_one_confirm(front: HandFront, subject: int) -> None:
    for _ in range(100):
        front.publish(subject, "m", persistent=False)
    await front.confirmed_up_to(100)
    assert front.confirms == 1


async def test_what_is_not_written_is_confirmed_behind_what_is(
    front: HandFront, subject: int
) -> None:
    front.publish(subject, "m", persistent=False)
    front.publish(subject, "m")
    front.publish(subject, "m", persistent=False)
    await front.confirmed_up_to(3)
    assert front.confirmed == (3, 3)


async def test_batches_keep_their_order_in_the_queue(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.publish(subject, *numbered(0, 5))
    front.publish(subject, *numbered(5, 7))
    assert ready(queue) == numbered(0, 7)


async def test_large_batches_are_not_copied(front: HandFront, queue: Queue, subject: int) -> None:
    front.publish(subject, b"x" * 100_000)
    delivery = got(queue)
    assert delivery is not None
    assert isinstance(delivery.records.payload, memoryview)
    assert delivery.records.body(0) == b"x" * 100_000


@pytest.mark.parametrize("number", [0, 2, 1 << 63])
async def test_a_batch_out_of_order_is_refused(
    front: HandFront, queue: Queue, subject: int, number: int
) -> None:
    with pytest.raises(BadSessionMessage, match=r"in the place of 1"):
        front.send(Kind.PUBLISH, subject=subject, number=number)
    assert not queue.ready


async def test_a_damaged_batch_is_refused(front: HandFront, queue: Queue, subject: int) -> None:
    with pytest.raises(BadSessionMessage, match=r"a batch"):
        front.send(Kind.PUBLISH, subject=subject, number=1, content=bytearray(100))
    assert not queue.ready


async def test_a_queue_that_was_not_named_is_refused(front: HandFront, subject: int) -> None:
    with pytest.raises(BadSessionMessage, match=r"no queue 2 was named"):
        front.publish(subject + 1, "m")


async def test_a_deleted_queue_takes_nothing_and_refuses_nothing(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    delete_queue(node.vhost, queue)
    front.publish(subject, "m")
    await front.confirmed_up_to(1)
    assert not front.take(Kind.REFUSED)


async def test_what_a_deleted_queue_gets_is_confirmed_when_its_removal_is_durable(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    removed = delete_queue(node.vhost, queue)
    assert removed is not None
    await removed
    node.vhost._writer = disk = cast(Any, SlowDisk())
    position = node.logs.journal.durable + 1
    disk.receipt = node.logs.progress.receipt(0, position)
    front.publish(subject, "m")
    for _ in range(9):
        front.run()
        await asyncio.sleep(0)
    assert front.confirmed[1] == 0
    node.logs.progress.advance(position, position)
    await front.confirmed_up_to(1)


async def test_a_queue_declared_again_is_another_one(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    delete_queue(node.vhost, queue)
    other = await declared(node)
    front.publish(subject, "old")
    late = front.subject()
    content = msgspec.msgpack.encode(["/", "q"])
    front.send(Kind.QUEUE, subject=late, number=queue.number, content=content)
    front.publish(late, "old")
    front.publish(front.bind(other), "new")
    assert ready(other) == ["new"]


@pytest.mark.parametrize("names", [["/", "nowhere"], ["nowhere", "q"]])
async def test_a_queue_that_is_not_there_takes_nothing(
    front: HandFront, queue: Queue, names: list[str]
) -> None:
    number, content = queue.number, msgspec.msgpack.encode(names)
    front.send(Kind.QUEUE, subject=1, number=number, content=content)
    front.publish(1, "m")
    await front.confirmed_up_to(1)
    assert not queue.ready


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode(["/"]), b"\x92\x01\x02"])
async def test_a_queue_without_names_is_refused(front: HandFront, content: bytes) -> None:
    with pytest.raises(BadSessionMessage, match=r"a value"):
        front.send(Kind.QUEUE, subject=1, number=1, content=content)


async def test_a_subject_has_one_meaning(front: HandFront, queue: Queue, subject: int) -> None:
    consumer = front.consume(subject)
    content = msgspec.msgpack.encode(["/", "q"])
    for taken in (0, subject, consumer):
        with pytest.raises(BadSessionMessage, match=r"is taken"):
            front.send(Kind.QUEUE, subject=taken, number=queue.number, content=content)


async def test_deleted_queues_are_forgotten(node: Node, front: HandFront) -> None:
    subjects = []
    for at in range(2_000):
        properties = QueueProperties(f"t{at}")
        node.vhost.declare_queue(properties, object())
        queue = node.vhost.queues[f"t{at}"]
        subjects.append(front.bind(queue))
        delete_queue(node.vhost, queue)
    assert len(front.session._queues) < 1_100
    for subject in subjects:
        front.publish(subject, "m", persistent=False)
    await front.confirmed_up_to(2_000)


async def test_a_full_queue_says_what_it_refuses(node: Node, front: HandFront) -> None:
    queue = await declared(node, x_max_length=2, x_overflow="reject-publish")
    subject = front.bind(queue)
    front.publish(subject, *numbered(0, 4), asked=True)
    (refused,) = front.take(Kind.REFUSED)
    assert (refused.number, refused.count) == (1, 2)
    assert bytes(refused.content) == b"\2\0\0\0\3\0\0\0"
    await front.confirmed_up_to(1)
    kinds = [message.kind for message in front.told]
    assert kinds == [Kind.CONFIRM]
    front.publish(subject, "m", asked=True)
    (refused,) = front.take(Kind.REFUSED)
    assert (refused.number, refused.count) == (2, 1)
    await front.confirmed_up_to(2)
    assert ready(queue) == numbered(0, 2)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_who_asks_what_is_refused_does_not_wait_until_it_is_stored(
    node: Node, front: HandFront, is_deleted: bool
) -> None:
    queue = await declared(node, x_max_length=2, x_overflow="reject-publish")
    subject = front.bind(queue)
    if is_deleted:
        delete_queue(node.vhost, queue)
    for number in (1, 2):
        front.publish(subject, "m", asked=True)
        (told,) = front.told
        assert (told.kind, told.number, told.count) == (Kind.REFUSED, number, 0)
        front.told.clear()
    await front.confirmed_up_to(2)


async def test_a_full_queue_takes_what_was_sent_before_its_front_knew_of_the_limit(
    node: Node, front: HandFront
) -> None:
    queue = await declared(node, x_max_length=2, x_overflow="reject-publish-dlx")
    subject = front.bind(queue)
    front.publish(subject, *numbered(0, 3))
    front.publish(subject, "m3")
    await front.confirmed_up_to(2)
    assert not front.take(Kind.REFUSED)
    assert ready(queue) == numbered(0, 4)


async def test_a_failed_journal_ends_the_session(
    front: HandFront, queue: Queue, subject: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    front.publish(subject, "m")

    def fail(*_: object) -> int:
        raise JournalFailed(OSError("disk"))

    monkeypatch.setattr(
        front.session._queues[subject], "queue", _Failing(queue.name, fail), raising=False
    )
    front.publish(subject, "m")
    assert front.failures == ["the log cannot be written: disk"]
    front.publish(subject, "m")  # on its way when the session ended
    front.run()
    assert front.confirmed == (0, 0)


class _Failing:
    deleted = False

    def __init__(self, name: str, publish: Any) -> None:
        self.name = name
        self.publish = self.publish_all = publish


async def test_when_the_journal_comes_no_further_the_session_ends(
    node: Node, front: HandFront, subject: int
) -> None:
    front.publish(subject, "m")
    node.logs.journal.progress.fail()
    assert front.failures == ["the log cannot be written"]
    assert front.confirmed == (0, 0)


# -- other messages


@pytest.mark.parametrize(
    "kind",
    [
        Kind.OPENED,
        Kind.CONFIRM,
        Kind.REFUSED,
        Kind.DELIVER,
        Kind.ENDED,
        Kind.ANSWER,
        Kind.APPLY,
        Kind.PRESSURE,
    ],
)
async def test_what_a_leader_says_is_refused(front: HandFront, kind: Kind) -> None:
    with pytest.raises(BadSessionMessage, match=r"to a leader"):
        front.send(kind)


async def test_beats_mean_nothing(front: HandFront) -> None:
    front.send(Kind.BEAT)
    assert not front.told


async def test_definitions_that_are_applied(front: HandFront) -> None:
    applied: list[int] = []
    front.session.on_applied = applied.append
    front.session.ask_applied(17)
    assert front.told == [SessionMessage(Kind.APPLY, number=17)]
    front.send(Kind.APPLIED, number=17)
    assert applied == [17]


async def test_pressure_is_told(front: HandFront) -> None:
    front.session.pressed({"disk", "memory"})
    front.session.pressed(())
    said = [msgspec.msgpack.decode(message.content) for message in front.take(Kind.PRESSURE)]
    assert said == [["disk", "memory"], []]


async def test_nothing_comes_of_messages_behind_the_end(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.close()
    front.publish(subject, "m")
    front.session.pressed(["disk"])
    assert not queue.ready
    assert not front.told


# -- settlements


@pytest.fixture
def consumer(front: HandFront, queue: Queue, subject: int) -> int:
    """Of a queue with m0 to m9, which it has."""
    front.publish(subject, *numbered(0, 10))
    consumer = front.consume(subject)
    assert front.bodies() == numbered(0, 10)
    return consumer


async def test_settled_messages_are_gone(front: HandFront, queue: Queue, consumer: int) -> None:
    front.settle(consumer, 0, 4)
    front.settle(consumer, 5, 6, Reason.REJECTED)
    assert queue.unacked == 5
    assert (queue.counters.ack, queue.counters.rejected) == (4, 1)
    front.settle(consumer, 4, 5)
    front.settle(consumer, 6, 10)
    assert (queue.unacked, queue.ready) == (0, 0)


async def test_returned_messages_come_again(front: HandFront, queue: Queue, consumer: int) -> None:
    front.give_back(consumer, 2, 4)
    (again,) = front.deliveries()
    assert (again.offset, again.bodies, again.redelivered) == (2, ("m2", "m3"), True)
    assert queue.unacked == 10


@pytest.mark.parametrize("kind", [Kind.SETTLE, Kind.RETURN])
@pytest.mark.parametrize(
    ("first", "count", "partition"),
    [(0, 11, 0), (10, 1, 0), (4, (1 << 64) - 1, 0), ((1 << 64) - 1, 2, 0), (0, 1, 1)],
)
async def test_only_what_was_delivered_is_settled(
    front: HandFront,
    queue: Queue,
    consumer: int,
    kind: Kind,
    first: int,
    count: int,
    partition: int,
) -> None:
    place = {"partition": partition, "subject": consumer, "first": first, "count": count}
    with pytest.raises(BadSessionMessage):
        front.send(kind, flags=1, **place)
    assert (queue.unacked, queue.ready) == (10, 0)


async def test_a_settlement_is_of_a_message_at_least(front: HandFront, consumer: int) -> None:
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(consumer, 3, 3)


async def test_nothing_is_settled_twice(front: HandFront, queue: Queue, consumer: int) -> None:
    front.settle(consumer, 3, 5)
    for first, end in ((3, 5), (0, 5), (4, 10), (3, 4)):
        with pytest.raises(BadSessionMessage, match=r"not unsettled"):
            front.settle(consumer, first, end)
    assert queue.unacked == 8


async def test_what_came_back_is_not_settled_by_who_had_it(
    front: HandFront, queue: Queue, consumer: int
) -> None:
    front.consume(1, tag="other")
    front.give_back(consumer, 0, 10)
    others = {each.consumer for each in front.deliveries()}
    assert len(others) == 2
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(consumer, 0, 10)
    assert queue.unacked == 10


@pytest.mark.parametrize("flags", [0, 3, 4, 5, 6, 255])
async def test_unknown_reasons_are_refused(
    front: HandFront, queue: Queue, consumer: int, flags: int
) -> None:
    with pytest.raises(BadSessionMessage, match=r"for reason"):
        front.send(Kind.SETTLE, flags=flags, subject=consumer, count=1)
    if flags not in (3, 4):
        with pytest.raises(BadSessionMessage, match=r"for reason"):
            front.send(Kind.RETURN, flags=flags, subject=consumer, count=1)
    assert queue.unacked == 10


async def test_another_session_settles_nothing(
    node: Node, front: HandFront, queue: Queue, consumer: int
) -> None:
    other = HandFront(node, "other")
    other.bind(queue)
    with pytest.raises(BadSessionMessage, match=r"nothing unsettled"):
        other.settle(consumer, 0, 1)
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        other.settle(1, 0, 1)
    assert queue.unacked == 10


async def test_what_comes_back_in_pieces_keeps_its_order(
    front: HandFront, queue: Queue, consumer: int
) -> None:
    front.give_back(consumer, 5, 8, more=True)
    assert front.bodies() == []
    front.give_back(consumer, 2, 5, more=True)
    assert front.bodies() == []
    front.give_back(consumer, 0, 2)
    assert front.bodies() == numbered(0, 8)


async def test_a_series_of_returns_may_end_with_nothing(
    front: HandFront, queue: Queue, consumer: int
) -> None:
    front.give_back(consumer, 0, 0, more=True)
    front.give_back(consumer, 0, 2, more=True)
    front.call("detach", [consumer], subject=1)
    front.give_back(consumer, 2, 10, more=True)
    assert queue.ready == 10
    assert is_paused(queue)
    front.give_back(consumer, 0, 0)
    assert ready(queue) == numbered(0, 10)


async def test_a_series_without_a_message_may_be_of_whom_the_leader_has_forgotten(
    node: Node, front: HandFront, queue: Queue, consumer: int
) -> None:
    front.settle(consumer, 0, 10)
    deleted = delete_queue(node.vhost, queue)
    assert deleted is not None
    await deleted
    front.run()
    for more in (True, False):
        front.give_back(consumer, 0, 0, more=more)
    with pytest.raises(BadSessionMessage, match=r"nothing unsettled"):
        front.give_back(consumer, 0, 1)
    with pytest.raises(BadSessionMessage, match=r"nothing unsettled"):
        front.give_back(consumer + 1, 0, 0)


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_series_without_a_message_may_be_of_whom_had_none(
    front: HandFront, queue: Queue, subject: int, partition: int
) -> None:
    consumer = front.consume(subject, no_ack=True)
    front.publish(subject, "m")
    for more in (True, False):
        front.give_back(consumer, 0, 0, more=more, partition=partition)
        assert not is_paused(queue)


async def test_a_queue_waits_for_the_series_of_all_sessions(
    node: Node, front: HandFront, queue: Queue, consumer: int
) -> None:
    other = HandFront(node, "other")
    others = other.consume(other.bind(queue))
    front.publish(1, *numbered(10, 20))
    front.run()
    last = max(each.offset for each in other.deliveries())
    front.give_back(consumer, 0, 5, more=True)
    other.give_back(others, last, last + 1, more=True)
    front.give_back(consumer, 5, 10)
    assert is_paused(queue)
    other.give_back(others, 0, 0)
    front.run()
    assert queue.ready == 0


async def test_a_series_goes_over_consumers(front: HandFront, queue: Queue, subject: int) -> None:
    first, second = front.consume(subject), front.consume(subject)
    for body in numbered(0, 4):
        front.publish(subject, body)
        front.run()
    had = {each.offset: each.consumer for each in front.deliveries()}
    assert {*had.values()} == {first, second}
    front.call("detach", [first, second], subject=subject)
    for offset in (3, 1, 2):
        front.give_back(had[offset], offset, offset + 1, more=True)
    assert is_paused(queue)
    front.give_back(had[0], 0, 1)
    assert ready(queue) == numbered(0, 4)


# -- its end


async def test_everything_comes_back_when_it_ends(
    front: HandFront, queue: Queue, consumer: int
) -> None:
    front.settle(consumer, 4, 5)
    front.close()
    assert queue.consumer_count == 0
    assert queue.unacked == 0
    assert ready(queue) == [*numbered(0, 4), *numbered(5, 10)]


async def test_nothing_goes_to_others_before_all_is_back(
    node: Node, front: HandFront, queue: Queue, consumer: int
) -> None:
    taker = Taker()
    queue.add_consumer(taker)
    front.give_back(consumer, 6, 8, more=True)
    front.close()
    assert taker.bodies() == numbered(0, 10)
    assert {delivery.redelivered for delivery in taker.deliveries} == {True}


async def test_nothing_that_a_lost_front_had_is_dropped_by_a_limit(node: Node) -> None:
    queue = await declared(node, "limited", x_delivery_limit=1)
    fill(queue, 3, 3)
    for count in range(4):
        front = HandFront(node)
        front.consume(front.bind(queue))
        (delivery,) = front.deliveries()
        assert delivery.redelivered == (count > 0)
        assert delivery.counts == (() if count == 0 else (count,) * 3)
        front.close()
    assert queue.ready == 3


async def test_very_much_comes_back_in_turns(node: Node, front: HandFront, subject: int) -> None:
    queue = node.vhost.queues["q"]
    front.consume(subject)
    front.publish(subject, *numbered(0, 5_000))
    front.run()
    queue.add_consumer(taker := Taker())
    node.turns.hurry()
    front.session.closed()
    node.turns.one()
    assert 0 < queue.unacked < 5_000
    assert queue.consumers == [taker]
    assert not taker.deliveries
    node.turns.clock.look_microseconds = 0
    front.run()
    assert taker.bodies() == numbered(0, 5_000)


async def test_a_failed_queue_keeps_nothing_from_others(
    node: Node,
    front: HandFront,
    queue: Queue,
    consumer: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = await declared(node, "other")
    subject = front.bind(other)
    front.publish(subject, "m")
    front.consume(subject)
    front.run()

    def fail(name: str) -> None:
        if name == "q":
            raise RuntimeError("no way")

    monkeypatch.setattr(node.vhost, "consumers_left", fail)
    front.close()
    assert "no way" in caplog.text
    assert (queue.unacked, other.unacked) == (0, 0)
    assert (queue.consumer_count, other.consumer_count) == (0, 0)


async def test_what_auto_delete_and_exclusive_queues_mean(node: Node, front: HandFront) -> None:
    node.vhost.declare_queue(QueueProperties("auto", auto_delete=True), object())
    auto = node.vhost.queues["auto"]
    front.consume(front.bind(auto))
    assert front.session.has_consumers
    names = {"durable": False, "arguments": b"", "server_named": False, "auto_delete": False}
    front.define("declare_queue", 7, name="mine", exclusive=True, **names)
    assert node.vhost.queues["mine"].owner.owner_name == "front/7"  # type: ignore[attr-defined]
    front.close()
    assert "auto" not in node.vhost.queues
    assert "mine" not in node.vhost.queues


# -- the outbox


async def test_nothing_is_delivered_while_much_is_unsent(
    front: HandFront, queue: Queue, subject: int
) -> None:
    front.consume(subject)
    front.outbox = OUTBOX_BYTES_MAX + 1
    front.publish(subject, "m")
    assert front.bodies() == []
    front.outbox = 0
    front.session.drained()
    assert front.bodies() == ["m"]


async def test_who_asks_and_does_not_read_ends(
    front: HandFront, subject: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_session, "OUTBOX_BYTES_MAX", 10_000)
    front.outbox = 10_001
    for _ in range(300):
        front.call("counts", subject=subject)
    assert front.failures == ["it asks, and does not read what it is answered"]
    assert 200 < len(front.take(Kind.ANSWER)) < 300


async def test_who_asks_is_answered_in_time(front: HandFront, subject: int) -> None:
    async def too_late(done: Awaitable[object]) -> object:
        raise NotReplicated("too few nodes")

    front.session._host = replace(front.session._host, in_time=too_late)
    names = {"arguments": b"", "server_named": False, "auto_delete": False, "exclusive": False}
    declared = front.define("declare_queue", name="late", durable=True, **names)
    with pytest.raises(NotReplicated, match="too few nodes"):
        await front.answered(declared)
    assert front.session._calls == 0


@pytest.mark.parametrize("is_there_first", [True, False])
async def test_a_consumer_that_is_refused_in_time_has_left(
    node: Node, front: HandFront, is_there_first: bool
) -> None:
    late: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    attaching: list[asyncio.Future[object]] = []

    def in_time(done: asyncio.Future[object]) -> Awaitable[object]:
        attaching.append(done)
        return late

    front.session._host = replace(front.session._host, in_time=in_time)
    stream = await declared(node, "s", x_queue_type="stream")
    subject = front.bind(stream)
    front.publish(subject, "m")
    await front.confirmed_up_to(1)
    consumer = front.subject()
    call = consume_call(consumer=consumer, place="first", group=["g", None, None], prefetch=1)
    called = front.call("consume", call, subject=subject)
    if is_there_first:
        await until(attaching[0].done)
        front.run()
    late.set_exception(NotReplicated("too few nodes"))
    with pytest.raises(NotReplicated):
        await front.answered(called)
    await until(attaching[0].done)
    front.run()
    group = stream.groups["g"]
    assert not group.consumers
    for each in front.deliveries():  # as the front does with what it does not know any more
        front.give_back(consumer, each.offset, each.end)
    assert (group.ready, front.session._consumers) == (1, {})


async def test_a_message_that_is_got_late_is_its_fronts(
    front: HandFront, queue: Queue, subject: int
) -> None:
    async def too_late(done: Awaitable[object]) -> object:
        raise NotReplicated("too few nodes")

    front.session._host = replace(front.session._host, in_time=too_late)
    front.publish(subject, "m")
    front.outbox = OUTBOX_BYTES_MAX + 1
    got = front.call("get", False, subject=subject)
    await asyncio.sleep(0)
    front.outbox = 0
    front.session.drained()
    assert (await front.answered(got))["offset"] == 0
    assert queue.ready == 0
    front.close()
    assert queue.ready == 1


async def test_a_call_has_a_size(front: HandFront, subject: int) -> None:
    with pytest.raises(BadSessionMessage, match=r"bytes"):
        front.call("purge", bytes(CALL_BYTES_MAX), subject=subject)


async def test_a_fault_of_ours_ends_the_session(
    front: HandFront,
    queue: Queue,
    subject: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    front.publish(subject, "m")

    def fail(*_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(front.session._queues[subject], "queue", _Failing(queue.name, fail))
    front.publish(subject, "m")
    front.publish(subject, "m")
    assert front.failures == ["an error of the broker"]
    assert "ZeroDivisionError" in caplog.text
    assert front.confirmed == (0, 0)


async def test_messages_that_fail_too_often_leave_the_queue(node: Node, front: HandFront) -> None:
    queue = await declared(node, "limited", x_queue_type="quorum", x_delivery_limit=2)
    consumer = front.consume(front.bind(queue))
    front.publish(1, "m")
    counts: list[tuple[int, ...]] = []
    for _ in range(3):
        counts += [each.counts for each in front.deliveries()]
        front.give_back(consumer, 0, 1, ReturnReason.FAILED)
    assert counts == [(), (1,), (2,)]
    assert front.deliveries() == []
    assert (queue.ready, queue.unacked) == (0, 0)
