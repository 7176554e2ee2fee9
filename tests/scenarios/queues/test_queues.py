"""Queues: what survives the process, who is given what, and how messages leave."""

from __future__ import annotations

import pika
import pytest
from support.pika_client import (
    PERSISTENT,
    Clients,
    Inbox,
    declare,
    drain,
    exists,
    let_stop,
    ready_count,
    send,
)
from support.waiting import wait_until

TRANSIENT = pika.BasicProperties(delivery_mode=1)


@pytest.fixture
def kept(fresh_broker):
    """A broker with one durable queue, its clients and a channel in confirm mode."""
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    yield broker, clients, channel
    clients.close()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_confirmed_persistent_messages_survive_the_end_of_the_process(kept, end):
    broker, clients, channel = kept
    bodies = [b"%d" % number for number in range(100)]
    for body in bodies:
        channel.basic_publish("", "kept", body, PERSISTENT)
    let_stop(getattr(broker, end), channel.connection)
    broker.start()
    assert drain(clients.channel(), "kept") == bodies


def test_a_restarted_queue_gives_back_what_a_message_was_published_with(kept):
    broker, clients, channel = kept
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_bind("kept", "x", "#")
    properties = pika.BasicProperties(
        delivery_mode=2, headers={"a": [1, {"b": None}]}, message_id="m-1", priority=3
    )
    channel.basic_publish("x", "some.key", b"\0\xff" * 1_000, properties)
    broker.kill()
    broker.start()
    found, back, body = clients.channel().basic_get("kept", auto_ack=True)
    assert (found.exchange, found.routing_key, body) == ("x", "some.key", b"\0\xff" * 1_000)
    assert back == properties


def test_transient_messages_do_not_survive_a_restart(kept):
    broker, clients, channel = kept
    for number in range(4):
        how = PERSISTENT if number % 2 else TRANSIENT
        channel.basic_publish("", "kept", b"%d" % number, how)
    let_stop(broker.restart, channel.connection)
    assert drain(clients.channel(), "kept") == [b"1", b"3"]


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_an_auto_delete_queue_outlives_the_end_of_the_process_as_long_as_it_is_consumed(kept, end):
    broker, clients, channel = kept
    channel.queue_declare("own", durable=True, auto_delete=True)
    channel.basic_publish("", "own", b"confirmed", PERSISTENT)
    Inbox(channel, "own").wait_for(1)
    let_stop(getattr(broker, end), channel.connection)
    broker.start()
    channel = clients.channel()
    inbox = Inbox(channel, "own").wait_for(1)
    channel.basic_cancel(inbox.tag)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
        channel.queue_declare("own", passive=True)


def test_acked_messages_stay_gone_and_unacked_ones_return_in_order_after_a_restart(kept):
    broker, clients, channel = kept
    for number in range(6):
        channel.basic_publish("", "kept", b"%d" % number, PERSISTENT)
    tags = [channel.basic_get("kept")[0].delivery_tag for _ in range(4)]
    channel.basic_ack(tags[0])
    channel.basic_ack(tags[2])
    assert ready_count(channel, "kept") == 2
    let_stop(broker.restart, channel.connection)
    assert drain(clients.channel(), "kept") == [b"1", b"3", b"4", b"5"]


def test_a_purged_queue_is_still_empty_after_a_restart(kept):
    broker, clients, channel = kept
    for number in range(10):
        channel.basic_publish("", "kept", b"%d" % number, PERSISTENT)
    assert channel.queue_purge("kept").method.message_count == 10
    let_stop(broker.restart, channel.connection)
    channel = clients.channel()
    assert ready_count(channel, "kept") == 0
    send(channel, "kept", b"fresh")
    assert drain(channel, "kept") == [b"fresh"]


def test_a_queue_declared_again_after_its_deletion_is_empty_also_after_a_restart(kept):
    broker, clients, channel = kept
    channel.basic_publish("", "kept", b"old", PERSISTENT)
    channel.queue_delete("kept")
    channel.queue_declare("kept", durable=True)
    channel.basic_publish("", "kept", b"new", PERSISTENT)
    broker.kill()
    broker.start()
    assert drain(clients.channel(), "kept") == [b"new"]


def test_large_and_small_messages_survive_a_kill_together(kept):
    broker, clients, channel = kept
    bodies = [bytes([size % 251]) * size for size in (0, 1, 3_000_000, 17, 200_000, 4_096)]
    for body in bodies:
        channel.basic_publish("", "kept", body, PERSISTENT)
    broker.kill()
    broker.start()
    assert drain(clients.channel(), "kept") == bodies


def test_a_fanout_to_many_durable_queues_survives_in_each(kept):
    broker, clients, channel = kept
    queues = [f"copy.{number}" for number in range(20)]
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "amq.fanout")
    for body in (b"a", b"b"):
        channel.basic_publish("amq.fanout", "", body, PERSISTENT)
    broker.kill()
    broker.start()
    channel = clients.channel()
    assert [drain(channel, queue) for queue in queues] == [[b"a", b"b"]] * 20


def test_many_restarts_lose_and_repeat_nothing(kept):
    broker, clients, channel = kept
    taken = []
    for number in range(3):
        for part in range(4):
            channel.basic_publish("", "kept", b"%d.%d" % (number, part), PERSISTENT)
        found, _, body = channel.basic_get("kept")
        channel.basic_ack(found.delivery_tag)
        taken.append(body)
        ready_count(channel, "kept")
        let_stop(broker.restart, channel.connection)
        channel = clients.channel()
        channel.confirm_delivery()
    everything = [b"%d.%d" % (number, part) for number in range(3) for part in range(4)]
    assert taken + drain(channel, "kept") == everything


def has_arrived(number: int, inboxes: list[Inbox]):
    """Whether the message of this number is in one of the inboxes."""
    return lambda: b"%d" % number in [body for inbox in inboxes for body in inbox.bodies]


def test_consumers_take_turns(channel):
    queue = declare(channel)
    inboxes = [Inbox(channel, queue, auto_ack=True) for _ in range(3)]
    for number in range(9):
        send(channel, queue, b"%d" % number)
        wait_until(has_arrived(number, inboxes), channel.connection)
    assert sorted(len(inbox.bodies) for inbox in inboxes) == [3, 3, 3]
    assert {tuple(int(body) % 3 for body in inbox.bodies) for inbox in inboxes} == {
        *((0, 0, 0), (1, 1, 1), (2, 2, 2)),
    }


def test_a_backlog_is_shared_by_all_consumers_that_acknowledge(clients):
    owner = clients.channel()
    queue = declare(owner, auto_delete=True)
    send(owner, queue, *[b"%d" % number for number in range(200)])
    workers = [clients.channel() for _ in range(4)]
    inboxes = []
    for worker in workers:
        worker.basic_qos(prefetch_count=10)
        inboxes.append(Inbox(worker, queue))
    acked = [0] * 4

    def all_acked() -> bool:
        for index, inbox in enumerate(inboxes):
            for tag in inbox.delivery_tags[acked[index] :]:
                workers[index].basic_ack(tag)
                acked[index] += 1
        return sum(acked) == 200

    wait_until(all_acked, *[worker.connection for worker in workers])
    assert sorted(int(b) for inbox in inboxes for b in inbox.bodies) == list(range(200))
    assert min(acked) >= 10


def test_an_unused_auto_delete_queue_stays_until_it_had_a_consumer(clients):
    first = clients.connect()
    queue = declare(first.channel(), auto_delete=True)
    first.close()
    second = clients.connect()
    assert exists(second, queue)
    Inbox(second.channel(), queue)
    second.close()
    third = clients.connect()
    wait_until(lambda: not exists(third, queue))


def test_basic_get_does_not_count_as_a_consumer_of_an_auto_delete_queue(channel):
    queue = declare(channel, auto_delete=True)
    send(channel, queue, b"x")
    assert drain(channel, queue) == [b"x"]
    assert exists(channel.connection, queue)
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    assert not exists(channel.connection, queue)


def test_a_queue_keeps_what_two_publishers_sent_each_in_their_order(clients):
    first, second = clients.channel(), clients.channel()
    queue = declare(first, auto_delete=True)
    for number in range(200):
        first.basic_publish("", queue, b"a%d" % number)
        second.basic_publish("", queue, b"b%d" % number)
    for publisher in (first, second):
        ready_count(publisher, queue)
    bodies = drain(first, queue)
    for letter in (b"a", b"b"):
        own = [body for body in bodies if body.startswith(letter)]
        assert own == [letter + b"%d" % number for number in range(200)]
    first.queue_delete(queue)


def test_a_slow_consumer_does_not_hold_up_another_queue(clients):
    stuck, other = clients.channel(), clients.channel()
    queue = declare(stuck)
    Inbox(stuck, queue)
    body = bytes(100_000)
    feeder = stuck.connection.channel()
    for _ in range(100):
        feeder.basic_publish("", queue, body)
    quick = declare(other)
    inbox = Inbox(other, quick, auto_ack=True)
    send(other, quick, b"quick")
    inbox.wait_for(1)


def test_a_consumer_that_reads_nothing_receives_all_in_the_end(clients):
    channel = clients.channel()
    queue = declare(channel, auto_delete=True)
    inbox = Inbox(channel, queue, auto_ack=True)
    publisher = clients.channel()
    bodies = [b"%05d" % number + bytes(20_000) for number in range(1_000)]
    for body in bodies:
        publisher.basic_publish("", queue, body)
    ready_count(publisher, queue)
    wait_until(lambda: len(inbox.bodies) == 1_000, channel.connection)
    assert inbox.bodies == bodies
