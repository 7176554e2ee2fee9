"""Very many deliveries that are no neighbours come back to their queues: all of them, each to its place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pika
import pytest
from pamqp import commands
from pamqp.frame import marshal
from scenarios.clients.raw_client import RawClient
from support.pika_client import Inbox, cut, declare, drain, ready_count, send
from support.waiting import wait_until

QUEUES = 30
EACH = 60  # messages of each queue, of all queues by turns: 1,800 deliveries that are no neighbours
NUMBERS = [b"%d" % number for number in range(EACH)]
LATER = [b"later %d" % number for number in range(3)]


@pytest.fixture
def feeder(clients):
    return clients.channel()


@pytest.fixture
def queues(feeder, name):
    """Their names; they are deleted at the end."""
    made = [declare(feeder, f"{name}-{number}", auto_delete=False) for number in range(QUEUES)]
    yield made
    for queue in made:
        feeder.queue_delete(queue)


def feed(feeder, queues):
    for body in NUMBERS:
        for queue in queues:
            feeder.basic_publish("", queue, body)
        ready_count(feeder, queues[0])  # or a queue would hand out several at once


def consume(channel, queues, feeder):
    """Hold all that is sent to the queues."""
    inbox = Inbox(channel, queues[0])
    for queue in queues[1:]:
        channel.basic_consume(queue, inbox.take)
    ready_count(channel, queues[0])
    feed(feeder, queues)
    inbox.wait_for(QUEUES * EACH)
    places = [deliver.routing_key for deliver, _, _ in inbox.deliveries]
    assert all(one != other for one, other in pairwise(places))
    return inbox


@pytest.mark.parametrize("closes", ["channel", "connection"])
def test_all_is_back_when_the_close_is_answered(clients, feeder, queues, closes):
    channel = clients.channel()
    consume(channel, queues, feeder)
    (channel if closes == "channel" else channel.connection).close()
    declared = [feeder.queue_declare(queue, passive=True).method for queue in queues]
    assert [(each.message_count, each.consumer_count) for each in declared] == [(EACH, 0)] * QUEUES
    for queue in queues:
        assert drain(feeder, queue) == NUMBERS


def test_what_follows_a_close_on_its_connection_finds_all_back(clients, feeder, queues):
    connection = clients.connect()
    channel, other = connection.channel(1), connection.channel(2)
    consume(channel, queues, feeder)
    for tag in channel.consumer_tags:
        channel.basic_cancel(tag)
    channel._impl.close()  # its answer is not awaited
    assert [ready_count(other, queue) for queue in queues] == [EACH] * QUEUES
    again = connection.channel(1)
    assert drain(again, queues[0]) == NUMBERS


def test_what_follows_a_refusal_on_its_connection_finds_all_back(broker, feeder, queues):
    feed(feeder, queues)
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel(1)
        client.open_channel(2)
        gets = [marshal(commands.Basic.Get(queue=queue), 1) for queue in queues]
        client.send_bytes(b"".join(gets) * EACH)
        for _ in range(QUEUES * EACH):
            client.expect(commands.Basic.GetOk)
            client.receive_content()
        refused = marshal(commands.Queue.Declare(queue=f"{queues[0]}-absent", passive=True), 1)
        asked = [marshal(commands.Queue.Declare(queue=queue, passive=True), 2) for queue in queues]
        client.send_bytes(b"".join((refused, *asked)))  # nothing comes between them
        assert client.expect(commands.Channel.Close).reply_code == 404
        counts = [client.expect(commands.Queue.DeclareOk).message_count for _ in queues]
    assert counts == [EACH] * QUEUES
    assert drain(feeder, queues[0]) == NUMBERS


@pytest.mark.parametrize("ends", ["refused", "cut"])
def test_the_next_single_active_consumer_gets_what_came_back_first(clients, feeder, name, ends):
    single = {"x-single-active-consumer": True}
    queues = [
        declare(feeder, f"{name}-{number}", auto_delete=True, arguments=single)
        for number in range(QUEUES)
    ]
    active, waiting = clients.channel(), clients.channel()
    active.basic_qos(prefetch_count=EACH)
    inbox = consume(active, queues, feeder)
    following = [Inbox(waiting, queue, auto_ack=True) for queue in queues]
    for queue in queues:
        send(feeder, queue, *LATER)
    assert len(inbox.bodies) == QUEUES * EACH
    if ends == "refused":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            active.queue_declare(f"{name}-absent", passive=True)
    else:
        cut(active.connection)
    for inbox in following:
        inbox.wait_for(EACH + len(LATER))
        assert inbox.bodies == NUMBERS + LATER
        assert inbox.redelivered == [True] * EACH + [False] * len(LATER)


@pytest.mark.parametrize("how", ["nack", "recover"])
def test_what_is_sent_back_comes_again_in_its_order(clients, feeder, queues, how):
    channel = clients.channel()
    inbox = consume(channel, queues, feeder)
    inbox.deliveries.clear()
    if how == "nack":
        channel.basic_nack(0, multiple=True, requeue=True)
    else:
        channel.basic_recover(requeue=True)
    inbox.wait_for(QUEUES * EACH)
    assert all(inbox.redelivered)
    of_queue: dict[str, list[Any]] = {queue: [] for queue in queues}
    for deliver, _, body in inbox.deliveries:
        of_queue[deliver.routing_key].append(body)
    assert list(of_queue.values()) == [NUMBERS] * QUEUES


@pytest.mark.parametrize("again", [True, False])
def test_a_commit_settles_all_or_sends_them_back_in_their_order(clients, feeder, queues, again):
    channel = clients.channel()
    channel.tx_select()
    inbox = consume(channel, queues, feeder)
    inbox.deliveries.clear()
    channel.basic_nack(0, multiple=True, requeue=again)
    channel.tx_rollback()
    channel.basic_nack(0, multiple=True, requeue=again)
    channel.tx_commit()
    if not again:
        channel.close()
        assert [ready_count(feeder, queue) for queue in queues] == [0] * QUEUES
        return
    inbox.wait_for(QUEUES * EACH)
    of_queue: dict[str, list[Any]] = {queue: [] for queue in queues}
    for deliver, _, body in inbox.deliveries:
        of_queue[deliver.routing_key].append(body)
    assert list(of_queue.values()) == [NUMBERS] * QUEUES


def test_a_connection_that_is_cut_while_its_commit_settles_leaves_nothing(clients, feeder, queues):
    channel = clients.channel()
    channel.tx_select()
    consume(channel, queues, feeder)
    channel.basic_ack(0, multiple=True)
    channel.tx_commit()
    cut(channel.connection)
    wait_until(lambda: not any(_consumers(feeder, queue) for queue in queues))
    assert [ready_count(feeder, queue) for queue in queues] == [0] * QUEUES


def test_two_consumers_by_turns_leave_a_queue_in_its_order(clients, feeder, name):
    queue = declare(feeder, name, auto_delete=False)
    channels = [clients.channel() for _ in range(2)]
    for channel in channels:
        channel.basic_qos(prefetch_count=300)
    inboxes = [Inbox(channel, queue) for channel in channels]
    bodies = [b"%d" % number for number in range(600)]
    for body in bodies:
        feeder.basic_publish("", queue, body)
        ready_count(feeder, queue)  # or a consumer would get several at once
    for inbox in inboxes:
        inbox.wait_for(300)
    send(feeder, queue, *LATER)
    for channel in channels:
        cut(channel.connection)
    wait_until(lambda: ready_count(feeder, queue) == len(bodies + LATER))
    assert drain(feeder, queue) == bodies + LATER
    feeder.queue_delete(queue)


def test_a_connection_that_is_cut_behind_a_nack_returns_all(clients, feeder, queues):
    channel = clients.channel()
    consume(channel, queues, feeder)
    channel.basic_nack(0, multiple=True, requeue=True)
    cut(channel.connection)
    wait_until(lambda: all(ready_count(feeder, queue) == EACH for queue in queues))
    for queue in queues:
        assert drain(feeder, queue) == NUMBERS


def test_queues_that_go_with_their_connection_do_not_disturb_the_others(clients, feeder, queues):
    channel = clients.channel()
    own = [declare(channel) for _ in range(3)]
    leaving = [declare(feeder, f"{queues[0]}-left-{number}", auto_delete=True) for number in "ab"]
    inbox = consume(channel, queues, feeder)
    for queue in own + leaving:
        channel.basic_consume(queue, inbox.take)
        send(channel, queue, b"own")
    inbox.wait_for(QUEUES * EACH + len(own + leaving))
    cut(channel.connection)
    wait_until(lambda: all(ready_count(feeder, queue) == EACH for queue in queues))
    for queue in queues:
        assert drain(feeder, queue) == NUMBERS
    again = [declare(feeder, queue, auto_delete=True) for queue in leaving]
    assert [ready_count(feeder, queue) for queue in again] == [0, 0]


def test_a_queue_may_be_deleted_and_others_purged_meanwhile(clients, feeder, queues):
    channel = clients.channel()
    consume(channel, queues, feeder)
    cut(channel.connection)
    for queue in queues[::2]:
        feeder.queue_delete(queue)
        declare(feeder, queue, auto_delete=False)
    for queue in queues[1::2]:
        feeder.queue_purge(queue)  # what is not back yet comes back
    assert [ready_count(feeder, queue) for queue in queues[::2]] == [0] * (QUEUES // 2)
    wait_until(lambda: all(not _consumers(feeder, queue) for queue in queues))
    for queue in queues[1::2]:
        assert ready_count(feeder, queue) in (0, EACH)


def _consumers(channel, queue):
    return channel.queue_declare(queue, passive=True).method.consumer_count
