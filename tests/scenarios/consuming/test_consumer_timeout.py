"""What a consumer does not settle in time is taken back; nothing else happens to it."""

from __future__ import annotations

import time

import pika
import pytest
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, drain, ready_count, round_trip, send
from support.waiting import wait_until

TIMEOUT = 1_500  # ms
GONE = {"x-consumer-timeout": TIMEOUT}
# Of a consumer that settles in time, however slow the machine is.
PATIENT = {"x-consumer-timeout": 3_600_000}

pytestmark = pytest.mark.differs_from_rabbitmq("closes the channel")


@pytest.mark.parametrize("asked_by", ["queue", "consumer"])
def test_a_message_that_is_not_settled_in_time_goes_to_another_consumer(clients, asked_by):
    slow, quick = clients.channel(), clients.channel()
    of_queue = {"x-consumer-timeout": 60_000 if asked_by == "consumer" else TIMEOUT}
    queue = declare(slow, auto_delete=True, arguments=of_queue)
    slow.basic_qos(prefetch_count=1)
    of_consumer = GONE if asked_by == "consumer" else None
    lazy = Inbox(slow, queue, arguments=of_consumer)
    quick.basic_qos(prefetch_count=1)
    other = Inbox(quick, queue, arguments=PATIENT)
    publisher = quick.connection.channel()
    publisher.tx_select()
    for body in (b"1", b"2"):  # at once, and one to each consumer
        publisher.basic_publish("", queue, body)
    began = time.monotonic()
    publisher.tx_commit()
    lazy.wait_for(1)
    other.wait_for(1)
    quick.basic_ack(other.delivery_tags[0])
    wait_until(lambda: len(other.bodies) == 2, slow.connection, quick.connection)
    assert time.monotonic() - began >= TIMEOUT / 1_000 * 0.9
    assert other.bodies == [b"2", b"1"]
    assert other.redelivered == [False, True]
    # It keeps its channel, may settle late, and is served again from then on.
    send(slow, queue, b"3")
    assert lazy.bodies == [b"1"]
    slow.basic_ack(lazy.delivery_tags[0])
    wait_until(lambda: len(lazy.bodies) == 2, slow.connection)
    assert lazy.bodies == [b"1", b"3"]
    assert slow.is_open


def test_a_late_answer_changes_nothing_of_the_message(channel):
    queue = declare(channel, arguments=GONE)
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"1")
    inbox.wait_for(1)
    channel.basic_cancel(inbox.tag)
    wait_until(lambda: ready_count(channel, queue) == 1)
    channel.basic_reject(inbox.delivery_tags[0], requeue=False)
    assert drain(channel, queue) == [b"1"]
    channel.basic_ack(inbox.delivery_tags[0])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag 1"):
        ready_count(channel, queue)


def test_what_times_out_again_and_again_becomes_a_dead_letter(channel):
    morgue = declare(channel)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    queue = declare(channel, arguments={**GONE, **letters, "x-delivery-limit": 1})
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"1")
    wait_until(lambda: len(inbox.bodies) == 2, channel.connection)
    wait_until(lambda: ready_count(channel, morgue) == 1)
    assert inbox.redelivered == [False, True]


def test_a_single_active_consumer_stands_aside(clients):
    slow, quick = clients.channel(), clients.channel()
    single = {**GONE, "x-single-active-consumer": True}
    queue = declare(slow, auto_delete=True, arguments=single)
    for channel in (slow, quick):
        channel.basic_qos(prefetch_count=1)
    lazy, other = Inbox(slow, queue), Inbox(quick, queue, arguments=PATIENT)
    send(slow, queue, b"1", b"2")
    lazy.wait_for(1)
    other.wait_for(1)
    assert (lazy.bodies, other.bodies, other.redelivered) == ([b"1"], [b"1"], [True])
    quick.basic_ack(other.delivery_tags[0])
    other.wait_for(2)
    assert other.bodies == [b"1", b"2"]


def test_a_consumer_that_settles_in_time_is_left_alone(channel):
    queue = declare(channel, arguments=GONE)
    inbox = Inbox(channel, queue)
    settled: list[bytes] = []
    late: set[bytes] = set()  # what a pause of the machine kept from being settled in time

    def settle() -> None:
        for deliver, _, body in inbox.deliveries[len(settled) :]:
            channel.basic_ack(deliver.delivery_tag)
            settled.append(body)

    end = time.monotonic() + 2 * TIMEOUT / 1_000
    while (began := time.monotonic()) < end:
        body = b"%f" % began
        send(channel, queue, body)
        while body not in settled:
            inbox.wait_for_at_least(len(settled) + 1)
            settle()
        round_trip(channel)
        if time.monotonic() - began >= TIMEOUT / 1_000:
            late.add(body)
    assert {body for deliver, _, body in inbox.deliveries if deliver.redelivered} <= late


def test_a_timeout_that_cannot_be_is_refused(clients):
    for value in (-1, "1000", True):
        channel = clients.channel()
        queue = declare(channel)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            Inbox(channel, queue, arguments={"x-consumer-timeout": value})
        assert refused.value.reply_code == 406


def test_a_policy_sets_the_timeout_of_consumers_that_are_there(fresh_broker):
    broker = fresh_broker()
    clients, door = Clients(broker.url), ManagementDoor(broker)
    channel = clients.channel()
    queue = declare(channel, "tasks")
    definition = {"pattern": "tasks", "definition": {"consumer-timeout": TIMEOUT}}
    inbox = Inbox(channel, queue)
    door.do("PUT", "policies", "/", "timeout", body=definition)
    send(channel, queue, b"1")
    wait_until(lambda: len(inbox.bodies) == 2, channel.connection)
    (row,) = door.get("consumers")
    assert (row["messages_timed_out"] >= 1, row["messages_unacknowledged"] >= 2) == (True, True)
    clients.close()
