"""Queues of limited length: what leaves, and what does not come in."""

from __future__ import annotations

from functools import partial

import pika
import pytest
from pamqp import commands
from scenarios.clients.bad_input import Peer
from scenarios.clients.raw_client import content_body, content_header, message
from support.pika_client import (
    PERSISTENT,
    Clients,
    Inbox,
    declare,
    drain,
    ready_count,
    round_trip,
    send,
)
from support.waiting import wait_until

NUMBERS = [b"%d" % number for number in range(10)]


def test_the_oldest_leave_a_full_queue(channel):
    queue = declare(channel, arguments={"x-max-length": 3})
    send(channel, queue, *NUMBERS)
    wait_until(lambda: ready_count(channel, queue) == 3)
    assert drain(channel, queue) == NUMBERS[7:]


def test_bytes_of_bodies_are_limited(channel):
    queue = declare(channel, arguments={"x-max-length-bytes": 100})
    properties = pika.BasicProperties(headers={"not": "counted" * 100})
    for size in (40, 40, 40, 10, 10):
        channel.basic_publish("", queue, bytes(size), properties)
    round_trip(channel)
    wait_until(lambda: ready_count(channel, queue) == 4)
    assert [len(body) for body in drain(channel, queue)] == [40, 40, 10, 10]
    send(channel, queue, bytes(101), b"x")
    wait_until(lambda: drain(channel, queue) == [b"x"])


def test_what_consumers_hold_does_not_count(channel):
    queue = declare(channel, arguments={"x-max-length": 2})
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, queue)
    for number in NUMBERS[:3]:
        send(channel, queue, number)
        inbox.wait_for(int(number) + 1)
    send(channel, queue, *NUMBERS[3:])
    wait_until(lambda: ready_count(channel, queue) == 2)
    channel.basic_ack(inbox.delivery_tags[-1], multiple=True)
    inbox.wait_for(5)
    assert inbox.bodies == [*NUMBERS[:3], *NUMBERS[8:]]


def test_a_consumer_that_waits_gets_everything_in_spite_of_a_limit(channel):
    queue = declare(channel, arguments={"x-max-length": 0})
    inbox = Inbox(channel, queue, auto_ack=True)
    send(channel, queue, *NUMBERS)
    inbox.wait_for(10)


def test_what_leaves_becomes_a_dead_letter(channel):
    morgue = declare(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    queue = declare(channel, arguments={"x-max-length": 4, **arguments})
    send(channel, queue, *NUMBERS)
    wait_until(lambda: ready_count(channel, morgue) == 6)
    _, properties, body = channel.basic_get(morgue, auto_ack=True)
    assert body == b"0"
    assert properties.headers["x-death"][0]["reason"] == "maxlen"
    assert drain(channel, morgue) == NUMBERS[1:6]
    assert drain(channel, queue) == NUMBERS[6:]


@pytest.fixture
def confirming(peer: Peer) -> Peer:
    peer.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    return peer


def outcomes(peer: Peer, count: int) -> str:
    """For each publish, + or -."""
    told: dict[int, str] = {}
    while len(told) < count:
        _, answer = peer.receive()
        sign = {commands.Basic.Ack: "+", commands.Basic.Nack: "-"}[type(answer)]
        last = answer.delivery_tag
        for tag in range(1 if answer.multiple else last, last + 1):
            told.setdefault(tag, sign)
    return "".join(told[tag] for tag in sorted(told))


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses_and_says_so(confirming: Peer, overflow: str):
    arguments = {"x-max-length": 3, "x-overflow": overflow}
    queue = confirming.declare(arguments=arguments)
    confirming.send_bytes(b"".join(message(queue, b"%d" % number) for number in range(5)))
    assert outcomes(confirming, 5) == "+++--"
    assert [confirming.get(queue) for _ in range(4)] == [b"0", b"1", b"2", None]
    confirming.send_bytes(message(queue, b"6"))
    assert confirming.expect(commands.Basic.Ack).delivery_tag == 6


def test_a_full_queue_refuses_by_bytes(confirming: Peer):
    arguments = {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}
    queue = confirming.declare(arguments=arguments)
    confirming.send_bytes(message(queue, bytes(11)) + message(queue, bytes(6)))
    assert outcomes(confirming, 2) == "-+"
    confirming.send_bytes(message(queue, bytes(5)))
    assert confirming.expect(commands.Basic.Nack).delivery_tag == 3
    confirming.send_bytes(message(queue, bytes(4)))
    assert confirming.expect(commands.Basic.Ack).delivery_tag == 4


def test_a_publish_that_one_of_two_queues_refuses_is_refused(confirming: Peer):
    full = confirming.declare(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    free = confirming.declare()
    for queue in (full, free):
        bind = commands.Queue.Bind(queue=queue, exchange="amq.fanout", routing_key="")
        confirming.call(bind, commands.Queue.BindOk)
    for _ in range(2):
        confirming.send(commands.Basic.Publish(exchange="amq.fanout"), 1)
        confirming.send_bytes(content_header(1) + content_body(b"x"))
    assert outcomes(confirming, 2) == "+-"
    assert [confirming.get(full), confirming.get(full)] == [b"x", None]
    assert [confirming.get(free), confirming.get(free)] == [b"x", b"x"]


def test_what_is_refused_without_confirms_is_dropped_quietly(channel):
    queue = declare(channel, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    send(channel, queue, *NUMBERS)
    assert drain(channel, queue) == NUMBERS[:2]


def test_what_is_refused_can_become_a_dead_letter(channel):
    morgue = declare(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    arguments |= {"x-max-length": 4, "x-overflow": "reject-publish-dlx"}
    queue = declare(channel, arguments=arguments)
    send(channel, queue, *NUMBERS)
    wait_until(lambda: ready_count(channel, morgue) == 6)
    _, properties, body = channel.basic_get(morgue, auto_ack=True)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"4", "maxlen")
    assert drain(channel, queue) == NUMBERS[:4]


def test_a_limit_holds_over_a_restart(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("count", durable=True, arguments={"x-max-length": 5})
    channel.queue_declare("bytes", durable=True, arguments={"x-max-length-bytes": 5})
    channel.confirm_delivery()
    for number in NUMBERS:
        channel.basic_publish("", "count", number, PERSISTENT)
        channel.basic_publish("", "bytes", number, PERSISTENT)
    broker.kill()
    broker.start()
    channel = clients.channel()

    def has_all(queue: str) -> bool:
        return bool(ready_count(channel, queue) == 5)

    for queue in ("count", "bytes"):
        wait_until(partial(has_all, queue))
        send(channel, queue, b"x")
        wait_until(partial(has_all, queue))
        assert drain(channel, queue) == [*NUMBERS[6:], b"x"]
    clients.close()
