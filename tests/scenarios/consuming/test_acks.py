"""Acknowledgements, prefetch and redelivery."""

from __future__ import annotations

import pytest
from support.pika_client import Inbox, cut, declare, drain, ready_count, send
from support.waiting import wait_until

NUMBERS = [b"%d" % number for number in range(10)]
ALTERNATING = 600  # messages of each of two queues: 1,200 deliveries that are no neighbours


@pytest.fixture
def queue(channel):
    """An exclusive queue with ten messages."""
    made = declare(channel)
    send(channel, made, *NUMBERS)
    return made


@pytest.fixture
def other(connection):
    """A second channel of the same connection."""
    return connection.channel()


def test_delivery_tags_count_up_from_one_on_each_channel(channel, other, queue):
    channel.basic_qos(prefetch_count=5)
    inbox = Inbox(channel, queue).wait_for(5)
    assert inbox.delivery_tags == [1, 2, 3, 4, 5]
    assert other.basic_get(queue)[0].delivery_tag == 1


def test_an_ack_of_many_covers_all_tags_up_to_it(channel, other, queue):
    inbox = Inbox(channel, queue).wait_for(10)
    channel.basic_ack(inbox.delivery_tags[6], multiple=True)
    channel.close()
    wait_until(lambda: ready_count(other, queue) == 3)
    assert drain(other, queue) == NUMBERS[7:]


def test_an_ack_of_many_spares_what_was_settled_before(channel, other, queue):
    inbox = Inbox(channel, queue).wait_for(10)
    for index in (0, 3):
        channel.basic_ack(inbox.delivery_tags[index])
    channel.basic_nack(inbox.delivery_tags[4], requeue=False)
    channel.basic_ack(inbox.delivery_tags[6], multiple=True)
    channel.close()
    wait_until(lambda: ready_count(other, queue) == 3)


def test_an_ack_of_tag_zero_covers_everything(channel, other, queue):
    Inbox(channel, queue).wait_for(10)
    channel.basic_ack(0, multiple=True)
    channel.close()
    assert ready_count(other, queue) == 0


def test_an_ack_of_many_covers_several_queues_of_the_channel(channel, other, queue):
    second = declare(channel)
    send(channel, second, *NUMBERS)
    for source in (queue, second, queue):
        last, _, _ = channel.basic_get(source)
    channel.basic_ack(last.delivery_tag, multiple=True)
    channel.close()
    wait_until(lambda: (ready_count(other, queue), ready_count(other, second)) == (8, 9))


@pytest.mark.parametrize("settle", ["ack", "ack everything", "nack"])
def test_an_ack_of_very_many_that_are_no_neighbours_is_one_for_all(channel, other, queue, settle):
    other_queue, deliveries = declare(channel), 10 + 2 * ALTERNATING
    channel.basic_qos(prefetch_count=deliveries, global_qos=True)
    inbox = Inbox(channel, queue)
    channel.basic_consume(other_queue, inbox.take)
    inbox.wait_for(10)
    for _ in range(ALTERNATING):  # its deliveries alternate, too: each is a run of its own
        send(channel, queue, b"here")
        send(channel, other_queue, b"there")
    inbox.wait_for(deliveries)
    last = inbox.delivery_tags[-1]
    if settle == "nack":
        channel.basic_nack(last, multiple=True, requeue=False)
    else:
        channel.basic_ack(last if settle == "ack" else 0, multiple=True)
    send(channel, queue, *[b"more"] * deliveries)
    inbox.wait_for(2 * deliveries)  # all of the prefetch is free again
    channel.close()
    assert (ready_count(other, queue), ready_count(other, other_queue)) == (deliveries, 0)


def test_an_ack_of_very_many_counts_though_its_connection_is_cut(clients, channel, name):
    queues = [declare(channel, f"{name}-{side}", auto_delete=False) for side in ("here", "there")]
    leaving = clients.connect()
    inbox = Inbox(leaving.channel(), queues[0])
    inbox.channel.basic_consume(queues[1], inbox.take)
    for _ in range(ALTERNATING):
        for queue in queues:
            send(channel, queue, b"x")
    inbox.wait_for(2 * ALTERNATING)
    inbox.channel.basic_ack(0, multiple=True)
    cut(leaving)
    for queue in queues:
        declared = [0, 1]
        while declared[1]:  # its consumer is still there
            method = channel.queue_declare(queue, passive=True).method
            declared = [method.message_count, method.consumer_count]
        assert declared[0] == 0
        channel.queue_delete(queue)


def test_acks_may_come_in_any_order(channel, other, queue):
    inbox = Inbox(channel, queue).wait_for(10)
    for tag in [7, 1, 10, 3, 2, 9, 4, 8]:
        channel.basic_ack(tag)
    channel.close()
    wait_until(lambda: ready_count(other, queue) == 2)
    assert drain(other, queue) == [inbox.bodies[4], inbox.bodies[5]]


def test_a_requeued_message_goes_back_to_its_place(channel, queue):
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
    for index in (3, 1, 4, 0, 2):
        channel.basic_nack(tags[index], requeue=True)
    assert drain(channel, queue) == NUMBERS


def test_unacked_messages_of_a_closed_channel_return_to_the_front_in_order(channel, other, queue):
    channel.basic_qos(prefetch_count=4)
    Inbox(channel, queue).wait_for(4)
    channel.close()
    wait_until(lambda: ready_count(other, queue) == 10)
    assert drain(other, queue) == NUMBERS


def test_a_connection_that_is_cut_gives_its_messages_back_in_order_and_marked(clients):
    owner, lost = clients.channel(), clients.channel()
    queue = declare(owner, auto_delete=True)
    send(owner, queue, *NUMBERS)
    for _ in range(6):
        lost.basic_get(queue)
    cut(lost.connection)
    wait_until(lambda: ready_count(owner, queue) == 10)
    inbox = Inbox(owner, queue, auto_ack=True).wait_for(10)
    assert inbox.bodies == NUMBERS
    assert inbox.redelivered == [True] * 6 + [False] * 4


def test_messages_of_a_lost_consumer_go_to_the_one_that_waits(clients):
    owner, lost, waiting = clients.channel(), clients.channel(), clients.channel()
    queue = declare(owner, auto_delete=True)
    send(owner, queue, *NUMBERS)
    Inbox(lost, queue).wait_for(10)
    inbox = Inbox(waiting, queue, auto_ack=True)
    cut(lost.connection)
    assert inbox.wait_for(10).bodies == NUMBERS
    assert all(inbox.redelivered)


def test_an_auto_acked_message_does_not_return(channel, other, queue):
    Inbox(channel, queue, auto_ack=True).wait_for(10)
    channel.close()
    assert ready_count(other, queue) == 0


def test_a_cancelled_consumer_may_still_ack_what_it_has(channel, other, queue):
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, queue).wait_for(3)
    channel.basic_cancel(inbox.tag)
    assert ready_count(channel, queue) == 7
    channel.basic_ack(inbox.delivery_tags[-1], multiple=True)
    channel.close()
    assert drain(other, queue) == NUMBERS[3:]


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_prefetch_is_never_exceeded(clients, limit):
    channel = clients.channel()
    queue = declare(channel, auto_delete=True)
    channel.basic_qos(prefetch_count=limit)
    inbox = Inbox(channel, queue)
    feeder = clients.channel()
    send(feeder, queue, *[b"%d" % number for number in range(50)])
    settled = 0
    while settled < 50:
        expected = min(limit, 50 - settled)
        inbox.wait_for_at_least(settled + expected)
        assert ready_count(channel, queue) == 50 - settled - expected
        assert len(inbox.bodies) - settled == expected
        channel.basic_ack(inbox.delivery_tags[settled])
        settled += 1


def test_acks_of_many_give_credit_for_as_many(clients):
    channel = clients.channel()
    queue = declare(channel, auto_delete=True)
    send(channel, queue, *[b"%d" % number for number in range(40)])
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, queue)
    for batch in range(1, 5):
        inbox.wait_for_at_least(10 * batch)
        assert ready_count(channel, queue) == 40 - 10 * batch
        channel.basic_ack(inbox.delivery_tags[-1], multiple=True)
    assert len(inbox.bodies) == 40


def test_a_requeue_gives_the_credit_back(channel, queue):
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue).wait_for(1)
    for count in range(2, 6):
        channel.basic_nack(count - 1, requeue=True)
        inbox.wait_for(count)
    assert inbox.bodies == [b"0"] * 5


def test_get_takes_no_notice_of_prefetch(channel, queue):
    channel.basic_qos(prefetch_count=1)
    Inbox(channel, queue).wait_for(1)
    assert [channel.basic_get(queue)[2] for _ in range(3)] == NUMBERS[1:4]


@pytest.mark.differs_at_fronts(
    "what exceeds a prefetch of the channel waits there, and is not ready"
)
def test_a_prefetch_of_its_own_and_one_of_the_channel_both_hold(channel, queue):
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    wait_until(lambda: len(first.bodies) + len(second.bodies) == 3, channel.connection)
    assert ready_count(channel, queue) == 7
    assert max(len(first.bodies), len(second.bodies)) == 2
