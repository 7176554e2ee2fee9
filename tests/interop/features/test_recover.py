"""`basic.recover` without requeue, where the operator has allowed it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients, Inbox, declare, round_trip, send
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("answers with 540, as we do without amqp_extensions")

LARGE = 262_144


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    data = tmp_path_factory.mktemp("recover")
    broker = BrokerProcess(data, {"ROUTELOG_AMQP_EXTENSIONS": "true"}).start()
    clients = Clients(broker.url)
    yield clients
    clients.close()
    broker.stop()


@pytest.fixture
def channel(clients: Clients) -> BlockingChannel:
    return clients.channel()


def test_a_consumer_gets_what_it_has_not_settled_once_more(
    clients: Clients, channel: BlockingChannel
) -> None:
    queue = declare(channel, auto_delete=True)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"0", b"1", b"2", b"3")
    inbox.wait_for(4)
    other = Inbox(clients.channel(), queue)
    channel.basic_ack(2)
    channel.basic_recover(requeue=False)
    inbox.wait_for(7)
    assert inbox.bodies[4:] == [b"0", b"2", b"3"]
    assert inbox.delivery_tags[4:] == [5, 6, 7]
    assert inbox.redelivered == [False] * 4 + [True] * 3
    other.channel.connection.process_data_events(0.1)
    assert other.bodies == []
    channel.basic_ack(7, multiple=True)
    assert channel.queue_purge(queue).method.message_count == 0


def test_the_tags_of_before_are_unknown(channel: BlockingChannel) -> None:
    queue = declare(channel)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"x")
    inbox.wait_for(1)
    channel.basic_recover(requeue=False)
    inbox.wait_for(2)
    channel.basic_ack(1)
    wait_until(lambda: channel.is_closed, channel.connection)


def test_what_was_got_and_what_has_lost_its_consumer_goes_back(channel: BlockingChannel) -> None:
    queue = declare(channel)
    send(channel, queue, b"got", b"left")
    channel.basic_get(queue)
    gone = Inbox(channel, queue).wait_for(1)
    channel.basic_cancel(gone.tag)
    channel.basic_recover(requeue=False)
    heir = Inbox(channel, queue).wait_for(2)
    assert (heir.bodies, heir.redelivered) == ([b"got", b"left"], [True, True])


def test_the_prefetch_count_holds(channel: BlockingChannel) -> None:
    queue = declare(channel)
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"0", b"1", b"2", b"3")
    inbox.wait_for(2)
    channel.basic_recover(requeue=False)
    inbox.wait_for(4)
    round_trip(channel)
    channel.connection.process_data_events(0.05)
    assert inbox.bodies == [b"0", b"1"] * 2
    channel.basic_ack(4, multiple=True)
    inbox.wait_for(6)
    assert inbox.bodies[4:] == [b"2", b"3"]


def test_each_time_counts_for_the_delivery_limit(channel: BlockingChannel) -> None:
    graveyard = declare(channel)
    arguments = {
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graveyard,
    }
    queue = declare(channel, arguments=arguments)
    inbox = Inbox(channel, queue)
    send(channel, queue, b"0", b"1")
    for count in (2, 4, 6):
        inbox.wait_for(count)
        channel.basic_recover(requeue=False)
    dead = Inbox(channel, graveyard, auto_ack=True).wait_for(2)
    assert dead.bodies == [b"0", b"1"]
    assert len(inbox.bodies) == 6
    assert [(p.headers or {}).get("x-delivery-count") for _, p, _ in inbox.deliveries] == [
        *[None] * 2,
        *[1] * 2,
        *[2] * 2,
    ]


def test_messages_keep_their_priorities(channel: BlockingChannel) -> None:
    queue = declare(channel, arguments={"x-max-priority": 5})
    for body, priority in ((b"low", 1), (b"high", 5)):
        channel.basic_publish("", queue, body, BasicProperties(priority=priority))
    inbox = Inbox(channel, queue).wait_for(2)
    channel.basic_recover(requeue=False)
    inbox.wait_for(4)
    channel.basic_nack(0, multiple=True)
    inbox.wait_for(6)
    assert inbox.bodies == [b"high", b"low"] * 3


def test_a_reader_of_a_stream_gets_its_records_again(channel: BlockingChannel) -> None:
    arguments = {"x-queue-type": "stream", "x-partitions": 2}
    channel.queue_declare("kept", durable=True, arguments=arguments)
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, "kept", arguments={"x-stream-offset": "first"})
    for number in range(4):
        channel.basic_publish("", "kept", b"%d" % number, PERSISTENT)
    inbox.wait_for(4)
    channel.basic_recover(requeue=False)
    inbox.wait_for(8)
    headers = [properties.headers for _, properties, _ in inbox.deliveries]
    assert inbox.bodies[4:] == inbox.bodies[:4]
    assert headers[4:] == headers[:4]
    assert inbox.redelivered[4:] == [True] * 4


def test_more_than_a_client_reads_at_once_comes_whole(channel: BlockingChannel) -> None:
    queue = declare(channel)
    bodies = [b"%d" % number * (LARGE // len(str(number))) for number in range(40)]
    inbox = Inbox(channel, queue)
    send(channel, queue, *bodies)
    inbox.wait_for(40)
    channel.basic_recover(requeue=False)
    inbox.wait_for(80)
    assert inbox.bodies[40:] == bodies
