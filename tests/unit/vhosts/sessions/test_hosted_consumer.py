"""Consumers of a front: credit by messages and bytes, slices of batches, redelivery, and their ends."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from support.queue_samples import Node, Taker, bodies, delete_queue, got, numbered, records
from support.waiting import until
from unit.vhosts.sessions.hand_front import HandFront, declared

from routelog.log_backend import Reason
from routelog.log_backend.segments.damage import Damage
from routelog.vhosts import (
    ConsumptionRefused,
    FilterRefused,
    GroupInequivalent,
    InvalidFilter,
    InvalidStreamOffset,
    NotReadable,
    Queue,
    QueueQuarantined,
    ReturnReason,
)
from routelog.vhosts.sessions.hosted_consumer import WINDOW_BYTES, HostedChannel
from routelog.vhosts.sessions.session_message import BadSessionMessage, Kind

STREAM = {"x_queue_type": "stream"}


@pytest.fixture
async def stream(node: Node) -> Queue:
    return await declared(node, "log", **STREAM)


# -- deliveries


async def test_a_delivery_is_a_slice_of_its_batch(front: HandFront, subject: int) -> None:
    front.publish(subject, *numbered(0, 10))
    consumer = front.consume(subject, prefetch=4)
    (delivery,) = front.deliveries()
    assert (delivery.consumer, delivery.partition, delivery.offset) == (consumer, 0, 0)
    assert delivery.bodies == ("m0", "m1", "m2", "m3")
    assert not delivery.redelivered
    front.settle(consumer, 0, 2)
    (delivery,) = front.deliveries()
    assert (delivery.offset, delivery.bodies) == (4, ("m4", "m5"))


async def test_messages_keep_keys_and_have_the_time_of_the_leader(
    node: Node, front: HandFront, subject: int
) -> None:
    before = node.logs.now()
    front.consume(subject, prefetch=1)
    front.publish_records(subject, records("a", "b", time=77))
    front.run()
    (message,) = front.take(Kind.DELIVER)
    batch = front.records_of(message)
    assert (batch.routing_key(0), batch.persistent) == (b"k", True)
    assert before <= batch.time == batch.last_time <= node.logs.now()


async def test_prefetch_limits_what_is_unsettled(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject, prefetch=2)
    for body in numbered(0, 5):
        front.publish(subject, body)
    assert front.bodies() == ["m0", "m1"]
    front.settle(consumer, 1, 2)
    assert front.bodies() == ["m2"]
    front.give_back(consumer, 0, 1)
    assert front.bodies() == ["m0"]
    assert queue.unacked == 2


async def test_without_acks_messages_are_settled_when_they_go(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject, no_ack=True, prefetch=1)
    front.publish(subject, *numbered(0, 5))
    assert front.bodies() == numbered(0, 5)
    assert (queue.unacked, queue.ready, queue.counters.deliver_no_ack) == (0, 0, 5)
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(consumer, 0, 1)


@pytest.mark.parametrize("no_ack", [False, True])
async def test_the_window_is_bytes(front: HandFront, subject: int, no_ack: bool) -> None:
    size = 100_000
    consumer = front.consume(subject, no_ack=no_ack)
    for _ in range(30):
        front.publish(subject, bytes(size))
    sent = sum(len(each.bodies) for each in front.deliveries())
    assert sent == WINDOW_BYTES // size + 1
    front.handed_on(consumer, 1)
    assert len(front.bodies()) == 1
    front.handed_on(consumer, sent + 1)
    assert len(front.bodies()) == sent


async def test_settlements_make_no_room_in_the_window(front: HandFront, subject: int) -> None:
    consumer = front.consume(subject)
    front.publish(subject, bytes(2 * WINDOW_BYTES))
    front.publish(subject, "m")
    (large,) = front.deliveries()
    front.settle(consumer, 0, large.end)
    assert front.bodies() == []
    front.handed_on(consumer, 1)
    assert front.bodies() == ["m"]


async def test_a_window_is_that_of_one_consumer(front: HandFront, subject: int) -> None:
    front.consume(subject)
    front.publish(subject, bytes(2 * WINDOW_BYTES))
    assert len(front.deliveries()) == 1
    other = front.consume(subject)
    front.publish(subject, "m")
    assert [each.consumer for each in front.deliveries()] == [other]


@pytest.mark.parametrize("messages", [[4], [2, 1], [1 << 63]])
async def test_credit_is_for_what_was_delivered(
    front: HandFront, subject: int, messages: list[int]
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, *numbered(0, 3))
    front.run()
    *before, last = messages
    for each in before:
        front.handed_on(consumer, each)
    with pytest.raises(BadSessionMessage, match=r"handed on"):
        front.handed_on(consumer, last)


async def test_credit_of_who_has_gone_comes_late(front: HandFront, subject: int) -> None:
    consumer = front.consume(subject)
    front.call("detach", [consumer], subject=subject)
    front.handed_on(consumer, 5)
    with pytest.raises(BadSessionMessage, match=r"credit"):
        front.handed_on(consumer + 1, 5)


async def test_a_failed_delivery_ends_the_session(
    front: HandFront, queue: Queue, subject: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    front.consume(subject)
    other = Taker()
    queue.add_consumer(other)
    monkeypatch.setattr("routelog.vhosts.sessions.hosted_consumer.slice_records", lambda *_: 1 // 0)
    front.publish(subject, *numbered(0, 4))
    front.run()
    assert len(front.failures) == 1
    assert sorted(other.bodies()) == numbered(0, 4)


# -- redelivery


async def test_how_often_messages_came_back_is_told(node: Node, front: HandFront) -> None:
    queue = await declared(node, x_queue_type="quorum")
    consumer = front.consume(front.bind(queue))
    front.publish(1, *numbered(0, 3))
    assert [each.counts for each in front.deliveries()] == [()]
    front.give_back(consumer, 1, 2)
    front.deliveries()
    front.give_back(consumer, 0, 3)
    assert [(each.redelivered, each.counts) for each in front.deliveries()] == [(True, (1, 2, 1))]


def redelivery(consumer: int, first: int, end: int, partition: int = 0) -> dict[str, int]:
    return {"consumer": consumer, "partition": partition, "first": first, "end": end}


async def test_messages_are_delivered_once_more_to_the_same_consumer(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject, prefetch=5)
    queue.add_consumer(other := Taker())
    front.publish(subject, *numbered(0, 4))
    front.run()
    (had,) = front.deliveries()
    front.call("redeliver", redelivery(consumer, had.offset, had.end), subject=subject)
    (again,) = front.deliveries()
    assert (again.consumer, again.bodies, again.redelivered) == (consumer, had.bodies, True)
    assert queue.unacked == 4
    front.settle(consumer, had.offset, had.end)
    assert queue.unacked == sum(each.count for each in other.deliveries)


@pytest.mark.parametrize(("first", "end"), [(0, 4), (2, 4), (1, 1), (2, 1)])
async def test_what_is_not_unsettled_is_not_delivered_once_more(
    front: HandFront, queue: Queue, subject: int, first: int, end: int
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, *numbered(0, 3))
    front.run()
    with pytest.raises(BadSessionMessage):
        front.call("redeliver", redelivery(consumer, first, end), subject=subject)
    assert queue.unacked == 3


async def test_a_redelivery_keeps_to_the_window(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject)
    for _ in range(8):
        front.publish(subject, bytes(300_000))
    first = front.deliveries()
    front.handed_on(consumer, len(first))
    second = front.deliveries()
    assert len(first) == len(second) == 4
    front.call("redeliver", redelivery(consumer, 0, 4), subject=subject)
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):  # they are under way
        front.settle(consumer, 0, 1)
    assert front.deliveries() == []
    front.handed_on(consumer, 6)
    assert [each.offset for each in front.deliveries()] == [0, 1]
    front.handed_on(consumer, 10)
    assert [each.offset for each in front.deliveries()] == [2, 3]
    assert queue.unacked == 8


@pytest.mark.parametrize("way", ["detach", "close"])
async def test_what_waits_to_be_delivered_once_more_comes_back(
    front: HandFront, queue: Queue, subject: int, way: str
) -> None:
    consumer = front.consume(subject)
    for _ in range(4):
        front.publish(subject, bytes(300_000))
    front.run()
    front.call("redeliver", redelivery(consumer, 0, 4), subject=subject)
    if way == "detach":
        front.call("detach", [consumer], subject=subject)
    else:
        front.close()
    assert (queue.ready, queue.unacked) == (4, 0)


async def test_nothing_is_delivered_once_more_to_who_is_gone(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, "m")
    front.run()
    front.call("detach", [consumer], subject=subject)
    with pytest.raises(BadSessionMessage, match=r"no consumer"):
        front.call("redeliver", redelivery(consumer + 1, 0, 1), subject=subject)
    front.call("redeliver", redelivery(consumer, 0, 1), subject=subject)
    assert (queue.ready, queue.unacked) == (1, 0)


# -- their ends


async def test_a_deleted_queue_ends_its_consumers(
    node: Node, front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, *numbered(0, 3))
    front.run()
    delete_queue(node.vhost, queue)
    front.run()
    assert front.ended() == [(consumer, None)]
    front.settle(consumer, 0, 1)  # which was on its way
    front.give_back(consumer, 1, 3)
    with pytest.raises(BadSessionMessage, match=r"nothing unsettled"):
        front.settle(consumer, 0, 1)
    assert front.answer(front.call("cancel", consumer, subject=subject)) is None
    assert front.answer(front.call("detach", [consumer], subject=subject)) is None


async def test_a_quarantined_queue_ends_its_consumers(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, *numbered(0, 3))
    front.run()
    queue.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 3, 9))
    front.publish(subject, "m3")
    front.run()
    assert front.ended() == []
    front.settle(consumer, 0, 3)
    front.run()
    ((ended, error),) = front.ended()
    assert ended == consumer
    assert isinstance(error, QueueQuarantined)
    assert error.offset == 3
    assert queue.consumer_count == 0
    with pytest.raises(QueueQuarantined):
        front.answer(front.call("consume", front.wanted(consumer=9), subject=subject))


async def test_a_reader_of_a_quarantined_stream_ends(front: HandFront, stream: Queue) -> None:
    subject = front.bind(stream)
    front.publish(subject, *numbered(0, 3))
    await front.confirmed_up_to(1)
    consumer = front.consume(subject, place="first", prefetch=10)
    assert front.bodies() == numbered(0, 3)
    stream.partitions[0].log.quarantine(Damage("x.log", 0, "a test", 3, 9))
    front.publish(subject, "m3")
    await front.confirmed_up_to(2)
    front.settle(consumer, 0, 3)
    front.run()
    ((ended, error),) = front.ended()
    assert (ended, type(error)) == (consumer, QueueQuarantined)
    assert stream.consumer_count == 0


async def test_who_detaches_settles_what_it_had(
    front: HandFront, queue: Queue, subject: int
) -> None:
    consumer = front.consume(subject)
    front.publish(subject, *numbered(0, 3))
    front.run()
    front.call("detach", [consumer], subject=subject)
    front.publish(subject, "m3")
    assert front.deliveries()[1:] == []
    front.settle(consumer, 0, 1)
    front.give_back(consumer, 1, 3)
    assert (queue.unacked, queue.ready, queue.consumer_count) == (0, 3, 0)
    assert not front.session._consumers


async def test_who_cancels_gets_what_is_due_first(front: HandFront, subject: int) -> None:
    consumer = front.consume(subject)
    front.publish(subject, "m0")
    number = front.call("cancel", consumer, subject=subject)
    kinds = [message.kind for message in front.told if message.kind is not Kind.CONFIRM]
    assert kinds == [Kind.ANSWER, Kind.DELIVER, Kind.ANSWER]
    assert front.answer(number) is None
    front.publish(subject, "m1")
    assert front.bodies() == ["m0"]
    front.settle(consumer, 0, 1)


async def test_the_last_consumer_takes_an_auto_delete_queue_with_it(
    node: Node, front: HandFront
) -> None:
    names: dict[str, Any] = {"arguments": b"", "server_named": False, "exclusive": False}
    for name, durable in (("a", True), ("b", False)):
        declared = front.define(
            "declare_queue", name=name, durable=durable, auto_delete=True, **names
        )
        await front.answered(declared)
        subject = front.bind(node.vhost.queues[name])
        consumer = front.consume(subject)
        method = "cancel" if durable else "detach"
        argument: Any = consumer if durable else [consumer]
        await front.answered(front.call(method, argument, subject=subject))
        assert name not in node.vhost.queues


# -- the queue's own rules


async def test_the_single_active_consumer_is_followed_by_the_next(
    node: Node, front: HandFront
) -> None:
    queue = await declared(node, x_single_active_consumer=True)
    subject = front.bind(queue)
    first, second = front.consume(subject), front.consume(subject)
    front.publish(subject, "m0")
    assert [each.consumer for each in front.deliveries()] == [first]
    front.call("stand_aside", first, subject=subject)
    front.publish(subject, "m1")
    assert [each.consumer for each in front.deliveries()] == [second]
    front.call("detach", [second], subject=subject)
    front.publish(subject, "m2")
    assert [each.consumer for each in front.deliveries()] == [first]


async def test_the_consumers_of_a_channel_are_woken_once_for_another_prefetch_count(
    node: Node, front: HandFront, subject: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []
    monkeypatch.setattr(HostedChannel, "wake", lambda channel: woken.append(channel.prefetch))
    consumers = [front.consume(subject, channel=(5, 3)) for _ in range(4)]
    for consumer in consumers:
        front.call("qos", consumer, 5, 4, subject=subject)
    assert woken == [3, 4]


async def test_what_a_client_holds_still_has_no_room_though_it_came_back(
    front: HandFront, subject: int
) -> None:
    late = front.consume(subject, prefetch=2, channel=(5, 3))
    other = front.consume(subject, prefetch=5, channel=(5, 3))
    front.publish(subject, *numbered(0, 20))
    channel = front.session._channels[5]

    def got() -> dict[int, int]:
        counts = {late: 0, other: 0}
        for each in front.deliveries():
            counts[each.consumer] += len(each.bodies)
        return counts

    assert got() == {late: 2, other: 1}
    front.call("lapsed", late, 2, subject=subject)
    front.give_back(late, 0, 2)
    assert got() == {late: 0, other: 0}  # their channel is full
    front.call("lapsed", late, 1, subject=subject)
    counts = got()
    assert sum(counts.values()) == 1
    front.call("lapsed", late, 0, subject=subject)
    assert sum(got().values()) == 1
    again = front.consume(subject, prefetch=2, channel=(5, 6), lapsed=2)
    assert (got().get(again), channel.unacked) == (None, 6)
    front.call("cancel", again, subject=subject)
    assert channel.unacked == 4  # what it holds is not given again


async def test_consumers_of_a_channel_share_its_prefetch_count(
    node: Node, front: HandFront, subject: int
) -> None:
    first = front.consume(subject, channel=(5, 3))
    second = front.consume(subject, channel=(5, 3), prefetch=1)
    other = front.consume(subject, channel=(6, 1))
    channels = front.session._channels
    front.publish(subject, *numbered(0, 20))

    def got() -> dict[int, int]:
        counts = {5: 0, 6: 0}
        for each in front.deliveries():
            counts[6 if each.consumer == other else 5] += len(each.bodies)
        return counts

    def settle_all(consumer: int) -> None:
        for _, ranges in front.session._consumers[consumer].unsettled._parts.values():
            for begin, end in [*ranges]:
                front.settle(consumer, begin, end)

    assert got() == {5: 3, 6: 1}
    front.call("qos", first, 5, 4, subject=subject)
    assert got() == {5: 1, 6: 0}
    front.call("qos", second, 5, 2, subject=subject)
    settle_all(other)
    assert got() == {5: 0, 6: 1}
    front.call("detach", [first], subject=subject)
    front.call("qos", first, 5, 9, subject=subject)  # it has gone
    front.call("qos", 99, 5, 9, subject=subject)
    assert got() == {5: 0, 6: 0}
    assert [each.unacked for each in channels.values()] == [4, 1]
    settle_all(first)
    settle_all(second)
    assert got() == {5: 1, 6: 0}  # as the second one has a count of its own
    front.call("qos", second, 5, 0, subject=subject)
    front.call("cancel", second, subject=subject)
    settle_all(second)
    assert channels.keys() == {6}
    front.call("qos", other, 6, 0, subject=subject)
    assert got() == {5: 0, 6: 13}


async def test_a_higher_priority_is_served_first(front: HandFront, subject: int) -> None:
    front.consume(subject, priority=-1)
    high = front.consume(subject, priority=7, prefetch=2)
    front.publish(subject, *numbered(0, 3))
    first, second = front.deliveries()
    assert (first.consumer, first.bodies) == (high, ("m0", "m1"))
    assert second.bodies == ("m2",)


async def test_partitions_are_told_apart(node: Node, front: HandFront) -> None:
    queue = await declared(node, x_partitions=4, x_partition_strategy="round-robin")
    subject = front.bind(queue)
    for body in numbered(0, 8):
        front.publish(subject, body)
    consumer = front.consume(subject, prefetch=4)
    had = front.deliveries()
    assert {each.partition for each in had} == {0, 1, 2, 3}
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(consumer, had[0].offset, had[0].end, partition=4)
    for each in had:
        front.settle(consumer, each.offset, each.end, partition=each.partition)
    assert len(front.bodies()) == 4
    front.close()
    assert (queue.ready, queue.unacked) == (4, 0)


# -- readers and groups


async def test_a_reader_begins_at_its_place(front: HandFront, stream: Queue) -> None:
    subject = front.bind(stream)
    front.publish(subject, *numbered(0, 5))
    await front.confirmed_up_to(1)
    consumer = front.consume(subject, place=3, prefetch=10)
    (delivery,) = front.deliveries()
    assert (delivery.offset, delivery.bodies) == (3, ("m3", "m4"))
    front.settle(consumer, 3, 5)
    with pytest.raises(BadSessionMessage, match=r"not unsettled"):
        front.settle(consumer, 3, 5)
    front.publish(subject, "m5")
    await front.confirmed_up_to(2)
    await until(lambda: front.bodies() == ["m5"])
    front.close()
    assert stream.consumer_count == 0


@pytest.mark.parametrize(
    ("place", "count"), [("first", 5), ("next", 0), (["time", 0], 5), (["time", 2.0e9], 0)]
)
async def test_places(front: HandFront, stream: Queue, place: object, count: int) -> None:
    subject = front.bind(stream)
    seconds = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    batch = records(*numbered(0, 5), time=int(seconds * 1_000_000))
    front.publish_records(subject, batch)
    await front.confirmed_up_to(1)
    front.consume(subject, place=place, prefetch=10)
    assert len(front.bodies()) == count


async def test_an_age_is_by_the_clock_of_the_leader(front: HandFront, stream: Queue) -> None:
    subject = front.bind(stream)
    front.publish(subject, "m")
    await front.confirmed_up_to(1)
    front.consume(subject, place="1m", prefetch=10)
    assert front.bodies() == ["m"]


@pytest.mark.parametrize("place", [["time"], ["when", 1], ["time", 1e300], 1.5, {}, 1 << 63, [1]])
async def test_a_place_that_is_none_is_refused(
    front: HandFront, stream: Queue, place: object
) -> None:
    with pytest.raises(BadSessionMessage, match=r"a place"):
        front.consume(front.bind(stream), place=place, prefetch=1)
    assert not front.session._consumers


async def test_places_are_one_for_each_partition(front: HandFront, stream: Queue) -> None:
    subject = front.bind(stream)
    front.publish(subject, *numbered(0, 5))
    await front.confirmed_up_to(1)
    front.consume(subject, place="first", places=[3], prefetch=10)
    assert front.bodies() == ["m3", "m4"]
    for places in ([1, 2], [-1], ["first"]):
        with pytest.raises(BadSessionMessage, match=r"places"):
            front.consume(subject, place="first", places=places)


async def test_a_place_that_the_queue_refuses(
    front: HandFront, queue: Queue, stream: Queue
) -> None:
    log, plain = front.bind(stream), front.bind(queue)
    for subject, place, error in (
        (log, "soon", InvalidStreamOffset),
        (plain, "first", NotReadable),
    ):
        wanted = front.wanted(consumer=front.subject(), place=place)
        with pytest.raises(error):
            front.answer(front.call("consume", wanted, subject=subject))
    assert not front.session._consumers


async def joined(front: HandFront, subject: int, **keywords: Any) -> int:
    consumer = front.subject()
    wanted = front.wanted(consumer=consumer, **keywords)
    places = await front.answered(front.call("consume", wanted, subject=subject))
    is_reader = wanted["place"] is not None and wanted["group"] is None
    assert places == ([0] if is_reader else None)
    return consumer


async def test_filters_that_are_refused(front: HandFront, queue: Queue, stream: Queue) -> None:
    log, plain = front.bind(stream), front.bind(queue)
    group = {"group": ["g", None, None], "place": "first", "prefetch": 2}
    await joined(front, log, **group, filter={"x-filter": "TRUE"})
    for subject, keywords, error in (
        (plain, {"filter": {"x-stream-filter": "a"}}, FilterRefused),
        (log, {"filter": {"x-filter": "what is"}, "place": "first"}, InvalidFilter),
        (log, {"filter": {"x-filter": "FALSE"}, **group}, GroupInequivalent),
    ):
        wanted = front.wanted(consumer=front.subject(), **keywords)
        with pytest.raises(error):
            await front.answered(front.call("consume", wanted, subject=subject))
    assert len(front.session._consumers) == 1


@pytest.mark.parametrize("way", ["detach", "close", "delete"])
async def test_who_leaves_before_it_has_begun_is_no_consumer(
    node: Node, front: HandFront, stream: Queue, way: str
) -> None:
    subject = front.bind(stream)
    front.publish(subject, *numbered(0, 6))
    await front.confirmed_up_to(1)
    consumer = front.subject()
    wanted = front.wanted(
        consumer=consumer, place="first", group=["g", None, None], prefetch=1,
        filter={"x-filter": "TRUE"},
    )  # fmt: skip
    number = front.call("consume", wanted, subject=subject)
    if way == "detach":
        front.call("detach", [consumer], subject=subject)
    elif way == "close":
        front.session.closed()
    else:
        delete_queue(node.vhost, stream)
    session = front.session
    await until(lambda: (front.run(), not session._calls)[1])
    assert front.deliveries() == []
    assert stream.consumer_count == 0
    assert front.has_answer(number) is (way != "close")
    assert not session._consumers


# -- what others take meanwhile


async def test_a_local_consumer_and_a_front_share_a_queue(
    front: HandFront, queue: Queue, subject: int
) -> None:
    queue.add_consumer(local := Taker(2))
    consumer = front.consume(subject, prefetch=2)
    front.publish(subject, *numbered(0, 6))
    had = front.deliveries()
    assert len(local.bodies()) == 2
    mine = [body for each in had for body in each.bodies]
    assert sorted(mine + local.bodies()) == numbered(0, 4)
    for each in had:
        front.settle(consumer, each.offset, each.end, Reason.ACKED)
    front.close()
    local.settle_all()
    queue.wake()
    front.run()
    delivery = local.deliveries[-1]
    assert bodies(delivery)[0] in numbered(2, 6)
    assert got(queue) is None
    assert queue.unacked == 2


async def test_reasons_of_returns(front: HandFront, queue: Queue, subject: int) -> None:
    consumer = front.consume(subject)
    front.publish(subject, "m")
    for reason in ReturnReason:
        assert front.bodies() == ["m"]
        front.give_back(consumer, 0, 1, reason)
    assert front.bodies() == ["m"]
    assert queue.unacked == 1


async def test_a_number_is_given_again(front: HandFront, stream: Queue) -> None:
    subject = front.bind(stream)
    wanted = front.wanted(consumer=7, place="first", filter={"x-filter": "what is"}, prefetch=1)
    number = front.call("consume", wanted, subject=subject)
    front.call("detach", [7], subject=subject)
    front.consume(subject, consumer=7, place="first", prefetch=1)
    with pytest.raises(InvalidFilter):
        await front.answered(number)
    front.publish(subject, "m")
    await front.confirmed_up_to(1)
    await until(lambda: front.bodies() == ["m"])
    front.close()
    assert stream.consumer_count == 0


@pytest.mark.parametrize("exclusive", [False, True])
async def test_who_comes_for_the_first_time_waits_for_those_that_come_back(
    node: Node, front: HandFront, exclusive: bool
) -> None:
    first = front.bind(await declared(node))
    second = front.bind(await declared(node, "other"))
    node.vhosts.await_consumers()
    asked = [
        front.call(
            "consume", front.wanted(consumer=front.subject(), exclusive=exclusive), subject=each
        )
        for each in (first, second)
    ]
    back: list[bool] = []
    front.session.on_comes_back = lambda: back.append(True)
    wanted = front.wanted(consumer=front.subject(), exclusive=True, comes_back=True)
    assert not back
    assert front.answer(front.call("consume", wanted, subject=first)) is None
    assert back == [True]
    await asyncio.sleep(0)
    assert node.vhost.queues["other"].consumer_count == 0
    node.vhosts.consumers_back()
    with pytest.raises(ConsumptionRefused):
        await front.answered(asked[0])
    assert await front.answered(asked[1]) is None
