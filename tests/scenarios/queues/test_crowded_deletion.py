"""Queues and exchanges with very many bindings are deleted in several turns of the broker's loop."""

from __future__ import annotations

from itertools import product

import pytest
from pamqp import commands
from scenarios.clients.raw_client import Dropped, RawClient
from support.management_door import ManagementDoor
from support.pika_client import Clients, exists, send
from support.sampling import sampled
from support.waiting import wait_until

from routelog.exchanges.topology.binding_graph import DEPARTED_BINDINGS_MAX

COUNT = 3 * DEPARTED_BINDINGS_MAX + 5

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


@pytest.mark.parametrize(
    ("kind", "over"),
    [
        *product(("queues", "exchanges"), ("amqp", "http", "amqp by who leaves at once")),
        ("queues", "on conditions"),  # an exchange with bindings is in use
    ],
)
def test_all_bindings_go_and_no_others(crowded, kind, over):
    name, left = {
        "queues": ("to", OTHERS_OF_THE_QUEUE),
        "exchanges": ("from", OTHERS_OF_THE_EXCHANGE),
    }[kind]
    broker, clients = crowded
    channel = clients.channel()
    send(channel, "beside", b"stays")
    door = ManagementDoor(broker)
    if over == "http":
        door.do("DELETE", kind, "/", name)
    elif over == "on conditions":
        channel.queue_delete(name, if_unused=True, if_empty=True)
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


CROWD = 2_000


def import_crowd(door: ManagementDoor, queue: str, exchange: str) -> None:
    ends = {"source": exchange, "destination": queue, "destination_type": "queue", "arguments": {}}
    crowd = [{**ends, "routing_key": f"{number}.#"} for number in range(CROWD)]
    door.do("POST", "definitions", "/", body={"bindings": crowd})


@pytest.mark.parametrize("kind", sampled(["queues", "exchanges"], 2))
def test_a_kill_in_the_middle_leaves_nothing_behind(crowded, kind):
    broker, clients = crowded
    name = "to" if kind == "queues" else "from"
    import_crowd(ManagementDoor(broker), "to", "from")
    with RawClient(broker.host, broker.port) as client:
        client.open()
        client.open_channel()
        if kind == "queues":
            client.send(commands.Queue.Delete(queue=name), channel=1)
        else:
            client.send(commands.Exchange.Delete(exchange=name), channel=1)
        watch = clients.channel()
        wait_until(lambda: ManagementDoor(broker).ask("GET", kind, "/", name)[0] == 404)
        watch.queue_declare("marker", durable=True)  # behind the first of them on the disk
        broker.kill()
        with pytest.raises(Dropped):  # it is not done
            client.expect(
                commands.Queue.DeleteOk if kind == "queues" else commands.Exchange.DeleteOk
            )
    broker.start()
    door = ManagementDoor(broker)
    assert door.ask("GET", kind, "/", name)[0] == 404
    assert door.ask("GET", "queues", "/", "marker")[0] == 200
    left = OTHERS_OF_THE_QUEUE if kind == "queues" else OTHERS_OF_THE_EXCHANGE
    assert bindings(broker) == left
    channel = Clients(broker.url).channel()
    if kind == "queues":
        channel.queue_declare(name, durable=True)
    else:
        channel.exchange_declare(name, "topic", durable=True)
    assert bindings(broker) == left
    broker.kill()
    broker.start()
    assert bindings(broker) == left
