"""What consumers are told of messages that come again: the flag, the count, and what a restart leaves."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from support.broker_process import BrokerProcess
from support.pika_client import (
    PERSISTENT,
    Clients,
    Inbox,
    cut,
    declare,
    let_stop,
    ready_count,
    send,
)
from support.sampling import sampled
from support.waiting import wait_until

QUORUM = {"x-queue-type": "quorum"}
COUNT = "x-delivery-count"
KILL, STOP = "kill", "terminate"


def durable(channel: BlockingChannel, name: str, *, quorum: bool = False) -> str:
    """Declare a durable queue."""
    return declare(channel, name, durable=True, arguments=QUORUM if quorum else None)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publish persistent messages and wait until they are durable: all that came before then is, too."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def told(inbox: Inbox) -> list[tuple[bytes, bool, object]]:
    """Body, flag and count of every delivery."""
    return [
        (body, deliver.redelivered, (properties.headers or {}).get(COUNT))
        for deliver, properties, body in inbox.deliveries
    ]


def got(channel: BlockingChannel, queue: str) -> tuple[bytes, bool, object]:
    """Body, flag and count of the next message, which stays unsettled."""
    found, properties, body = channel.basic_get(queue)
    assert found is not None
    return body, found.redelivered, (properties.headers or {}).get(COUNT)


@pytest.fixture
def quorum(channel, name):
    """A durable queue of type quorum, deleted at the end."""
    yield durable(channel, name, quorum=True)
    channel.connection.channel().queue_delete(name)


def test_a_returned_message_says_how_often_it_came(channel, quorum):
    send(channel, quorum, b"again")
    inbox = Inbox(channel, quorum)
    for count in (1, 2, 3, 4):
        inbox.wait_for(count)
        channel.basic_nack(inbox.delivery_tags[-1], requeue=True)
    inbox.wait_for(5)
    assert [(flag, count) for _, flag, count in told(inbox)] == [
        (False, None),
        (True, 1),
        (True, 2),
        (True, 3),
        (True, 4),
    ]
    channel.basic_ack(inbox.delivery_tags[-1])


def test_every_way_back_into_the_queue_counts(clients, channel, quorum):
    send(channel, quorum, b"m")
    other = clients.channel()
    assert got(other, quorum) == (b"m", False, 0)
    other.basic_reject(1, requeue=True)
    assert got(other, quorum) == (b"m", True, 1)
    other.basic_recover(requeue=True)
    assert got(other, quorum) == (b"m", True, 2)
    other.close()
    wait_until(lambda: ready_count(channel, quorum) == 1)
    connection = clients.connect()
    assert got(connection.channel(), quorum) == (b"m", True, 3)
    cut(connection)
    wait_until(lambda: ready_count(channel, quorum) == 1)
    assert got(channel, quorum) == (b"m", True, 4)


def test_the_count_stands_beside_the_headers_that_were_published(channel, quorum):
    headers = {"mine": "kept", COUNT: "not mine", "deep": {"n": [1, 2]}}
    sent = pika.BasicProperties(content_type="text/plain", headers=headers, message_id="m")
    channel.basic_publish("", quorum, b"x" * 300_000, sent)
    inbox = Inbox(channel, quorum).wait_for(1)
    assert inbox.deliveries[0][1] == sent
    channel.basic_nack(inbox.delivery_tags[0], requeue=True)
    _, properties, body = inbox.wait_for(2).deliveries[1]
    assert body == b"x" * 300_000
    assert properties.headers == {**headers, COUNT: 1}
    assert (properties.content_type, properties.message_id) == ("text/plain", "m")


def test_each_message_has_its_own_count(channel, quorum):
    send(channel, quorum, b"a", b"b", b"c")
    inbox = Inbox(channel, quorum).wait_for(3)
    channel.basic_nack(inbox.delivery_tags[1], requeue=True)
    inbox.wait_for(4)
    channel.basic_nack(0, multiple=True, requeue=True)
    inbox.wait_for(7)
    assert sorted(told(inbox)[4:]) == [(b"a", True, 1), (b"b", True, 2), (b"c", True, 1)]


def test_a_classic_queue_counts_for_itself(channel):
    queue = declare(channel)
    send(channel, queue, b"m")
    inbox = Inbox(channel, queue).wait_for(1)
    channel.basic_nack(1, requeue=True)
    assert told(inbox.wait_for(2)) == [(b"m", False, None), (b"m", True, None)]


# -- over restarts


@pytest.mark.parametrize("ending", sampled([KILL, STOP], 2))
@pytest.mark.parametrize("is_quorum", sampled([False, True], 2))
def test_what_was_handed_out_before_a_restart_is_redelivered_after_it(
    fresh_broker: Callable[..., BrokerProcess], ending: str, is_quorum: bool
) -> None:
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    queue = durable(channel, "q", quorum=is_quorum)
    bodies = [b"%d" % number for number in range(10)]
    publish(channel, queue, *bodies)
    channel.basic_qos(prefetch_count=6)
    inbox = Inbox(channel, queue).wait_for(6)
    channel.basic_ack(inbox.delivery_tags[2])
    inbox.wait_for(7)
    later = clients.channel()
    publish(later, queue, b"later")
    let_stop(getattr(broker, ending), channel.connection, later.connection)
    broker.start()
    channel = Clients(broker.url).channel()
    again = Inbox(channel, queue).wait_for(10)
    first = 1 if is_quorum else None
    assert told(again) == [
        *((body, True, first) for body in bodies[:7] if body != b"2"),
        *((body, False, None) for body in [*bodies[7:], b"later"]),
    ]


@pytest.mark.parametrize("ending", sampled([KILL, STOP], 2))
def test_counts_go_on_over_restarts(
    fresh_broker: Callable[..., BrokerProcess], ending: str
) -> None:
    broker = fresh_broker()
    channel = Clients(broker.url).channel()
    queue = durable(channel, "q", quorum=True)
    publish(channel, queue, b"returned", b"held", b"new")
    for expected in (0, 1, 2):
        assert got(channel, queue) == (b"returned", expected > 0, expected)
        channel.basic_nack(0, multiple=True, requeue=True)
    Inbox(channel, queue, consumer_tag="c").wait_for(3)
    channel.basic_cancel("c")
    publish(channel, durable(channel, "barrier"), b"")
    for restarts in (0, 1):
        let_stop(getattr(broker, ending), channel.connection)
        broker.start()
        channel = Clients(broker.url).channel()
        counts = [(b"returned", 4), (b"held", 1), (b"new", 1)]
        assert told(Inbox(channel, queue).wait_for(3)) == [
            (body, True, count + restarts) for body, count in counts
        ]
        publish(channel, "barrier", b"")


def test_what_was_acked_and_committed_never_comes_back(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    broker = fresh_broker()
    channel = Clients(broker.url).channel()
    queue = durable(channel, "q")
    bodies = [b"%d" % number for number in range(200)]
    publish(channel, queue, *bodies)
    inbox = Inbox(channel, queue).wait_for(200)
    for tag in inbox.delivery_tags[1::2]:
        channel.basic_ack(tag)
    publish(channel, durable(channel, "barrier"), b"")
    for _ in range(2):
        broker.kill()
        broker.start()
        channel = Clients(broker.url).channel()
        again = Inbox(channel, queue).wait_for(100)
        assert told(again) == [(body, True, None) for body in bodies[::2]]


@pytest.mark.differs_from_rabbitmq("it has no consumer groups")
def test_a_group_of_a_quorum_queue_is_told_counts_beside_places(channel, name):
    queue = declare(channel, name, durable=True, arguments=QUORUM | {"x-retention": "1h"})
    send(channel, queue, b"m")
    arguments = {"x-group": "g", "x-stream-offset": "first"}
    inbox = Inbox(channel, queue, arguments=arguments).wait_for(1)
    channel.basic_nack(inbox.delivery_tags[0], requeue=True)
    inbox.wait_for(2)
    headers = [properties.headers for _, properties, _ in inbox.deliveries]
    assert headers == [{"x-stream-offset": 0}, {"x-stream-offset": 0, COUNT: 1}]
    channel.queue_delete(queue)


@pytest.mark.parametrize(
    ("prop", "flags"),
    [
        ("non-durable", {"durable": False}),
        ("exclusive-owner", {"durable": True, "exclusive": True}),
        ("auto-delete", {"durable": True, "auto_delete": True}),
        ("exclusive-owner", {"exclusive": True}),
        ("auto-delete", {"exclusive": True, "auto_delete": True}),
    ],
)
@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_quorum_queue_is_durable_and_nobodys_own(channel, name, kind, prop, flags):
    with pytest.raises(ChannelClosedByBroker) as caught:
        declare(channel, name, arguments={"x-queue-type": kind}, **flags)
    assert caught.value.reply_code == 406
    assert f"invalid property '{prop}' for queue" in caught.value.reply_text


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_queue_for_others_to_find_is_named_by_its_client(channel, kind):
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("", durable=True, arguments={"x-queue-type": kind})
    assert caught.value.reply_code == 406
    reason = f"Cannot declare a server-named queue for type rabbit_{kind}_queue"
    assert reason in caught.value.reply_text
