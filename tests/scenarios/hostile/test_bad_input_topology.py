"""Mistakes in declaring, binding and deleting, and in publishing to what is not there."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands
from scenarios.clients.bad_input import (
    Broker,
    Peer,
    Row,
    assert_nobody_noticed,
    assert_row_holds,
    each,
)
from scenarios.clients.bystander import Bystander
from scenarios.clients.raw_client import content_body, content_header, message, publish

Exchange, Queue, Basic = commands.Exchange, commands.Queue, commands.Basic

MANDATORY, IMMEDIATE = 1, 2


def does(*values):
    """Send these methods on channel 1."""
    return lambda peer: peer.do(*values)


def publishes(exchange: str, key: str = "", flags: int = 0):
    """Publish one message."""
    content = content_header(1) + content_body(b"x")
    return lambda peer: peer.send_bytes(publish(exchange, key, flags) + content)


def declares_exchange_then(**changed):
    """Declare an exchange, then again with something else about it."""

    def act(peer: Peer) -> None:
        first: dict[str, Any] = {"exchange": peer.name, "auto_delete": True}
        peer.call(Exchange.Declare(**first), Exchange.DeclareOk)
        peer.call(Exchange.Bind(destination="amq.fanout", source=peer.name), Exchange.BindOk)
        peer.do(Exchange.Declare(**{**first, **changed}))

    return act


def declares_queue_then(**changed):
    """Declare an exclusive queue, then again with something else about it."""

    def act(peer: Peer) -> None:
        queue = peer.queue
        peer.do(Queue.Declare(**{"queue": queue, "exclusive": True, **changed}))

    return act


def declares_queue_then_durable(peer: Peer) -> None:
    peer.declare(peer.name, exclusive=False)
    peer.do(Queue.Declare(queue=peer.name, durable=True))


def publishes_to_an_internal_exchange(peer: Peer) -> None:
    peer.call(
        Exchange.Declare(exchange=peer.name, internal=True, auto_delete=True), Exchange.DeclareOk
    )
    publishes(peer.name)(peer)


def deletes_an_exchange_in_use(peer: Peer) -> None:
    peer.call(Exchange.Declare(exchange=peer.name, auto_delete=True), Exchange.DeclareOk)
    peer.call(Queue.Bind(queue=peer.queue, exchange=peer.name), Queue.BindOk)
    peer.do(Exchange.Delete(exchange=peer.name, if_unused=True))


def deletes_a_queue_in_use(peer: Peer) -> None:
    peer.call(Basic.Consume(queue=peer.queue), Basic.ConsumeOk)
    peer.do(Queue.Delete(queue=peer.queue, if_unused=True))


def deletes_a_queue_with_messages(peer: Peer) -> None:
    peer.send_bytes(message(peer.queue, b"x"))
    peer.do(Queue.Delete(queue=peer.queue, if_empty=True))


def binds(**bind):
    """Bind the peer's queue like this."""
    return lambda peer: peer.do(Queue.Bind(**{"queue": peer.queue, **bind}))


def unbinds(**bind):
    """Unbind the peer's queue like this."""
    return lambda peer: peer.do(Queue.Unbind(**{"queue": peer.queue, **bind}))


EXCHANGES = [
    Row(
        "publish to a missing exchange",
        publishes("nowhere"),
        *("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
    ),
    Row("publish immediate", publishes("amq.direct", flags=IMMEDIATE), "connection", 540),
    Row(
        "publish to an internal exchange",
        publishes_to_an_internal_exchange,
        *("channel", 403, "ACCESS_REFUSED - cannot publish to internal exchange"),
    ),
    Row(
        "declare an exchange of an unknown type",
        does(Exchange.Declare(exchange="odd", exchange_type="x-odd")),
        *("channel", 406),
        text="unknown exchange type 'x-odd'",
        rabbit="closes the connection with 503",
    ),
    Row(
        "declare a missing exchange passively",
        does(Exchange.Declare(exchange="nowhere", passive=True)),
        *("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
    ),
    Row(
        "declare an exchange with a reserved name",
        does(Exchange.Declare(exchange="amq.mine")),
        *("channel", 403, "contains reserved prefix 'amq.*'"),
    ),
    Row(
        "declare the default exchange",
        does(Exchange.Declare(exchange="")),
        *("channel", 403, "operation not permitted on the default exchange"),
    ),
    Row(
        "declare an exchange again as another type",
        declares_exchange_then(exchange_type="fanout"),
        *("channel", 406, "inequivalent arg 'type' for exchange"),
    ),
    Row(
        "declare an exchange again as durable",
        declares_exchange_then(durable=True),
        *("channel", 406, "inequivalent arg 'durable' for exchange"),
    ),
    Row(
        "declare an exchange again as not auto-delete",
        declares_exchange_then(auto_delete=False),
        *("channel", 406, "inequivalent arg 'auto_delete' for exchange"),
    ),
    Row(
        "declare an exchange again as internal",
        declares_exchange_then(internal=True),
        *("channel", 406, "inequivalent arg 'internal' for exchange"),
    ),
    Row(
        "declare an exchange again with an alternate",
        declares_exchange_then(arguments={"alternate-exchange": "amq.fanout"}),
        *("channel", 406, "inequivalent arg 'alternate-exchange' for exchange"),
    ),
    Row(
        "declare an exchange again with an unknown argument",
        declares_exchange_then(arguments={"x-whatever": 1}),
        "ok",
    ),
    Row("delete a missing exchange", does(Exchange.Delete(exchange="nowhere")), "ok"),
    Row(
        "delete a predeclared exchange",
        does(Exchange.Delete(exchange="amq.direct")),
        "channel",
        403,
    ),
    Row("delete the default exchange", does(Exchange.Delete(exchange="")), "channel", 403),
    Row(
        "delete an exchange in use if unused",
        deletes_an_exchange_in_use,
        *("channel", 406, "in use"),
    ),
]

QUEUES = [
    Row(
        "declare a missing queue passively",
        does(Queue.Declare(queue="nowhere", passive=True)),
        *("channel", 404, "NOT_FOUND - no queue 'nowhere' in vhost '/'"),
    ),
    Row(
        "declare a queue with a reserved name",
        does(Queue.Declare(queue="amq.mine")),
        *("channel", 403, "contains reserved prefix 'amq.*'"),
    ),
    Row(
        "declare a queue again as durable",
        declares_queue_then_durable,
        *("channel", 406, "inequivalent arg 'durable' for queue"),
    ),
    Row(
        "declare a queue again as auto-delete",
        declares_queue_then(auto_delete=True),
        *("channel", 406, "inequivalent arg 'auto_delete' for queue"),
    ),
    Row(
        "declare a queue again as not exclusive",
        declares_queue_then(exclusive=False),
        *("channel", 405),
        text="RESOURCE_LOCKED - cannot obtain exclusive access to locked queue",
    ),
    Row(
        "declare a queue again with an unknown argument",
        declares_queue_then(arguments={"x-whatever": 1}),
        "ok",
    ),
    Row(
        "declare a queue of an unknown type",
        does(Queue.Declare(exclusive=True, arguments={"x-queue-type": "odd"})),
        *("channel", 406),
        rabbit="closes the connection with 541",
    ),
    Row("delete a missing queue", does(Queue.Delete(queue="nowhere")), "ok"),
    Row("delete a queue in use if unused", deletes_a_queue_in_use, "channel", 406, "in use"),
    Row(
        "delete a queue with messages if empty",
        deletes_a_queue_with_messages,
        *("channel", 406, "not empty"),
    ),
    Row("purge a missing queue", does(Queue.Purge(queue="nowhere")), "channel", 404),
    Row(
        "a transient queue that is not exclusive",
        does(Queue.Declare(queue="passing", auto_delete=True), Queue.Delete(queue="passing")),
        "ok",
    ),
]

BINDINGS = [
    Row(
        "bind a missing queue",
        does(Queue.Bind(queue="nowhere", exchange="amq.direct")),
        *("channel", 404, "NOT_FOUND - no queue 'nowhere' in vhost '/'"),
    ),
    Row(
        "bind to a missing exchange",
        binds(exchange="nowhere"),
        *("channel", 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
    ),
    Row("bind to the default exchange", binds(exchange="", routing_key="k"), "channel", 403),
    Row("unbind from the default exchange", unbinds(exchange="", routing_key="k"), "channel", 403),
    Row(
        "bind no queue when none was declared",
        does(Queue.Bind(queue="", exchange="amq.direct")),
        *("channel", 404),
    ),
    Row("unbind what was never bound", unbinds(exchange="amq.direct", routing_key="k"), "ok"),
    Row("unbind from a missing exchange", unbinds(exchange="nowhere", routing_key="k"), "ok"),
    Row(
        "bind with an unknown x-match",
        binds(exchange="amq.headers", arguments={"x-match": "some"}),
        *("channel", 406),
    ),
    Row(
        "bind with an x-match that is a number",
        binds(exchange="amq.headers", arguments={"x-match": 1}),
        *("channel", 406),
    ),
    Row(
        "bind a pattern of many hashes",
        binds(exchange="amq.topic", routing_key=".".join(["#"] * 30)),
        "ok",
    ),
    Row(
        "bind the direct reply-to name",
        does(Queue.Bind(queue="amq.rabbitmq.reply-to", exchange="amq.direct")),
        *("channel", 403),
        rabbit="answers 404",
    ),
    Row(
        "bind a missing exchange to an exchange",
        does(Exchange.Bind(destination="nowhere", source="amq.direct")),
        *("channel", 404),
    ),
    Row(
        "bind an exchange to a missing exchange",
        does(Exchange.Bind(destination="amq.direct", source="nowhere")),
        *("channel", 404),
    ),
    Row(
        "bind an exchange to the default exchange",
        does(Exchange.Bind(destination="amq.direct", source="")),
        *("channel", 403),
    ),
]

LOCKED = {
    "declare": lambda queue: Queue.Declare(queue=queue, exclusive=True),
    "declare passively": lambda queue: Queue.Declare(queue=queue, passive=True),
    "consume": lambda queue: Basic.Consume(queue=queue),
    "get": lambda queue: Basic.Get(queue=queue),
    "purge": lambda queue: Queue.Purge(queue=queue),
    "delete": lambda queue: Queue.Delete(queue=queue),
    "bind": lambda queue: Queue.Bind(queue=queue, exchange="amq.direct"),
    "unbind": lambda queue: Queue.Unbind(queue=queue, exchange="amq.direct"),
}


@each(EXCHANGES)
def test_an_exchange_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(QUEUES)
def test_a_queue_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@each(BINDINGS)
def test_a_binding_mistake_ends_as_written(broker: Broker, bystander: Bystander, row: Row):
    assert_row_holds(broker, bystander, row)


@pytest.mark.parametrize("attempt", LOCKED)
def test_an_exclusive_queue_is_locked_for_other_connections(
    broker: Broker, bystander: Bystander, attempt: str
):
    with Peer(broker.host, broker.port) as owner, Peer(broker.host, broker.port) as stranger:
        for peer in (owner, stranger):
            peer.open()
            peer.open_channel()
        owner.send_bytes(message(owner.queue, b"mine"))
        owner.call(Queue.Bind(queue=owner.queue, exchange="amq.direct"), Queue.BindOk)
        owner.call(Queue.Declare(queue=owner.queue, passive=True), Queue.DeclareOk)
        stranger.do(LOCKED[attempt](owner.queue))
        outcome = stranger.outcome()
        assert (outcome.scope, outcome.code) == ("channel", 405)
        assert outcome.text.startswith(
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue"
        )
        assert owner.get(owner.queue) == b"mine"
    assert_nobody_noticed(broker, bystander)
