"""A user publishes faster than allowed: his publisher waits and is told, and everybody else goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, ready_count, send
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("it limits no rates")

MESSAGES = 50
REASON = "publish rate of user 'ann'"


@pytest.fixture
def door(broker: BrokerProcess) -> Iterator[ManagementDoor]:
    door = ManagementDoor(broker)
    door.add_user("ann", "management")
    yield door
    door.do("DELETE", "users", "ann")


def publisher(clients: Clients) -> tuple[pika.BlockingConnection, list[str]]:
    """A connection of ann, and what it hears of having to wait."""
    connection = clients.connect(credentials=pika.PlainCredentials("ann", "ann"))
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, how: told.append(how.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _, __: told.append("go on"))
    return connection, told


@pytest.mark.differs_at_fronts("each node has a share of the rate, and HTTP is the leader's")
def test_who_is_too_fast_waits_until_the_limit_is_lifted(
    broker: BrokerProcess, door: ManagementDoor, clients: Clients
) -> None:
    others = clients.channel()
    queue, quick = declare(others), declare(others)
    door.do("PUT", "user-limits", "ann", "max-publish-rate", body={"value": 1})
    connection, told = publisher(clients)
    channel = connection.channel()
    for number in range(MESSAGES):
        channel.basic_publish("", queue, b"%d" % number)
    wait_until(lambda: REASON in told, connection)
    assert ready_count(others, queue) < MESSAGES

    inbox = Inbox(others, quick)
    send(others, quick, b"of somebody else")
    inbox.wait_for(1)
    others.basic_ack(inbox.delivery_tags[0])
    wait_until(lambda: REASON in str(door.get("findings", query="kind=blocked")), connection)
    wait_until(lambda: [REASON] in [row["blocked_by"] for row in door.get("connections")])
    ann = ManagementDoor(broker, ("ann", "ann"))
    body = {"routing_key": queue, "payload": "", "payload_encoding": "string", "properties": {}}
    status, refusal = ann.ask("POST", "exchanges", "/", "amq.default", "publish", body=body)
    assert (status, REASON in refusal["reason"]) == (503, True)

    door.do("DELETE", "user-limits", "ann", "max-publish-rate")
    wait_until(lambda: ready_count(others, queue) == MESSAGES, connection)
    wait_until(lambda: told[-1] == "go on", connection)
    assert ann.do("POST", "exchanges", "/", "amq.default", "publish", body=body)["routed"]


def test_large_messages_and_transactions_count_too(door: ManagementDoor, clients: Clients) -> None:
    others = clients.channel()
    queue = declare(others)
    door.do("PUT", "user-limits", "ann", "max-publish-bytes-rate", body={"value": 100_000})
    connection, told = publisher(clients)
    channel = connection.channel()
    channel.tx_select()
    for _ in range(2):
        channel.basic_publish("", queue, bytes(3_000_000))
    wait_until(lambda: REASON in told, connection)
    assert ready_count(others, queue) == 0
    door.do("PUT", "user-limits", "ann", "max-publish-bytes-rate", body={"value": 10**9})
    channel.tx_commit()
    assert ready_count(others, queue) == 2
