"""A client that pauses its deliveries, where the operator has allowed it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients, Inbox

pytestmark = pytest.mark.differs_from_rabbitmq("answers with 540, as we do without amqp_extensions")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    data = tmp_path_factory.mktemp("flow")
    broker = BrokerProcess(data, {"ROUTELOG_AMQP_EXTENSIONS": "true"}).start()
    clients = Clients(broker.url)
    yield clients
    clients.close()
    broker.stop()


def publish(clients: Clients, queue: str, count: int) -> None:
    channel = clients.channel()
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)


def test_a_paused_channel_gets_nothing_until_it_goes_on(clients: Clients) -> None:
    channel = clients.channel()
    channel.queue_declare("paused")
    inbox = Inbox(channel, "paused", auto_ack=True)
    channel.flow(False)
    publish(clients, "paused", 3)
    channel.connection.process_data_events(0.3)
    assert inbox.bodies == []
    assert channel.basic_get("paused", auto_ack=True)[2] == b"0"
    channel.flow(True)
    inbox.wait_for(2)
    assert inbox.bodies == [b"1", b"2"]


def test_others_get_what_a_paused_channel_does_not(clients: Clients) -> None:
    paused, other = clients.channel(), clients.channel()
    other.queue_declare("shared")
    paused_inbox = Inbox(paused, "shared", auto_ack=True)
    paused.flow(False)
    inbox = Inbox(other, "shared", auto_ack=True)
    publish(clients, "shared", 4)
    inbox.wait_for(4)
    assert paused_inbox.bodies == []


def test_a_reader_of_an_empty_queue_goes_on_after_a_pause(clients: Clients) -> None:
    channel = clients.channel()
    channel.queue_declare("kept", durable=True, arguments={"x-retention": "1h"})
    publish(clients, "kept", 10)
    while channel.basic_get("kept", auto_ack=True)[0]:
        pass
    channel.basic_qos(prefetch_count=4)
    inbox = Inbox(channel, "kept", arguments={"x-stream-offset": "first"}).wait_for(4)
    channel.flow(False)
    channel.basic_ack(0, multiple=True)
    channel.flow(True)
    inbox.wait_for(8)
