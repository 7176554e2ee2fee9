"""Clients of any node: exchanges that delay, deduplicate and remember; direct replies; what nodes tell."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from cluster.brokers.mirrored_brokers import MirroredBrokers, mirrored_brokers
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredBrokers]:
    """Three brokers whose followers are fronts."""
    folder: Path = tmp_path_factory.mktemp("fronts")
    with mirrored_brokers(folder) as nodes:
        nodes.until_led(in_sync=3)
        yield nodes


@pytest.fixture
def channels(fronts: MirroredBrokers) -> Iterator[list[pika.channel.Channel]]:
    """Channels with confirms: of two fronts, and of the leader."""
    leader = fronts.leader()
    nodes = [each for each in fronts.brokers.values() if each is not leader]
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(each)) for each in (*nodes, leader)]
        opened = [each.channel() for each in connections]
        for channel in opened:
            channel.confirm_delivery()
        yield opened


@contextlib.contextmanager
def connected(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    """A client of a node."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def taken(channel: pika.channel.Channel, queue: str, count: int) -> list[bytes]:
    """The bodies of the next messages of a queue."""
    bodies: list[bytes] = []
    for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=WAIT_SECONDS):
        if method is None:
            break
        bodies.append(body)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def _replies(channel: pika.channel.Channel) -> list[Any]:
    """What comes to a channel as direct replies."""
    replies: list[Any] = []
    channel.basic_consume(PSEUDO_QUEUE, lambda *reply: replies.append(reply), auto_ack=True)
    return replies


def with_headers(**headers: object) -> pika.BasicProperties:
    """Properties of a persistent message; underlines in names of headers are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return pika.BasicProperties(delivery_mode=2, headers=named)


def test_a_delayed_message_comes_when_it_is_due(channels: list[pika.channel.Channel]) -> None:
    front, other, _ = channels
    arguments = {"x-delayed-type": "direct"}
    front.exchange_declare("late", "x-delayed-message", durable=True, arguments=arguments)
    front.exchange_declare("before", "fanout", durable=True)
    front.exchange_bind("late", "before")
    front.queue_declare("due", durable=True)
    front.queue_bind("due", "late", "k")
    front.basic_publish("late", "k", b"late", with_headers(x_delay=1_500), mandatory=True)
    front.basic_publish("before", "k", b"by a binding", with_headers(x_delay=500), mandatory=True)
    front.basic_publish("before", "k", b"at once", PERSISTENT, mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        front.basic_publish("late", "nowhere", b"m", PERSISTENT, mandatory=True)
    assert taken(other, "due", 3) == [b"at once", b"by a binding", b"late"]


def test_a_duplicate_of_another_front_is_dropped(channels: list[pika.channel.Channel]) -> None:
    front, other, leader = channels
    arguments = {"x-cache-size": 100}
    front.exchange_declare("once", "x-message-deduplication", arguments=arguments, durable=True)
    front.queue_declare("unique", durable=True)
    front.queue_bind("unique", "once", "k")
    for number in range(20):
        seen = with_headers(x_deduplication_header=str(number))
        for channel in (front, other, leader):
            channel.basic_publish("once", "k", b"%d" % number, seen, mandatory=True)
    other.basic_publish("once", "k", b"last", PERSISTENT)
    assert taken(leader, "unique", 21) == [*(b"%d" % number for number in range(20)), b"last"]
    front.queue_unbind("unique", "once", "k")
    for channel in channels:
        unseen = with_headers(x_deduplication_header="unseen")
        with pytest.raises(pika.exceptions.UnroutableError) as returned:
            channel.basic_publish("once", "k", b"m", unseen, mandatory=True)
        assert returned.value.messages[0].method.reply_text == "NO_ROUTE"
        channel.basic_publish("once", "k", b"m", unseen)


def test_history_of_all_nodes_is_handed_to_a_queue_that_is_bound_later(
    channels: list[pika.channel.Channel],
) -> None:
    front, other, leader = channels
    arguments = {"x-recent-history-length": 5}
    other.exchange_declare("past", "x-recent-history", arguments=arguments, durable=True)
    other.queue_declare("later", durable=True)
    for number, channel in zip(range(9), itertools.cycle(channels)):
        channel.basic_publish("past", "k", b"%d" % number, PERSISTENT)
    front.queue_bind("later", "past")
    assert sorted(taken(leader, "later", 5)) == [b"4", b"5", b"6", b"7", b"8"]


def test_order_holds_between_exchanges_and_queues(channels: list[pika.channel.Channel]) -> None:
    front, _, leader = channels
    front.exchange_declare("kept", "x-recent-history", durable=True)
    front.queue_declare("ordered", durable=True)
    front.queue_bind("ordered", "kept")
    with contextlib.closing(front.connection.channel()) as plain:  # many at a time
        for number in range(600):
            exchange = "kept" if number % 3 else ""
            plain.basic_publish(exchange, "ordered", b"%d" % number, PERSISTENT)
        assert taken(leader, "ordered", 600) == [b"%d" % number for number in range(600)]


def test_who_asks_anywhere_is_answered_from_anywhere(
    channels: list[pika.channel.Channel],
) -> None:
    for place, (asker, answerer) in enumerate(itertools.product(channels, channels)):
        service = f"service {place}"
        with contextlib.closing(asker.connection.channel()) as asking:
            answerer.queue_declare(service)
            requests = answerer.consume(service, auto_ack=True, inactivity_timeout=WAIT_SECONDS)
            answers = _replies(asking)
            asked = pika.BasicProperties(reply_to=PSEUDO_QUEUE, correlation_id="7")
            asking.basic_publish("", service, b"question", asked)
            _, properties, body = next(requests)
            address = properties.reply_to
            assert body == b"question"
            assert answerer.queue_declare(address, passive=True).method.consumer_count == 1
            told = pika.BasicProperties(correlation_id="7")
            answerer.basic_publish("", address, b"answer", told, mandatory=True)
            while not answers:
                asking.connection.process_data_events(WAIT_SECONDS)
            assert (answers[0][2].correlation_id, answers[0][3]) == ("7", b"answer")
            answerer.cancel()
        answerer.basic_publish("", address, b"too late")
        answerer.queue_delete(service)


def test_events_of_all_nodes_are_published_once(
    fronts: MirroredBrokers, channels: list[pika.channel.Channel]
) -> None:
    front, other, _ = channels
    front.queue_declare("lines")
    front.queue_declare("events")
    front.queue_bind("events", "amq.rabbitmq.event", "queue.created")
    front.queue_bind("events", "amq.rabbitmq.event", "connection.created")
    front.queue_bind("lines", "amq.rabbitmq.log", "info")
    for channel in channels:
        channel.queue_declare("told")
        channel.queue_delete("told")
    for broker in fronts.brokers.values():
        with connected(broker):
            pass
    keys = []
    for method, _, _ in other.consume("events", auto_ack=True, inactivity_timeout=1):
        if method is None:
            break
        keys.append(method.routing_key)
    assert sorted(keys) == ["connection.created"] * 3 + ["queue.created"] * 3
    other.cancel()
    nodes = set()
    for method, properties, _ in other.consume("lines", auto_ack=True, inactivity_timeout=1):
        if method is None:
            break
        nodes.add(properties.headers["node"])
    assert len(nodes) == 3
