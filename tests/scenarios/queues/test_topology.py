"""Exchanges, queues and bindings: what makes two declarations equal, and what outlives what."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError
from support.pika_client import Clients, cut, declare, drain, exists, send
from support.waiting import wait_until


@pytest.fixture
def durable(fresh_broker):
    """A broker with a durable topology of every shape, and a transient one beside it."""
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_declare(f"kept.{kind}", kind, durable=True)
    channel.exchange_declare("kept.alternate", "fanout", durable=True, internal=True)
    arguments = {"alternate-exchange": "kept.alternate"}
    channel.exchange_declare("kept.main", "direct", durable=True, arguments=arguments)
    channel.exchange_declare("lost", "direct", durable=False)
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("kept.others", durable=True)
    channel.queue_declare("lost", durable=False)
    channel.queue_bind("kept", "kept.topic", "a.#")
    channel.queue_bind("kept", "kept.headers", arguments={"x-match": "any", "a": 1, "b": "x"})
    channel.queue_bind("kept", "lost", "k")
    channel.queue_bind("kept", "kept.main", "k")
    channel.queue_bind("kept.others", "kept.alternate")
    channel.exchange_bind("kept.topic", "kept.fanout")
    yield broker, clients
    clients.close()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_is_durable_survives_the_end_of_the_process_and_what_is_not_does_not(durable, end):
    broker, clients = durable
    getattr(broker, end)()
    broker.start()
    connection = clients.connect()
    channel = connection.channel()
    for exchange in ("kept.direct", "kept.fanout", "kept.topic", "kept.headers", "kept.main"):
        channel.exchange_declare(exchange, passive=True)
    with pytest.raises(ChannelClosedByBroker, match="404"):
        channel.exchange_declare("lost", passive=True)
    channel = connection.channel()
    channel.queue_declare("kept", durable=True)
    assert exists(connection, "kept.others")
    assert not exists(connection, "lost")
    assert routes(channel) == {"topic": 1, "through": 1, "headers": 1, "main": 1, "others": 1}


def routes(channel) -> dict[str, int]:
    """How many copies arrive by each way of the durable topology."""
    ways = {
        "topic": ("kept.topic", "a.b.c", None, "kept"),
        "through": ("kept.fanout", "a", None, "kept"),
        "headers": ("kept.headers", "", {"b": "x"}, "kept"),
        "main": ("kept.main", "k", None, "kept"),
        "others": ("kept.main", "unknown", None, "kept.others"),
    }
    found = {}
    for way, (exchange, key, headers, queue) in ways.items():
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))
        found[way] = len(drain(channel, queue))
    return found


def test_a_deleted_durable_queue_stays_deleted(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("gone", durable=True)
    channel.queue_bind("gone", "amq.direct", "k")
    channel.queue_delete("gone")
    broker.kill()
    broker.start()
    connection = clients.connect()
    assert exists(connection, "kept")
    assert not exists(connection, "gone")
    clients.close()


def test_a_removed_binding_stays_removed(fresh_broker):
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("q", durable=True)
    for key in ("kept", "gone"):
        channel.queue_bind("q", "amq.direct", key)
    channel.queue_unbind("q", "amq.direct", "gone")
    broker.kill()
    broker.start()
    channel = clients.channel()
    for key in ("kept", "gone"):
        channel.basic_publish("amq.direct", key, key.encode())
    assert drain(channel, "q") == [b"kept"]
    clients.close()


def test_an_equal_declaration_is_accepted_as_often_as_it_comes(channel, name):
    for _ in range(3):
        channel.exchange_declare(name, "topic", auto_delete=True)
        declare(channel, name, auto_delete=True, arguments={"x-unknown": 1})
    channel.queue_delete(name)
    channel.exchange_delete(name)


def test_integers_of_different_width_are_the_same_argument(channel, name):
    declare(channel, name, exclusive=True, arguments={"x-max-length": 2**33})
    declare(channel, name, exclusive=True, arguments={"x-max-length": 2**33})
    with pytest.raises(ChannelClosedByBroker, match="406"):
        declare(channel, name, exclusive=True, arguments={"x-max-length": 2**33 + 1})


def test_an_exclusive_queue_goes_with_its_connection_not_with_its_channel(clients, connection):
    owner = clients.connect()
    channel = owner.channel()
    queue = declare(channel)
    channel.close()
    assert exists(connection, queue)
    owner.close()
    wait_until(lambda: not exists(connection, queue))


@pytest.mark.parametrize("count", [1, 9])
def test_nothing_is_routed_to_the_exclusive_queues_of_a_connection_that_has_closed(
    clients, channel, name, count
):
    channel.confirm_delivery()
    for turn in range(5):
        owner = clients.connect()
        declaring = owner.channel()
        queues = [f"{name}.{turn}.{number}" for number in range(count)]
        for queue in queues:
            declaring.queue_declare(queue, exclusive=True)
        owner.close()
        for queue in queues:
            with pytest.raises(UnroutableError):
                channel.basic_publish("", queue, b"to nobody", mandatory=True)


def test_an_exclusive_queue_goes_when_its_connection_is_cut(clients, connection):
    owner = clients.connect()
    queue = declare(owner.channel())
    cut(owner)
    wait_until(lambda: not exists(connection, queue))


def test_bindings_go_with_their_queue(channel, name):
    for _ in range(2):
        declare(channel, name)
        assert drain(channel, name) == []
        channel.queue_bind(name, "amq.direct", name)
        channel.basic_publish("amq.direct", name, b"x")
        channel.queue_delete(name)
        declare(channel, name)
        channel.basic_publish("amq.direct", name, b"to nobody")
        assert drain(channel, name) == []
        channel.queue_delete(name)


def test_an_auto_delete_exchange_goes_with_its_last_binding_but_not_before_its_first(channel, name):
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.exchange_declare(name, passive=True)
    first, second = declare(channel), declare(channel)
    for queue in (first, second):
        channel.queue_bind(queue, name, "k")
    channel.queue_unbind(first, name, "k")
    channel.exchange_declare(name, passive=True)
    channel.queue_delete(second)
    with pytest.raises(ChannelClosedByBroker, match="404"):
        channel.exchange_declare(name, passive=True)


def test_a_binding_is_told_from_another_by_its_arguments(channel):
    queue = declare(channel)
    for format_ in ("pdf", "png"):
        arguments = {"x-match": "all", "format": format_}
        channel.queue_bind(queue, "amq.headers", "k", arguments)
    channel.queue_unbind(queue, "amq.headers", "k", {"x-match": "all", "format": "pdf"})
    for format_ in ("pdf", "png"):
        properties = pika.BasicProperties(headers={"format": format_})
        channel.basic_publish("amq.headers", "k", format_.encode(), properties)
    assert drain(channel, queue) == [b"png"]


def test_deleting_an_exchange_leaves_its_queues_and_what_is_in_them(channel, name):
    channel.exchange_declare(name, "fanout")
    queue = declare(channel)
    channel.queue_bind(queue, name)
    channel.basic_publish(name, "", b"x")
    channel.exchange_delete(name)
    assert drain(channel, queue) == [b"x"]


def test_names_differ_by_every_byte(channel, name):
    queues = [
        declare(channel, f"{name}{ending}") for ending in ("", ".", "A", "a", "ä", "a ", "%61")
    ]
    for queue in queues:
        send(channel, queue, queue.encode())
    assert [drain(channel, queue) for queue in queues] == [[queue.encode()] for queue in queues]


def test_the_predeclared_exchanges_are_there(channel):
    for exchange in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"):
        channel.exchange_declare(exchange, passive=True)
    channel.exchange_declare("amq.direct", "direct", durable=True, passive=True)


def test_every_key_of_a_message_counts_at_every_exchange_on_its_way(clients, name):
    channel = clients.channel()
    outer, inner = f"{name}.outer", f"{name}.inner"
    channel.exchange_declare(outer, "direct", auto_delete=True)
    channel.exchange_declare(inner, "topic", auto_delete=True)
    channel.queue_declare(name, exclusive=True)
    channel.exchange_bind(inner, outer, "to.inner")
    channel.queue_bind(name, inner, "to.queue")
    copied = pika.BasicProperties(headers={"CC": ["to.inner"], "BCC": ["to.queue"]})
    channel.basic_publish(outer, "", b"x", copied)
    assert drain(channel, name) == [b"x"]
    channel.basic_publish(outer, "", b"y", pika.BasicProperties(headers={"CC": ["to.inner"]}))
    assert drain(channel, name) == []


@pytest.mark.parametrize("first", [False, True])
def test_an_exclusive_queue_is_never_durable_and_may_be_declared_again_either_way(
    channel, name, first
):
    for durable in (first, not first):
        channel.queue_declare(name, durable=durable, exclusive=True)
    channel.queue_declare(name, passive=True)
