"""A queue does the same for those who use it here and by way of a session."""

from __future__ import annotations

import pytest
from support.queue_samples import (
    Node,
    bodies,
    delete_queue,
    give_back,
    numbered,
    settle,
)
from unit.vhosts.sessions.exchange_samples import batch
from unit.vhosts.sessions.queue_places import Place
from unit.vhosts.sessions.session_pipe import PipedFront, RemoteTaker

from routelog.log_backend import NOTHING, Reason
from routelog.vhosts import (
    ConsumeOptions,
    GroupOptions,
    QueueProperties,
    ReturnReason,
    value_of,
)
from routelog.vhosts.errors import ConsumptionRefused, GetRefused, NotReadable
from routelog.vhosts.filters.reader_filter import reader_filter


def free(taker: RemoteTaker, count: int) -> None:
    """A consumer has room again."""
    taker.unacked -= count
    taker.source.has_credit(taker)
    taker.source.on_ready()


async def test_messages_are_confirmed_and_counted(place: Place) -> None:
    queue = await place.queue()
    receipt, refused = await place.publish(queue, *numbered(0, 5))
    assert (receipt is NOTHING, refused) == (False, [])
    await place.confirmed(receipt)
    assert await place.value(queue.counts()) == (5, 0)
    assert await place.value(queue.purge()) == 5
    assert await place.value(queue.counts()) == (0, 0)


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
async def test_a_full_queue_says_what_it_refuses(place: Place, overflow: str) -> None:
    queue = await place.queue(max_length=3, overflow=overflow)
    assert queue.may_refuse
    receipt, refused = await place.publish(queue, *numbered(0, 5))
    assert refused == [3, 4]
    await place.confirmed(receipt)
    assert (await place.publish(queue, "m5"))[1] == [0]
    assert await place.value(queue.counts()) == (3, 0)


async def test_what_is_returned_first_fills_the_queue_before_the_next_publish(place: Place) -> None:
    queue = await place.queue(max_length=1, overflow="reject-publish")
    await place.publish(queue, "a")
    got = await place.get(queue)
    assert got is not None
    give_back(got)
    assert (await place.publish(queue, "b"))[1] == [0]
    assert await place.value(queue.counts()) == (1, 0)


async def test_what_is_settled_first_frees_its_key_for_the_next_publish(place: Place) -> None:
    queue = await place.queue(message_deduplication=True)
    message = batch(("k", "a", {"x-deduplication-header": "1"}))
    await place.publish_batch(queue, message)
    got = await place.get(queue)
    assert got is not None
    settle(got)
    await place.publish_batch(queue, message)
    assert await place.value(queue.counts()) == (1, 0)


async def test_a_limit_that_a_node_learns_late_refuses_nothing_of_other_queues(
    node: Node,
) -> None:
    place = Place(node, PipedFront(node))
    assert place.front is not None
    other, limited = await place.queue("other"), await place.queue("limited")
    length = {"x-max-length": 1, "x-overflow": "reject-publish"}
    properties = QueueProperties("limited", durable=True, arguments=length)
    node.vhost.queues["limited"].change(properties, None, None)
    first, _ = await place.publish(other, "a")
    assert (await place.publish(limited, "b", "c"))[1] == []
    await place.confirmed((await place.publish(other, "d"))[0])
    assert (first.is_covered(), place.front.session.progress.late) == (True, 0)
    limited.change(properties, None, None)
    assert (await place.publish(limited, "e"))[1] == [0]
    counts = [await place.value(each.counts()) for each in (other, limited)]
    assert counts == [(2, 0), (2, 0)]


async def test_consumers_get_their_prefetch_and_more_when_they_settle(place: Place) -> None:
    queue, taker = await place.queue(), RemoteTaker(3)
    await place.publish(queue, *numbered(0, 2))
    await place.attach(queue, taker)
    await place.publish(queue, *numbered(2, 10))
    assert await place.took(taker) == ["m0", "m1", "m2"]
    for delivery in taker.take():
        settle(delivery)
    free(taker, 3)
    assert await place.took(taker) == ["m3", "m4", "m5"]
    assert await place.value(queue.counts()) == (4, 1)


async def test_what_is_returned_comes_again_in_its_place_and_is_marked(place: Place) -> None:
    queue, taker = await place.queue(queue_type="quorum"), RemoteTaker(5)
    await place.publish(queue, *numbered(0, 7))
    await place.attach(queue, taker)
    await place.rest()
    (delivery,) = taker.take()
    source, first = delivery.partition, delivery.offset
    source.give_back(first + 3, first + 5, ReturnReason.FAILED)
    source.settle(first + 1, first + 2)
    source.give_back(first, first + 1, ReturnReason.FAILED)
    source.settle(first + 2, first + 3, Reason.REJECTED)
    free(taker, 5)
    assert await place.took(taker) == ["m0", "m3", "m4", "m5", "m6"]
    assert [each.redelivered for each in taker.deliveries for _ in range(each.count)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert queue.counts_deliveries
    assert taker.counts[-5:] == [1, 1, 1, 0, 0]


async def test_who_stalls_or_leaves_costs_no_message(place: Place) -> None:
    queue, taker, other = await place.queue(), RemoteTaker(), RemoteTaker()
    await place.attach(queue, taker)
    taker.is_stalled = True
    await place.publish(queue, *numbered(0, 5))
    await place.rest()
    assert taker.deliveries == []
    taker.is_stalled = False
    taker.source.has_credit(taker)
    taker.source.on_ready()
    assert await place.took(taker) == numbered(0, 5)
    taker.is_stalled = True
    await place.publish(queue, *numbered(5, 8))
    await place.rest()
    queue.detach([taker])
    (delivery,) = taker.take()
    give_back(delivery)
    await place.rest()
    await place.attach(queue, other)
    assert sorted(await place.took(other)) == numbered(0, 8)
    assert other.deliveries[0].redelivered
    assert await place.value(queue.counts()) == (0, 1)


@pytest.mark.parametrize("priorities", [None, 3])
async def test_what_no_client_was_given_is_not_counted_as_delivered(
    place: Place, priorities: int | None
) -> None:
    named = {} if priorities is None else {"max_priority": priorities}
    queue, taker = await place.queue(delivery_limit=1, **named), RemoteTaker()
    await place.publish(queue, *numbered(0, 6))
    first = RemoteTaker(2)
    await place.attach(queue, first)
    assert await place.took(first) == numbered(0, 2)
    for end in (queue.cancel, lambda each: queue.detach([each])) * 2:
        idle = RemoteTaker()
        idle.is_stalled = True
        await place.attach(queue, idle)
        await place.value(end(idle))
        await place.rest()
    await place.attach(queue, taker)
    queue.detach([first])
    for delivery in first.take():
        give_back(delivery)
    assert await place.took(taker) == [*numbered(2, 6), *numbered(0, 2)]
    marks = [each.redelivered for each in taker.deliveries for _ in range(each.count)]
    assert marks == [False] * 4 + [True] * 2
    assert taker.counts == [0] * 4 + [1] * 2


async def test_a_cancelled_consumer_settles_what_it_has(place: Place) -> None:
    queue, taker = await place.queue(), RemoteTaker(2)
    await place.publish(queue, *numbered(0, 4))
    await place.attach(queue, taker)
    await place.value(queue.cancel(taker))
    assert await place.took(taker) == ["m0", "m1"]
    assert await place.value(queue.counts()) == (2, 0)
    delivery = taker.take()[0]
    delivery.partition.settle(delivery.offset, delivery.offset + 1)
    delivery.partition.give_back(delivery.offset + 1, delivery.offset + 2)
    await place.rest()
    assert await place.value(queue.counts()) == (3, 0)


async def test_without_acks_all_of_it_is_settled(place: Place) -> None:
    queue, taker = await place.queue(), RemoteTaker(no_ack=True)
    await place.attach(queue, taker)
    await place.publish(queue, *numbered(0, 100))
    assert await place.took(taker) == numbered(0, 100)
    queue.detach([taker])
    await place.rest()
    assert await place.value(queue.counts()) == (0, 0)


@pytest.mark.parametrize("kind", ["exclusive", "single active"])
async def test_who_has_the_queue_alone_and_acknowledges_nothing_makes_room(
    place: Place, kind: str
) -> None:
    queue = await place.queue(single_active_consumer=kind == "single active")
    taker = RemoteTaker(no_ack=True, exclusive=kind == "exclusive")
    await place.attach(queue, taker)
    await place.publish(queue, "a")
    assert await place.took(taker) == ["a"]
    queue.detach([taker])
    await place.publish(queue, "b")
    await place.attach(queue, other := RemoteTaker(exclusive=kind == "exclusive"))
    assert await place.took(other) == ["b"]


@pytest.mark.parametrize("no_ack", [False, True])
async def test_who_has_the_queue_alone_leaves_while_it_is_deleted(
    place: Place, no_ack: bool
) -> None:
    queue, taker = await place.queue(), RemoteTaker(exclusive=True, no_ack=no_ack)
    await place.attach(queue, taker)
    await place.publish(queue, "a")
    await place.rest()
    for delivery in taker.take() if not no_ack else ():
        settle(delivery)
    await place.rest()
    deleted = delete_queue(place.node.vhost, place.node.vhost.queues["q"])
    place.node.turns.run()
    queue.detach([taker])  # a front has not heard of it
    await place.value(deleted)
    await place.rest()


async def test_single_messages_are_got(place: Place) -> None:
    queue = await place.queue()
    assert await place.get(queue) is None
    await place.publish(queue, "a", "b", "c")
    got = [await place.get(queue) for _ in range(3)]
    assert [bodies(each) for each in got if each is not None] == [["a"], ["b"], ["c"]]
    assert await place.get(queue) is None
    for at, each in enumerate(got):
        assert each is not None
        (give_back if at < 2 else settle)(each)
    await place.rest()
    again = await place.get(queue)
    assert again is not None
    assert (bodies(again), again.redelivered, queue.ready) == (["a"], True, 1)


async def test_errors_are_the_queues(place: Place) -> None:
    queue = await place.queue(single_active_consumer=True)
    with pytest.raises(GetRefused, match="queue 'q' in vhost '/'"):
        await place.get(queue)
    await place.attach(queue, RemoteTaker())
    with pytest.raises(ConsumptionRefused, match="in exclusive use"):
        await place.attach(queue, RemoteTaker(exclusive=True))
    with pytest.raises(NotReadable):
        await place.attach(queue, RemoteTaker(), place="first")
    assert await place.value(queue.counts()) == (0, 1)


@pytest.mark.parametrize("exclusive", [False, True])
async def test_an_exclusive_consumer_keeps_its_queue_when_another_node_leads(
    node: Node, exclusive: bool
) -> None:
    place = Place(node, front := PipedFront(node))
    queue, taker = await place.queue(), RemoteTaker(exclusive=True)
    await place.attach(queue, taker)
    front.cut()
    await place.rest()
    node.vhosts.await_consumers()
    stranger = RemoteTaker(exclusive=exclusive)
    waiting = node.vhost.queues["q"].attach(stranger, ConsumeOptions(), stranger.begin)
    other = PipedFront(node)  # of another node, whose client asks for the first time
    early = RemoteTaker(exclusive=exclusive)
    asked = other.queue(node.vhost.queues["q"]).attach(early, ConsumeOptions(), early.begin)
    other.carry()
    front.open()
    await place.rest()
    assert node.vhost.queues["q"].consumer_count == 1
    node.vhosts.consumers_back()
    with pytest.raises(ConsumptionRefused):
        await place.value(waiting)
    with pytest.raises(ConsumptionRefused):
        await Place(node, other).value(asked)
    await place.publish(queue, "m0")
    assert await place.took(taker) == ["m0"]
    assert taker.deleted == 0
    for each in (front, other):
        each.cut()


async def test_the_next_single_active_consumer_gets_what_came_back_first(place: Place) -> None:
    queue = await place.queue(single_active_consumer=True)
    active, waiting = RemoteTaker(4), RemoteTaker(10)
    await place.attach(queue, active)
    await place.attach(queue, waiting)
    await place.publish(queue, *numbered(0, 8))
    assert await place.took(active) == numbered(0, 4)
    (delivery,) = active.take()
    source, first = delivery.partition, delivery.offset
    source.pause()
    queue.detach([active])
    source.give_back(first + 2, first + 4, ReturnReason.FAILED)
    await place.rest()
    assert waiting.deliveries == []
    source.give_back(first, first + 2, ReturnReason.FAILED)
    source.resume()
    assert await place.took(waiting) == numbered(0, 8)


@pytest.mark.parametrize("kind", ["exclusive", "single active"])
async def test_who_follows_a_cancelled_consumer_gets_first_what_that_was_not_handed(
    place: Place, kind: str
) -> None:
    queue = await place.queue(single_active_consumer=kind == "single active")
    is_exclusive = kind == "exclusive"
    cancelled, follower = (RemoteTaker(each, exclusive=is_exclusive) for each in (8, 30))
    await place.attach(queue, cancelled)
    if not is_exclusive:
        await place.attach(queue, follower)
    cancelled.is_stalled = True  # at a front, some wait for it
    await place.publish(queue, *numbered(0, 20))
    await place.rest()
    await place.value(queue.cancel(cancelled))
    if is_exclusive:
        await place.attach(queue, follower)
    assert await place.took(follower) == numbered(0, 20)
    assert cancelled.deliveries == []


async def test_partitions_have_an_order_each(place: Place) -> None:
    queue, taker = await place.queue(partitions=4, partition_strategy="round-robin"), RemoteTaker()
    await place.attach(queue, taker)
    for at in range(8):
        await place.publish(queue, *numbered(4 * at, 4 * at + 4))
    assert sorted(await place.took(taker)) == sorted(numbered(0, 32))
    parts = {each.partition_index for each in taker.deliveries}
    assert parts <= set(range(4))
    assert len(parts) > 1
    for each in taker.deliveries:
        assert queue.partition_index(each.partition) == each.partition_index
    assert {id(each.partition) for each in taker.deliveries} <= {id(s) for s in queue.sources()}


async def test_logs_are_read_and_groups_share_them(place: Place) -> None:
    queue = await place.queue(queue_type="stream")
    await place.confirmed((await place.publish(queue, *numbered(0, 6)))[0])
    reader, later, grouped = RemoteTaker(4), RemoteTaker(9), RemoteTaker(9)
    await place.attach(queue, reader, place="first")
    await place.attach(queue, later, place=3)
    await place.attach(queue, grouped, place="first", group=GroupOptions("g"))
    assert await place.took(reader) == numbered(0, 4)
    assert await place.took(later) == numbered(3, 6)
    assert (await place.took(grouped), grouped.source.group) == (numbered(0, 6), "g")
    for delivery in reader.take():
        settle(delivery)
    free(reader, 4)
    assert await place.took(reader) == numbered(4, 6)


async def test_filters_are_the_queues(place: Place) -> None:
    queue, taker = await place.queue(queue_type="stream"), RemoteTaker(9)
    wanted = await value_of(reader_filter({"x-stream-filter": "none"}))
    await place.confirmed((await place.publish(queue, "a"))[0])
    await place.attach(queue, taker, place="first", wanted=wanted)
    assert await place.took(taker) == []


async def test_a_deleted_queue_ends_its_consumers(place: Place) -> None:
    queue, taker, stalled = await place.queue(), RemoteTaker(2), RemoteTaker()
    await place.attach(queue, taker)
    await place.attach(queue, stalled)
    stalled.is_stalled = True
    await place.publish(queue, *numbered(0, 8))
    await place.rest()
    await place.value(delete_queue(place.node.vhost, place.node.vhost.queues["q"]))
    await place.rest()
    assert (taker.deleted, stalled.deleted, stalled.deliveries) == (1, 1, [])
    for delivery in taker.take():
        settle(delivery)
    await place.rest()
