"""Messages and queues whose time is over."""

from __future__ import annotations

import time

import pika
import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame
from pika.adapters.blocking_connection import BlockingChannel
from scenarios.clients.raw_client import RawClient
from support.pika_client import (
    PERSISTENT,
    Clients,
    Inbox,
    declare,
    drain,
    let_stop,
    ready_count,
    send,
)
from support.waiting import wait_until

A_WHILE = 1_000  # ms
USED_WITHIN = 6_000  # ms: what is used again and again is, also where the machine pauses


def lasting(milliseconds: int, **properties) -> pika.BasicProperties:
    return pika.BasicProperties(expiration=str(milliseconds), **properties)


def pass_time(channel: BlockingChannel) -> None:
    """Wait until a message that comes in now has been there for 100 ms."""
    queue = declare(channel, arguments={"x-message-ttl": 100})
    send(channel, queue, b"clock")
    wait_until(lambda: ready_count(channel, queue) == 0)


def is_gone(channel: BlockingChannel, queue: str) -> bool:
    """Whether a queue is not there, without using it."""
    if not channel._delivery_confirmation:
        channel.confirm_delivery()
    try:
        channel.basic_publish("", queue, b"", mandatory=True)
    except pika.exceptions.UnroutableError:
        return True
    return False


def test_messages_leave_a_queue_when_its_time_is_over(channel):
    queue = declare(channel, arguments={"x-message-ttl": A_WHILE})
    began = time.monotonic()
    send(channel, queue, b"a", b"b")
    wait_until(lambda: ready_count(channel, queue) == 0)
    assert time.monotonic() - began >= A_WHILE / 1_000
    inbox = Inbox(channel, queue, auto_ack=True)
    send(channel, queue, b"c")
    assert inbox.wait_for(1).bodies == [b"c"]


def test_a_message_may_have_a_shorter_time_than_its_queue_but_no_longer_one(channel):
    queue = declare(channel, arguments={"x-message-ttl": A_WHILE})
    channel.basic_publish("", queue, b"short", lasting(1))
    pass_time(channel)
    assert drain(channel, queue) == []
    began = time.monotonic()
    channel.basic_publish("", queue, b"long", lasting(3_600_000))
    wait_until(lambda: ready_count(channel, queue) == 0)
    assert time.monotonic() - began >= A_WHILE / 1_000


def test_a_message_expires_in_a_queue_without_arguments(channel):
    queue = declare(channel)
    channel.basic_publish("", queue, b"x", lasting(20))
    pass_time(channel)
    assert drain(channel, queue) == []


def test_a_message_whose_time_is_over_leaves_when_it_comes_to_the_head(channel):
    queue = declare(channel)
    send(channel, queue, b"first")
    channel.basic_publish("", queue, b"short", lasting(1))
    send(channel, queue, b"last")
    pass_time(channel)
    assert ready_count(channel, queue) == 3
    assert drain(channel, queue) == [b"first", b"last"]


def test_who_takes_a_message_is_told_of_none_behind_it_whose_time_is_over(channel):
    queue = declare(channel)
    send(channel, queue, b"first")
    channel.basic_publish("", queue, b"short", lasting(1))
    pass_time(channel)
    taken, _, _ = channel.basic_get(queue)
    assert taken.message_count == 0


@pytest.mark.parametrize("argument", ["x-message-ttl", "x-expires"])
def test_a_time_of_more_than_ten_years_is_refused(channel, argument):
    years = 10 * 365 * 86_400_000
    declare(channel, arguments={argument: years})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        declare(channel, arguments={argument: years + 1})
    assert closed.value.reply_code == 406


def test_a_time_of_nothing_means_at_once_or_never(channel):
    queue = declare(channel, arguments={"x-message-ttl": 0})
    send(channel, queue, b"nobody")
    wait_until(lambda: ready_count(channel, queue) == 0)
    inbox = Inbox(channel, queue, auto_ack=True)
    send(channel, queue, *(b"%d" % number for number in range(100)))
    inbox.wait_for(100)
    plain = declare(channel)
    channel.basic_publish("", plain, b"nobody", lasting(0))
    wait_until(lambda: ready_count(channel, plain) == 0)


def test_what_a_consumer_holds_does_not_expire_until_it_comes_back(channel):
    queue = declare(channel, arguments={"x-message-ttl": 50})
    inbox = Inbox(channel, queue)
    send(channel, queue, b"x")
    inbox.wait_for(1)
    channel.basic_cancel(inbox.tag)
    pass_time(channel)
    channel.basic_nack(inbox.delivery_tags[0], requeue=True)
    wait_until(lambda: ready_count(channel, queue) == 0)
    assert drain(channel, queue) == []


def test_expired_messages_become_dead_letters_without_their_expiration(channel):
    morgue = declare(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    source = declare(channel, arguments=arguments)
    for number in range(20):
        channel.basic_publish("", source, b"%d" % number, lasting(30, message_id="m"))
    wait_until(lambda: ready_count(channel, morgue) == 20)
    for number in range(20):
        _, properties, body = channel.basic_get(morgue, auto_ack=True)
        (death,) = properties.headers["x-death"]
        assert (body, death["reason"], death["count"]) == (b"%d" % number, "expired", 1)
        assert death["original-expiration"] == "30"
        assert (properties.expiration, properties.message_id) == (None, "m")


def test_a_message_does_not_go_round_by_itself(channel, name):
    # a -> b -> a: the second time around it is dropped
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.a"}
    b = declare(channel, f"{name}.b", arguments={**arguments, "x-message-ttl": 20})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": b}
    a = declare(channel, f"{name}.a", arguments={**arguments, "x-message-ttl": 20})
    send(channel, a, b"x")
    wait_until(lambda: ready_count(channel, a) + ready_count(channel, b) == 0)
    pass_time(channel)
    assert ready_count(channel, a) + ready_count(channel, b) == 0


def test_a_retry_queue_brings_rejected_messages_back(channel, name):
    work = declare(
        channel,
        f"{name}.work",
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.retry"},
    )
    declare(
        channel,
        f"{name}.retry",
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": work,
            "x-message-ttl": 20,
        },
    )
    inbox = Inbox(channel, work)
    send(channel, work, b"x")
    for attempt in (1, 2, 3):
        inbox.wait_for(attempt)
        _, properties, _ = inbox.deliveries[-1]
        deaths = {d["reason"]: d["count"] for d in (properties.headers or {}).get("x-death", [])}
        assert deaths == ({} if attempt == 1 else {"rejected": attempt - 1, "expired": attempt - 1})
        channel.basic_reject(inbox.delivery_tags[-1], requeue=False)


def test_what_expires_while_a_node_starts_waits_until_the_journal_takes_entries(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    to_morgue = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    channel.queue_declare("morgue", durable=True)
    names = [f"q{number:03}" for number in range(300)]  # opened in many turns of the loop
    for name in names:
        channel.queue_declare(name, durable=True, arguments=to_morgue)
    channel.confirm_delivery()
    for name in names:
        channel.basic_publish("", name, name.encode(), lasting(3_000, delivery_mode=2))
    published = time.monotonic()
    let_stop(broker.kill, channel.connection)
    wait_until(lambda: time.monotonic() > published + 3)  # all have expired
    broker.start()
    channel = clients.channel()
    wait_until(lambda: ready_count(channel, "morgue") == len(names))
    assert sorted(drain(channel, "morgue")) == [name.encode() for name in names]
    assert "an error of the broker" not in broker.log_text()
    clients.close()


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_time_goes_on_over_a_restart(fresh_broker, end):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    to_morgue = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    channel.queue_declare("morgue", durable=True)
    channel.queue_declare("short", durable=True, arguments={"x-message-ttl": 100, **to_morgue})
    channel.queue_declare("own", durable=True, arguments=to_morgue)
    channel.queue_declare("plain", durable=True)
    channel.queue_declare("long", durable=True, arguments={"x-message-ttl": 3_600_000})
    channel.confirm_delivery()
    for queue in ("short", "long"):
        channel.basic_publish("", queue, queue.encode(), PERSISTENT)
    for queue in ("own", "plain"):
        channel.basic_publish("", queue, queue.encode(), lasting(100, delivery_mode=2))
    let_stop(getattr(broker, end), channel.connection)
    broker.start()
    channel = clients.channel()
    wait_until(lambda: ready_count(channel, "morgue") == 2)
    assert sorted(drain(channel, "morgue")) == [b"own", b"short"]
    assert ready_count(channel, "long") == 1
    assert drain(channel, "plain") == []
    clients.close()


def test_a_queue_that_nobody_uses_is_deleted(channel, name):
    queue = declare(channel, name, durable=True, arguments={"x-expires": A_WHILE})
    send(channel, queue, b"x")
    wait_until(lambda: is_gone(channel, queue))


def test_a_consumer_keeps_a_queue_and_its_departure_begins_its_time(broker, channel, name):
    with RawClient(broker.host, broker.port) as holder:
        holder.open()
        holder.open_channel()
        made = commands.Queue.Declare(queue=name, durable=True, arguments={"x-expires": A_WHILE})
        # In one piece: the queue is consumed from at once.
        asked = (made, commands.Basic.Consume(queue=name))
        holder.send_bytes(b"".join(pamqp_frame.marshal(each, 1) for each in asked))
        holder.expect(commands.Queue.DeclareOk)
        holder.expect(commands.Basic.ConsumeOk)
        arguments = {"x-expires": 2 * A_WHILE}
        other = declare(channel, f"{name}.other", durable=True, arguments=arguments)
        wait_until(lambda: is_gone(channel, other))
        assert not is_gone(channel, name)
        holder.expect(commands.Basic.Deliver)  # what it was asked with
    wait_until(lambda: is_gone(channel, name))


def test_a_queue_is_used_by_getting_and_by_declaring_it(channel, name):
    arguments = {"x-expires": USED_WITHIN}
    gotten = declare(channel, f"{name}.got", durable=True, arguments=arguments)
    redeclared = declare(channel, f"{name}.again", durable=True, arguments=arguments)
    idle = declare(channel, f"{name}.idle", durable=True, arguments=arguments)

    def use() -> bool:
        channel.basic_get(gotten)
        declare(channel, redeclared, durable=True, arguments=arguments)
        return is_gone(channel, idle)

    wait_until(use)
    assert not is_gone(channel, gotten)
    assert not is_gone(channel, redeclared)
    for queue in (gotten, redeclared):
        channel.queue_delete(queue)
