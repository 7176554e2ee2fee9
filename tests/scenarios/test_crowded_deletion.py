"""Queues and exchanges with very many bindings are deleted in several turns of the broker's loop."""

from __future__ import annotations

import pytest
from management_door import ManagementDoor
from pamqp import commands
from pika.exceptions import ChannelClosedByBroker
from pika_client import Clients, exists, send, wait_until
from scenarios.raw_client import RawClient

from exchanges.binding_graph import LOOSENED_MAX

COUNT = 3 * LOOSENED_MAX + 5

pytestmark = pytest.mark.differs_from_rabbitmq("needs its data directory")


@pytest.fixture
def crowded(fresh_broker):
    """A durable exchange and a durable queue with many bindings to each other, and to others."""
    broker = fresh_broker()
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.exchange_declare("from", "topic", durable=True)
    channel.exchange_declare("onto", "fanout", durable=True)
    channel.queue_declare("to", durable=True)
    channel.queue_declare("beside", durable=True)
    for number in range(COUNT):
        channel.queue_bind("to", "from", f"{number}.*")
    for queue in ("to", "beside"):
        channel.queue_bind(queue, "from", "kept")
        channel.queue_bind(queue, "onto", "on")
    channel.exchange_bind("onto", "from", "on")
    yield broker, clients
    clients.close()


def bindings(broker) -> list[tuple[str, str, str]]:
    rows = ManagementDoor(broker).get("bindings", "/")
    found = [(row["source"], row["destination"], row["routing_key"]) for row in rows]
    return sorted(each for each in found if each[0])


OTHERS_OF_THE_QUEUE = [("from", "beside", "kept"), ("from", "onto", "on"), ("onto", "beside", "on")]
OTHERS_OF_THE_EXCHANGE = [("onto", "beside", "on"), ("onto", "to", "on")]


@pytest.mark.parametrize("over", ["amqp", "http", "amqp by who leaves at once"])
@pytest.mark.parametrize(
    ("kind", "name", "left"),
    [("queues", "to", OTHERS_OF_THE_QUEUE), ("exchanges", "from", OTHERS_OF_THE_EXCHANGE)],
)
def test_all_bindings_go_and_no_others(crowded, over, kind, name, left):
    broker, clients = crowded
    channel = clients.channel()
    send(channel, "beside", b"stays")
    door = ManagementDoor(broker)
    if over == "http":
        door.do("DELETE", kind, "/", name)
    elif over == "amqp":
        channel.queue_delete(name) if kind == "queues" else channel.exchange_delete(name)
    else:
        with RawClient(broker.host, broker.port) as client:
            client.open()
            client.open_channel()
            if kind == "queues":
                client.send(commands.Queue.Delete(queue=name), channel=1)
            else:
                client.send(commands.Exchange.Delete(exchange=name), channel=1)
        wait_until(lambda: door.ask("GET", kind, "/", name)[0] == 404)
    assert door.ask("GET", kind, "/", name)[0] == 404
    assert bindings(broker) == left
    clients.close()
    broker.kill()
    broker.start()
    assert ManagementDoor(broker).ask("GET", kind, "/", name)[0] == 404
    assert bindings(broker) == left
    assert exists(clients.connect(), "beside")


@pytest.mark.parametrize("condition", ["if_empty", "if_unused"])
def test_a_deletion_that_is_refused_takes_no_binding(crowded, condition):
    broker, clients = crowded
    before = bindings(broker)
    channel = clients.channel()
    send(channel, "to", b"m")
    if condition == "if_unused":
        channel.basic_consume("to", lambda *_: None)
    with pytest.raises(ChannelClosedByBroker, match="406"):
        channel.queue_delete("to", **{condition: True})
    with pytest.raises(ChannelClosedByBroker, match="406"):
        clients.channel().exchange_delete("from", if_unused=True)
    assert bindings(broker) == before


def test_what_is_declared_anew_behind_it_has_no_bindings(crowded):
    broker, _ = crowded
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        for method in (
            commands.Queue.Delete(queue="to"),
            commands.Queue.Declare(queue="to", durable=True),
            commands.Exchange.Delete(exchange="from"),
            commands.Exchange.Declare(exchange="from", exchange_type="topic", durable=True),
        ):
            client.send(method, channel=1)
        for answer in (
            commands.Queue.DeleteOk,
            commands.Queue.DeclareOk,
            commands.Exchange.DeleteOk,
            commands.Exchange.DeclareOk,
        ):
            client.expect(answer)
    assert bindings(broker) == [("onto", "beside", "on")]


def test_a_vhost_with_crowds_can_be_deleted(crowded):
    broker, _ = crowded
    door = ManagementDoor(broker)
    definitions = door.get("definitions", "/")
    door.do("PUT", "vhosts", "second")
    door.do("POST", "definitions", "second", body=definitions)
    assert len(door.get("bindings", "second")) > COUNT
    door.do("DELETE", "vhosts", "second")
    door.do("PUT", "vhosts", "second")
    assert door.get("queues", "second") == []
    assert len(door.get("bindings", "/")) > COUNT
