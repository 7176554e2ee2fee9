"""Messages that wait in an exchange until they are due."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from scenarios.clients.bad_input import Peer
from scenarios.clients.raw_client import (
    content_body,
    content_header,
    long,
    message,
    method,
    publish,
    short,
)
from support.broker_process import COMMAND_VARIABLE, ROOT
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, drain, let_stop, ready_count, round_trip
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("needs a plugin")

A_WHILE = 1_000  # ms
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
AHEAD_BROKER = Path(__file__).with_name("ahead_broker.py")
KEPT = {"durable": True, "exclusive": False}


def delayed(delay: object, **properties) -> pika.BasicProperties:
    headers = {} if delay is None else {"x-delay": delay}
    return pika.BasicProperties(headers={**headers, **properties.pop("headers", {})}, **properties)


def exchange(channel: BlockingChannel, name: str, kind: str = "direct", **declaration) -> str:
    arguments = {"x-delayed-type": kind, **declaration.pop("arguments", {})}
    channel.exchange_declare(name, "x-delayed-message", arguments=arguments, **declaration)
    return name


def bound(channel: BlockingChannel, source: str, key: str = "k", **declaration) -> str:
    queue = declare(channel, **declaration)
    channel.queue_bind(queue, source, key)
    return queue


def refusal(channel: BlockingChannel, **declaration) -> tuple[int, str]:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.exchange_declare("x", "x-delayed-message", **declaration)
    return refused.value.reply_code, refused.value.reply_text


@pytest.mark.differs_at_fronts("no transaction publishes through an exchange that delays")
def test_messages_come_in_the_order_in_which_they_are_due_and_none_early(channel, name):
    exchange(channel, name)
    inbox = Inbox(channel, bound(channel, name), auto_ack=True)
    channel.tx_select()  # they are held from one moment on
    for delay in (3_000, 1_000, 2_000, 0, None, -5):
        channel.basic_publish(name, "k", str(delay).encode(), delayed(delay))
    began = time.time()
    channel.tx_commit()
    arrived: dict[bytes, float] = {}

    def all_came() -> bool:
        for body in inbox.bodies:
            arrived.setdefault(body, time.time() - began)
        return len(arrived) == 6

    wait_until(all_came, channel.connection)
    assert inbox.bodies == [b"0", b"None", b"-5", b"1000", b"2000", b"3000"]
    for delay in (1_000, 2_000, 3_000):
        assert arrived[b"%d" % delay] >= delay / 1000


def test_a_delivered_message_says_how_long_it_was_held(channel, name):
    exchange(channel, name)
    inbox = Inbox(channel, bound(channel, name), auto_ack=True)
    sent = delayed(50, headers={"a": "b"}, content_type="text/plain", expiration="60000")
    channel.basic_publish(name, "k", b"m", sent)
    method, properties, body = inbox.wait_for(1).deliveries[0]
    assert properties.headers == {"x-delay": -50, "a": "b"}
    assert (body, properties.content_type, properties.expiration) == (b"m", "text/plain", "60000")
    assert (method.exchange, method.routing_key, method.redelivered) == (name, "k", False)


@pytest.mark.parametrize(
    ("delay", "held"),
    [
        (f"{A_WHILE}", True),
        (Decimal("0.9"), False),
        (Decimal(f"{A_WHILE}.5"), True),
        ("soon", False),
        (True, False),
    ],
)
def test_the_delay_may_be_a_text_or_a_fraction_as_in_rabbitmq(channel, name, delay, held):
    exchange(channel, name)
    queue = bound(channel, name)
    began = time.time()
    channel.basic_publish(name, "k", b"m", delayed(delay))
    is_there = ready_count(channel, queue) == 1
    wait_until(lambda: ready_count(channel, queue) == 1)
    assert time.time() - began >= A_WHILE / 1_000 if held else is_there


@pytest.mark.parametrize("kind", ["fanout", "topic", "headers"])
def test_what_is_due_is_routed_by_the_inner_type(channel, name, kind):
    exchange(channel, name, kind)
    queue = declare(channel)
    channel.queue_bind(queue, name, "a.*.c", {"x-match": "all", "colour": "red"})
    channel.basic_publish(name, "a.b.c", b"1", delayed(30, headers={"colour": "red"}))
    channel.basic_publish(name, "z", b"2", delayed(60, headers={"colour": "blue"}))
    wait_until(lambda: ready_count(channel, queue) >= (2 if kind == "fanout" else 1))
    assert drain(channel, queue) == ([b"1", b"2"] if kind == "fanout" else [b"1"])


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash", "x-random"])
def test_what_is_due_goes_one_way_where_the_inner_type_chooses(channel, name, kind):
    exchange(channel, name, kind)
    queues = [bound(channel, name, "1") for _ in range(2)]
    for at in range(20):
        channel.basic_publish(name, f"key {at}", b"%d" % at, delayed(100))
    wait_until(lambda: sum(ready_count(channel, queue) for queue in queues) == 20)
    came = [drain(channel, queue) for queue in queues]
    assert sorted(came[0] + came[1], key=int) == [b"%d" % at for at in range(20)]


@pytest.mark.parametrize("before", [True, False])
def test_a_message_that_was_seen_is_not_held_or_not_delivered(channel, name, before):
    once, later = f"{name}.once", f"{name}.later"
    channel.exchange_declare(once, "x-message-deduplication", arguments={"x-cache-size": 9})
    exchange(channel, later, "fanout")
    first, last = (once, later) if before else (later, once)
    channel.exchange_bind(last, first)
    queue = bound(channel, last)
    channel.confirm_delivery()
    for body, key in ((b"1", "a"), (b"again", "a"), (b"2", "b")):
        sent = delayed(200, headers={"x-deduplication-header": key})
        channel.basic_publish(first, "k", body, sent)
    wait_until(lambda: ready_count(channel, queue) == 2)
    late = delayed(None, headers={"x-deduplication-header": "c"})
    channel.basic_publish(first, "k", b"3", late)
    wait_until(lambda: ready_count(channel, queue) == 3)
    assert drain(channel, queue) == [b"1", b"2", b"3"]


def test_routing_is_decided_when_a_message_is_due(peer, channel, name):
    exchange(channel, name)
    queue = declare(channel, exclusive=False, auto_delete=True)
    held = content_header(1, b"\x20\0" + long(short("x-delay") + b"I" + A_WHILE.to_bytes(4)))
    bind = method(50, 20, b"\0\0" + short(queue) + short(name) + short("k") + b"\1" + b"\0\0\0\0")
    # In one piece: the queue is bound before the message is due.
    peer.send_bytes(publish(name, "k") + held + content_body(b"m") + bind)
    assert Inbox(channel, queue, auto_ack=True).wait_for(1).bodies == [b"m"]


def test_a_type_that_routes_is_needed(clients: Clients):
    assert refusal(clients.channel()) == (
        406,
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
    )
    code, text = refusal(clients.channel(), arguments={"x-delayed-type": "no-such"})
    assert (code, text) == (406, "PRECONDITION_FAILED - unknown exchange type 'no-such'")
    code, text = refusal(clients.channel(), arguments={"x-delayed-type": "x-delayed-message"})
    assert code == 406
    assert "can't be used" in text
    assert refusal(clients.channel(), arguments={"x-delayed-type": 5})[0] == 406


def test_what_is_held_is_confirmed_and_not_returned(channel, name):
    exchange(channel, name, durable=True)
    channel.confirm_delivery()
    channel.basic_publish(name, "k", b"m", delayed(YEAR), mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(name, "k", b"m", delayed(0), mandatory=True)
    channel.exchange_delete(name)


def test_a_message_is_held_wherever_it_meets_the_exchange(channel, name):
    first, second, alternate = f"{name}.1", f"{name}.2", f"{name}.3"
    channel.exchange_declare(first, "fanout")
    exchange(channel, second)
    channel.exchange_bind(second, first)
    queue = bound(channel, second)
    channel.exchange_declare(alternate, "direct", arguments={"alternate-exchange": second})
    began = time.time()
    for source in (first, alternate):
        channel.basic_publish(source, "k", source.encode(), delayed(A_WHILE))
    inbox = Inbox(channel, queue, auto_ack=True)
    inbox.wait_for_at_least(1)
    assert time.time() - began >= A_WHILE / 1_000
    inbox.wait_for(2)
    assert sorted(method.exchange for method, _, _ in inbox.deliveries) == [first, alternate]


def test_a_delay_that_is_none_stops_neither_its_channel_nor_the_dead_letters_behind_it(
    broker, channel, name
):
    exchange(channel, name, "fanout")
    queue = bound(channel, name)
    channel.queue_declare(
        f"{name}.q", exclusive=True, arguments={"x-dead-letter-exchange": name, "x-message-ttl": 0}
    )
    held = long(short("x-delay") + b"T\x7f" + b"\xff" * 7)
    with Peer(broker.host, broker.port) as peer:
        peer.open()
        peer.open_channel()
        peer.send_bytes(message(f"{name}.q", b"odd", b"\x20\0" + held))
        peer.send_bytes(publish(name, "k") + content_header(0, b"\x20\0" + held))
        assert peer.outcome().scope == "ok"
    channel.basic_publish("", f"{name}.q", b"behind")
    Inbox(channel, queue, auto_ack=True).wait_for(1)
    channel.exchange_delete(name)


def test_a_dead_letter_is_held_once(channel, name):
    exchange(channel, name)
    queue = bound(channel, name)
    source = declare(
        channel,
        arguments={
            "x-dead-letter-exchange": name,
            "x-dead-letter-routing-key": "k",
            "x-message-ttl": 0,
        },
    )
    channel.basic_publish("", source, b"m", delayed(200))
    _, properties, body = Inbox(channel, queue, auto_ack=True).wait_for(1).deliveries[0]
    assert (body, properties.headers["x-delay"]) == (b"m", -200)
    assert properties.headers["x-death"][0]["reason"] == "expired"


def test_copies_are_held_too_and_blind_ones_are_not_seen(channel, name):
    exchange(channel, name)
    queues = [bound(channel, name, key) for key in ("k", "copied", "hidden")]
    headers = {"CC": ["copied"], "BCC": ["hidden"]}
    channel.basic_publish(name, "k", b"m", delayed(100, headers=headers))
    for queue in queues:
        _, properties, _ = Inbox(channel, queue, auto_ack=True).wait_for(1).deliveries[0]
        assert properties.headers == {"x-delay": -100, "CC": ["copied"]}


@pytest.mark.differs_at_fronts("no transaction publishes through an exchange that delays")
def test_a_transaction_has_its_messages_held_when_it_is_committed(channel, name):
    exchange(channel, name)
    queue = bound(channel, name)
    channel.tx_select()
    channel.basic_publish(name, "k", b"lost", delayed(100))
    channel.tx_rollback()
    channel.basic_publish(name, "k", b"kept", delayed(100))
    channel.basic_publish(name, "k", b"at once", delayed(0))
    channel.tx_commit()
    wait_until(lambda: ready_count(channel, queue) == 2)
    assert drain(channel, queue) == [b"at once", b"kept"]


def test_a_message_due_while_its_queue_is_full_waits_for_room(channel, name):
    exchange(channel, name)
    queue = bound(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in (b"1", b"2"):
        channel.basic_publish(name, "k", body, delayed(50))
    wait_until(lambda: ready_count(channel, queue) == 1)
    inbox = Inbox(channel, queue, auto_ack=True)
    wait_until(lambda: len(inbox.bodies) == 2, channel.connection)
    assert inbox.bodies == [b"1", b"2"]


@pytest.fixture
def hours_pass(monkeypatch) -> Callable[[], None]:
    """Brokers that start later have a clock that is ahead."""

    def pass_hours() -> None:
        monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(AHEAD_BROKER)]))

    return pass_hours


def test_messages_that_became_due_while_the_broker_was_down_come_at_once(fresh_broker, hours_pass):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    exchange(channel, "later", durable=True)
    queue = bound(channel, "later", **KEPT)
    for number in range(50):
        mode = 2 if number % 2 else 1
        body = b"%d" % number
        channel.basic_publish("later", "k", body, delayed(HOUR + number, delivery_mode=mode))
    channel.confirm_delivery()  # of the last one: it stands behind the others
    channel.basic_publish("later", "k", b"far", delayed(100 * YEAR))
    broker.kill()
    clients.close()
    hours_pass()
    broker.start()
    clients = Clients(broker.url)
    channel = clients.channel()
    inbox = Inbox(channel, queue, auto_ack=True).wait_for(50)
    assert inbox.bodies == [b"%d" % number for number in range(50)]
    clients.close()


def test_a_crash_loses_none_and_brings_none_early(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    exchange(channel, "later", durable=True)
    queue = bound(channel, "later", **KEPT)
    channel.confirm_delivery()
    due: dict[bytes, float] = {}
    for number in range(200):
        delay = (number * 37) % 2_000
        body = b"%d" % number
        due[body] = time.time() + delay / 1000
        channel.basic_publish("later", "k", body, delayed(delay, delivery_mode=2))
    came: dict[bytes, float] = {}
    for _ in range(3):
        broker.kill()
        clients.close()
        broker.start()
        clients = Clients(broker.url)
        channel = clients.channel()
        # Without acks: what is on its way when it is killed comes again
        inbox = Inbox(channel, queue)
        for _ in range(40):
            channel.connection.process_data_events(0.01)
            for body in inbox.bodies:
                came.setdefault(body, time.time())
    wait_until(lambda: came.keys() | set(inbox.bodies) == due.keys(), channel.connection)
    assert [body for body, at in came.items() if at < due[body]] == []
    clients.close()


def test_deleting_the_exchange_deletes_what_it_holds(fresh_broker, hours_pass):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    for _ in range(2):
        exchange(channel, "later", durable=True)
        queue = bound(channel, "later", **KEPT)
        channel.confirm_delivery()
        channel.basic_publish("later", "k", b"m", delayed(HOUR, delivery_mode=2))
        channel.exchange_delete("later")
    exchange(channel, "later", durable=True)
    channel.queue_bind(queue, "later", "k")
    hours_pass()
    let_stop(broker.restart, channel.connection)
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.basic_publish("later", "k", b"n", delayed(A_WHILE, delivery_mode=2))
    assert Inbox(channel, queue, auto_ack=True).wait_for(1).bodies == [b"n"]
    clients.close()


def test_operators_list_and_cancel_what_is_held(fresh_broker, hours_pass):
    broker = fresh_broker()
    clients, door = Clients(broker.url), ManagementDoor(broker)
    channel = clients.channel()
    exchange(channel, "later", "fanout", durable=True)
    queue = bound(channel, "later", **KEPT)
    channel.confirm_delivery()
    now = time.time() * 1000
    for number in range(5):
        channel.basic_publish("later", f"k{number}", b"x" * number, delayed(YEAR - HOUR * number))
    channel.basic_publish("later", "soon", b"", delayed(HOUR, delivery_mode=2))
    done = time.time() * 1000
    path = ("exchanges", "/", "later", "delayed")
    page = door.get(*path, query="count=3")
    assert page["messages"] == 6
    assert [row["routing_key"] for row in page["items"]] == ["soon", "k4", "k3"]
    soon, row = page["items"][0]["id"], page["items"][1]
    assert (row["payload_bytes"], row["delay"], row["exchange"]) == (4, YEAR - 4 * HOUR, "later")
    assert now - 1 <= row["due_at"] - row["delay"] <= done
    rest = door.get(*path, query=f"count=500&from={page['next']}")
    assert [row["routing_key"] for row in rest["items"]] == ["k2", "k1", "k0"]
    assert rest["next"] is None
    door.do("DELETE", *path, row["id"])
    assert door.ask("DELETE", *path, row["id"])[0] == 404
    assert door.ask("DELETE", *path, "nonsense")[0] == 400
    assert door.ask("GET", "exchanges", "/", "amq.direct", "delayed")[0] == 404
    for count in ("0", "501", "x", "%C2%B2"):
        assert door.ask("GET", *path, query=f"count={count}")[0] == 400
    # What is confirmed behind a cancellation is in no earlier block of the journal.
    channel.basic_publish("later", "last", b"", delayed(YEAR + 1_000))
    broker.kill()
    hours_pass()
    broker.start()
    door = ManagementDoor(broker)
    left = ["k3", "k2", "k1", "k0", "last"]
    assert [row["routing_key"] for row in door.get(*path)["items"] if row["id"] != soon] == left
    clients.close()
    clients = Clients(broker.url)
    inbox = Inbox(clients.channel(), queue, auto_ack=True).wait_for(1)
    assert inbox.deliveries[0][0].routing_key == "soon"
    wait_until(lambda: door.get("exchanges", "/", "later")["messages_delayed"] == 5)
    assert door.do("DELETE", *path) == {"cancelled": 5}
    assert door.get(*path) == {"messages": 0, "items": [], "next": None}
    clients.close()


def test_the_command_line_lists_and_cancels(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    exchange(channel, "later", durable=True)
    for key in ("a", "b", "c"):
        channel.basic_publish("later", key, b"", delayed(YEAR))
    round_trip(channel)

    def routelog(*arguments: str) -> str:
        command = [sys.executable, "-m", "routelog", "delayed", *arguments]
        run = subprocess.run(
            [*command, "--data-dir", str(broker.data_dir)],
            capture_output=True, text=True, cwd=ROOT, check=True,
        )  # fmt: skip
        return run.stdout

    rows = [json.loads(line) for line in routelog("list", "later", "--json").splitlines()]
    assert [row["routing_key"] for row in rows] == ["a", "b", "c"]
    routelog("cancel", "later", rows[1]["id"])
    rows = [json.loads(line) for line in routelog("list", "later", "--json").splitlines()]
    assert [row["routing_key"] for row in rows] == ["a", "c"]
    routelog("cancel", "later", "--all")
    assert routelog("list", "later", "--json") == ""
    clients.close()
