"""What the broker tells of itself: the event exchange and the log exchange, as pika meets them."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("these are plugins there")

EVENT, LOG = "amq.rabbitmq.event", "amq.rabbitmq.log"


def listen(clients: Clients, exchange: str, *keys: str) -> Inbox:
    channel = clients.channel()
    queue = declare(channel)
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return Inbox(channel, queue, auto_ack=True)


def events_of(inbox: Inbox, name: str) -> list[str]:
    return [
        each.routing_key
        for each, properties, _ in inbox.deliveries
        if name in (properties.headers.get("name"), properties.headers.get("destination_name"))
    ]


def test_the_topology_tells_of_its_changes(
    clients: Clients, channel: BlockingChannel, name: str
) -> None:
    inbox = listen(clients, EVENT, "queue.*", "exchange.*", "binding.*")
    channel.queue_declare(name, durable=True, arguments={"x-max-length": 3})
    channel.exchange_declare(f"{name}.x", "topic")
    channel.queue_bind(name, f"{name}.x", "a.#")
    channel.queue_delete(name)
    channel.exchange_delete(f"{name}.x")
    wait_until(
        lambda: "exchange.deleted" in events_of(inbox, f"{name}.x"), inbox.channel.connection
    )
    assert events_of(inbox, name) == [
        "queue.created",
        "binding.created",
        "queue.deleted",
        "binding.deleted",
    ]
    assert events_of(inbox, f"{name}.x") == ["exchange.created", "exchange.deleted"]
    created = next(p for _, p, _ in inbox.deliveries if p.headers.get("name") == name)
    assert created.headers["vhost"] == "/"
    assert created.headers["arguments"] == {"x-max-length": 3}
    assert created.headers["durable"] is True
    assert created.headers["timestamp_in_ms"] // 1_000 == created.timestamp


def test_connections_and_logins_are_told_of(clients: Clients, broker: BrokerProcess) -> None:
    inbox = listen(clients, EVENT, "connection.*", "user.authentication.*")
    clients.connect().close()
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.AMQPError):
        clients.connect(credentials=wrong)
    wanted = [
        "user.authentication.success",
        "connection.created",
        "connection.closed",
        "user.authentication.failure",
    ]

    def told() -> list[str]:
        return [each.routing_key for each, _, _ in inbox.deliveries]

    wait_until(lambda: set(wanted) <= set(told()), inbox.channel.connection)
    _, properties, body = inbox.deliveries[told().index("connection.created")]
    assert properties.headers["user"] == "guest"
    assert "127.0.0.1:" in properties.headers["name"]
    assert body == b""


def test_what_operators_do_is_told_of(clients: Clients, broker: BrokerProcess, name: str) -> None:
    inbox = listen(clients, EVENT, "user.#", "vhost.*", "policy.*", "permission.*")
    door = ManagementDoor(broker)
    door.add_user(name)
    door.do("PUT", "users", name, body={"password": "other", "tags": ""})
    door.do("PUT", "policies", "/", name, body={"pattern": "^none$", "definition": {"expires": 9}})
    door.do("DELETE", "policies", "/", name)
    door.do("PUT", "vhosts", name)
    door.do("DELETE", "vhosts", name)
    door.do("DELETE", "users", name)
    wait_until(lambda: "user.deleted" in events_of(inbox, name), inbox.channel.connection)
    assert events_of(inbox, name) == [
        "user.created",
        "user.tags.set",
        "user.password.changed",
        "policy.set",
        "policy.cleared",
        "vhost.created",
        "vhost.deleted",
        "user.deleted",
    ]
    assert "permission.created" in [each.routing_key for each, _, _ in inbox.deliveries]


def test_the_log_is_told_by_severity(clients: Clients) -> None:
    inbox, other = listen(clients, LOG, "warning"), listen(clients, LOG, "critical")
    with pytest.raises(pika.exceptions.AMQPError):
        clients.connect(virtual_host="nowhere")
    wait_until(lambda: any(b"nowhere" in body for body in inbox.bodies), inbox.channel.connection)
    deliver, properties, _ = inbox.deliveries[-1]
    assert (deliver.exchange, deliver.routing_key) == (LOG, "warning")
    assert properties.content_type == "text/plain"
    name, _, host = properties.headers["node"].partition("@")
    assert name
    assert host
    assert other.deliveries == []


def test_another_vhost_has_no_such_exchanges(
    clients: Clients, broker: BrokerProcess, name: str
) -> None:
    door = ManagementDoor(broker)
    door.do("PUT", "vhosts", name)
    try:
        names = {row["name"] for row in door.get("exchanges", name)}
        assert "amq.rabbitmq.trace" in names
        assert not {EVENT, LOG} & names
    finally:
        door.do("DELETE", "vhosts", name)
