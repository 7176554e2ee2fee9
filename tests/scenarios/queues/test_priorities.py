"""Queues with priorities."""

from __future__ import annotations

import random

import pika
import pytest
from support.pika_client import Clients, Inbox, declare, drain, ready_count, round_trip, send
from support.sampling import sampled
from support.waiting import wait_until


def publish(channel, queue: str, *messages: tuple[int, str], **properties) -> None:
    for priority, body in messages:
        how = pika.BasicProperties(priority=priority, **properties)
        channel.basic_publish("", queue, body.encode(), how)
    round_trip(channel)


@pytest.fixture
def queue(channel) -> str:
    return declare(channel, arguments={"x-max-priority": 5})


def test_the_highest_comes_first_and_within_one_priority_the_first(channel, queue):
    publish(channel, queue, (1, "a"), (3, "b"), (1, "c"), (5, "d"), (3, "e"))
    send(channel, queue, b"none")
    wait_until(lambda: ready_count(channel, queue) == 6)
    assert drain(channel, queue) == [b"d", b"b", b"e", b"a", b"c", b"none"]


def test_a_priority_above_the_highest_counts_as_that(channel, queue):
    publish(channel, queue, (5, "a"), (200, "b"), (5, "c"), (4, "d"))
    wait_until(lambda: ready_count(channel, queue) == 4)
    assert drain(channel, queue) == [b"a", b"b", b"c", b"d"]


def test_what_comes_back_comes_in_its_old_place(channel, queue):
    publish(channel, queue, (1, "a"), (2, "b"), (2, "c"), (1, "d"))
    wait_until(lambda: ready_count(channel, queue) == 4)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    for tag in reversed(tags):
        channel.basic_nack(tag, requeue=True)
    wait_until(lambda: ready_count(channel, queue) == 4)
    got = [channel.basic_get(queue, auto_ack=True) for _ in range(4)]
    assert [body for _, _, body in got] == [b"b", b"c", b"a", b"d"]
    assert [found.redelivered for found, _, _ in got] == [True, True, True, False]


def test_a_consumer_gets_what_is_most_urgent_at_the_moment(channel, queue):
    publish(channel, queue, *((0, f"low{number}") for number in range(20)))
    wait_until(lambda: ready_count(channel, queue) == 20)
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue).wait_for(2)
    publish(channel, queue, (3, "high"))
    wait_until(lambda: ready_count(channel, queue) == 19)
    channel.basic_ack(inbox.delivery_tags[0])
    inbox.wait_for(3)
    assert inbox.bodies == [b"low0", b"low1", b"high"]


def test_thousands_of_all_priorities_come_in_order(channel, queue):
    choice = random.Random(1)
    sent = [(choice.randint(0, 5), f"m{number}") for number in range(3_000)]
    publish(channel, queue, *sent)
    wait_until(lambda: ready_count(channel, queue) == len(sent))
    inbox = Inbox(channel, queue, auto_ack=True).wait_for(len(sent))
    expected = sorted(range(len(sent)), key=lambda at: -sent[at][0])
    assert inbox.bodies == [sent[at][1].encode() for at in expected]


def test_a_full_queue_lets_the_most_urgent_leave(channel):
    queue = declare(channel, arguments={"x-max-priority": 5, "x-max-length": 2})
    publish(channel, queue, (1, "a"), (2, "b"), (1, "c"))
    wait_until(lambda: ready_count(channel, queue) == 2)
    assert drain(channel, queue) == [b"a", b"c"]


def test_messages_expire_at_the_head_only(channel):
    queue = declare(channel, arguments={"x-max-priority": 5})
    publish(channel, queue, (5, "stays"))
    publish(channel, queue, (1, "short"), expiration="20")
    clock = declare(channel, arguments={"x-message-ttl": 100})
    send(channel, clock, b"x")
    wait_until(lambda: ready_count(channel, clock) == 0)
    assert drain(channel, queue) == [b"stays"]


@pytest.mark.parametrize("end", sampled(["kill", "terminate"], 2))
def test_priorities_outlive_a_restart_also_of_what_is_on_the_disk(fresh_broker, end):
    broker = fresh_broker(ROUTELOG_MEMORY_TAIL_BYTES="1048576", ROUTELOG_FLUSH_SECONDS="0.05")
    clients = Clients(broker.url)
    channel = clients.channel()
    arguments = {"x-max-priority": 3}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.confirm_delivery()
    sent = [(number % 4, f"{number} ".ljust(2_000, ".")) for number in range(1_200)]
    publish(channel, "q", *sent, delivery_mode=2)
    found, _, body = channel.basic_get("q")
    assert body == sent[3][1].encode()
    getattr(broker, end)()
    broker.start()
    channel = clients.channel()
    inbox = Inbox(channel, "q", auto_ack=True).wait_for(1_200)
    expected = sorted(range(1_200), key=lambda at: -sent[at][0])
    assert inbox.bodies == [sent[at][1].encode() for at in expected]
    if end == "terminate":  # a kill may take what was handed out in the last 10 ms
        assert inbox.redelivered[0] is True
    assert found.redelivered is False
    clients.close()


def test_purge_takes_all_of_them(channel, queue):
    publish(channel, queue, (1, "a"), (2, "b"))
    wait_until(lambda: ready_count(channel, queue) == 2)
    channel.basic_get(queue)
    publish(channel, queue, (1, "c"))
    wait_until(lambda: ready_count(channel, queue) == 2)
    assert channel.queue_purge(queue).method.message_count == 2
    publish(channel, queue, (1, "d"))
    assert drain(channel, queue) == [b"d"]
