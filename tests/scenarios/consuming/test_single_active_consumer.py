"""One consumer at a time, and who is next."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from support.pika_client import Inbox, cut, declare, ready_count, send
from support.waiting import wait_until

SINGLE = {"x-single-active-consumer": True}


@pytest.fixture
def queue(channel) -> str:
    return declare(channel, arguments=SINGLE)


def priority(value: int) -> dict[str, dict[str, int]]:
    return {"arguments": {"x-priority": value}}


def test_only_the_first_consumer_gets_messages_until_it_is_cancelled(channel, queue):
    inboxes = [Inbox(channel, queue, auto_ack=True) for _ in range(3)]
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 3
    for turn, inbox in enumerate(inboxes):
        send(channel, queue, *(b"%d" % number for number in range(10)))
        inbox.wait_for(10)
        assert [len(each.bodies) for each in inboxes] == [10] * (turn + 1) + [0] * (2 - turn)
        channel.basic_cancel(inbox.tag)
    send(channel, queue, b"nobody")
    assert ready_count(channel, queue) == 1


def test_what_the_active_one_held_when_its_connection_ended_goes_to_the_next(
    clients, channel, name
):
    queue = declare(channel, name, auto_delete=True, arguments=SINGLE)
    first_channel = clients.channel()
    first_channel.basic_qos(prefetch_count=3)
    first = Inbox(first_channel, queue)
    second = Inbox(channel, queue)
    send(channel, queue, *(b"%d" % number for number in range(5)))
    first.wait_for(3)
    assert second.bodies == []
    cut(first_channel.connection)
    second.wait_for(5)
    assert second.bodies == [b"%d" % number for number in range(5)]
    assert second.redelivered == [True] * 3 + [False] * 2


def test_the_next_one_is_that_of_the_highest_priority_that_waited_longest(channel, queue):
    first = Inbox(channel, queue, auto_ack=True)
    low = Inbox(channel, queue, auto_ack=True)
    high = Inbox(channel, queue, auto_ack=True, **priority(5))
    later = Inbox(channel, queue, auto_ack=True, **priority(5))
    send(channel, queue, b"to the active one")
    first.wait_for(1)
    for inbox, following in ((first, high), (high, later), (later, low)):
        channel.basic_cancel(inbox.tag)
        send(channel, queue, b"x")
        following.wait_for(1)


@pytest.mark.differs_from_rabbitmq("since 4.0")
def test_on_a_quorum_queue_a_higher_priority_takes_over_when_all_is_acked(clients, channel, name):
    arguments = {**SINGLE, "x-queue-type": "quorum"}
    channel.queue_declare(name, durable=True, arguments=arguments)
    held = clients.channel()
    first = Inbox(held, name)
    send(channel, name, b"0", b"1")
    first.wait_for(2)
    above = Inbox(channel, name, **priority(5))
    send(channel, name, b"2")
    assert ready_count(channel, name) == 1
    held.basic_ack(first.delivery_tags[0])
    assert ready_count(held, name) == 1  # it still has one
    held.basic_nack(first.delivery_tags[1])
    above.wait_for(2)
    assert (above.bodies, above.redelivered) == ([b"1", b"2"], [True, False])
    held.connection.process_data_events(0)
    assert first.bodies == [b"0", b"1"]
    channel.queue_delete(name)


def test_a_consumer_that_waits_can_be_cancelled(channel, queue):
    first = Inbox(channel, queue, auto_ack=True)
    second = Inbox(channel, queue, auto_ack=True)
    third = Inbox(channel, queue, auto_ack=True)
    channel.basic_cancel(second.tag)
    channel.basic_cancel(first.tag)
    send(channel, queue, b"x")
    third.wait_for(1)
    assert second.bodies == []


def test_a_deleted_queue_tells_those_that_wait_too(connection, channel, queue):
    cancelled: list[Any] = []
    for _ in range(2):
        own = connection.channel()
        own.add_on_cancel_callback(cancelled.append)
        Inbox(own, queue)
    channel.queue_delete(queue)
    wait_until(lambda: len(cancelled) == 2, connection)


def test_an_exclusive_consumer_is_refused(channel, queue):
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_consume(queue, print, exclusive=True)
    assert refused.value.reply_code == 403


@pytest.mark.differs_from_rabbitmq("later versions refuse basic.get")
def test_nobody_else_gets_a_message(channel, queue):
    send(channel, queue, b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_get(queue)
    assert refused.value.reply_code == 405


def test_an_auto_delete_queue_waits_for_the_last_one(channel, name):
    queue = declare(channel, name, auto_delete=True, arguments=SINGLE)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    channel.basic_cancel(first.tag)
    send(channel, queue, b"x")
    second.wait_for(1)
