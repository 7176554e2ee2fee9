"""What a whole broker says is wrong, with thresholds of its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import BrokerProcess
from support.management_door import ManagementDoor
from support.pika_client import Clients, Inbox, declare, send
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("has no such answer")

LIMITS = {"ROUTELOG_FINDINGS_MESSAGES": "2", "ROUTELOG_FINDINGS_AGE_SECONDS": "0.5"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, LIMITS).start()
    yield process
    process.stop()


@pytest.fixture
def clients(broker: BrokerProcess) -> Iterator[Clients]:
    made = Clients(broker.url)
    yield made
    made.close()


def found(broker: BrokerProcess) -> dict[str, Any]:
    return {row["kind"]: row for row in ManagementDoor(broker).get("findings")["findings"]}


def test_queues_are_told_of_from_the_configured_number_of_messages_on(
    broker: BrokerProcess, clients: Clients
) -> None:
    channel = clients.channel()
    one, two = declare(channel), declare(channel)
    for queue in (one, two, two):
        send(channel, queue, b"x")
    row = found(broker)["no consumer"]
    assert [each["name"] for each in row["named"]] == [two]
    answer = ManagementDoor(broker).get("findings")
    assert answer["verdict"] == "One queue has no consumer"


def test_what_a_consumer_keeps_for_long_is_told_of(broker: BrokerProcess, clients: Clients) -> None:
    channel = clients.channel()
    queue = declare(channel, arguments={"x-consumer-timeout": 20_000})
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    for body in (b"kept", b"waits"):
        send(channel, queue, body)
    inbox.wait_for(1)
    wait_until(lambda: {"unacked", "age"} <= set(found(broker)), channel.connection)
    rows = found(broker)
    assert f"does not acknowledge messages of {queue} for" in rows["unacked"]["text"]
    assert rows["age"]["named"][0]["name"] == queue
    channel.basic_ack(inbox.delivery_tags[0])
    wait_until(lambda: len(inbox.bodies) == 2, channel.connection)
    assert set(found(broker)) <= {"unacked"}


def test_a_user_who_is_refused_again_and_again_is_told_of(broker: BrokerProcess) -> None:
    door = ManagementDoor(broker, ("eve", "guessed"))
    for _ in range(12):
        door.ask("GET", "overview")
    row = found(broker)["login"]
    assert "eve was refused 10 times in ten minutes, most from 127.0.0.1" in row["text"]
