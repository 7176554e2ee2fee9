"""Queues with `x-message-deduplication`: one message a key, as the plugin for RabbitMQ has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.pika_client import Clients, Inbox, declare
from support.waiting import wait_until

pytestmark = pytest.mark.differs_from_rabbitmq("needs a plugin there")

UNIQUE = {"x-message-deduplication": True}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("unique")).start()
    yield process
    process.stop()


@pytest.fixture
def clients(broker: BrokerProcess) -> Iterator[Clients]:
    opened = Clients(broker.url)
    yield opened
    opened.close()


@pytest.fixture
def channel(clients: Clients) -> BlockingChannel:
    channel = clients.channel()
    channel.confirm_delivery()
    return channel


def put(channel: BlockingChannel, queue: str, body: bytes, key: object = None, **more: str) -> None:
    """Publish and wait for the confirm."""
    headers = None if key is None else {"x-deduplication-header": key}
    properties = BasicProperties(headers=headers, delivery_mode=2, **more)
    channel.basic_publish("", queue, body, properties)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[2] is not None:
        bodies.append(got[2])
    return bodies


def test_a_message_is_dropped_while_its_key_is_in_the_queue(channel: BlockingChannel) -> None:
    queue = declare(channel, arguments=UNIQUE)
    for body, key in ((b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", None), (b"5", None), (b"6", 7)):
        put(channel, queue, body, key)
    put(channel, queue, b"7", 7)
    put(channel, queue, b"text", "7")
    put(channel, queue, b"flag", True)
    put(channel, queue, b"flag", True)
    assert drain(channel, queue) == [b"1", b"3", b"4", b"5", b"6", b"text", b"flag"]
    put(channel, queue, b"8", "a")
    assert drain(channel, queue) == [b"8"]


def test_a_key_is_taken_until_its_message_is_acked(channel: BlockingChannel) -> None:
    queue = declare(channel, arguments=UNIQUE)
    put(channel, queue, b"1", "a")
    tag = channel.basic_get(queue)[0].delivery_tag
    put(channel, queue, b"2", "a")
    channel.basic_nack(tag, requeue=True)
    put(channel, queue, b"3", "a")
    inbox = Inbox(channel, queue).wait_for(1)
    assert inbox.bodies == [b"1"]
    channel.basic_ack(inbox.delivery_tags[0])
    put(channel, queue, b"4", "a")
    inbox.wait_for(2)
    assert inbox.bodies == [b"1", b"4"]


@pytest.mark.parametrize("how", ["purge", "reject", "expiration", "ttl", "max-length"])
def test_a_key_is_free_when_its_message_has_left(channel: BlockingChannel, how: str) -> None:
    arguments = {"ttl": {"x-message-ttl": 50}, "max-length": {"x-max-length": 1}}.get(how, {})
    queue = declare(channel, arguments=UNIQUE | arguments)
    put(channel, queue, b"1", "a", **({"expiration": "50"} if how == "expiration" else {}))
    if how == "purge":
        channel.queue_purge(queue)
    elif how == "reject":
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    elif how == "max-length":
        put(channel, queue, b"other", "b")
    else:
        channel.connection.sleep(0.2)
    put(channel, queue, b"2", "a")
    assert drain(channel, queue) == [b"2"]


def test_the_time_of_a_key_is_that_of_its_message_even_in_a_consumers_hands(
    channel: BlockingChannel,
) -> None:
    queue = declare(channel, arguments=UNIQUE)
    put(channel, queue, b"1", "a", expiration="50")
    channel.basic_get(queue)
    channel.connection.sleep(0.1)
    put(channel, queue, b"2", "a")
    assert drain(channel, queue) == [b"2"]


def test_a_message_may_come_back_to_its_queue_as_a_dead_letter(channel: BlockingChannel) -> None:
    queue = declare(channel, "comes.back", arguments=UNIQUE | {"x-dead-letter-exchange": ""})
    put(channel, queue, b"1", "a")
    channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    inbox = Inbox(channel, queue).wait_for(1)
    assert inbox.deliveries[0][1].headers["x-death"][0]["reason"] == "rejected"
    put(channel, queue, b"2", "a")
    channel.connection.process_data_events(0.05)
    assert inbox.bodies == [b"1"]


def test_keys_count_across_the_partitions_of_a_queue(channel: BlockingChannel) -> None:
    queue = declare(channel, durable=True, arguments=UNIQUE | {"x-partitions": 3})
    for number in range(12):
        channel.queue_bind(queue, "amq.topic", f"{queue}.#")
        headers = {"x-deduplication-header": str(number % 4)}
        properties = BasicProperties(headers=headers)
        channel.basic_publish("amq.topic", f"{queue}.{number}", b"%d" % number, properties)
    assert sorted(drain(channel, queue)) == [b"0", b"1", b"2", b"3"]
    channel.queue_delete(queue)


def test_keys_outlive_the_broker_with_their_messages(tmp_path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        channel = Clients(broker.url).channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True, arguments=UNIQUE)
        for key in ("gone", "stays"):
            put(channel, "kept", key.encode(), key)
        channel.basic_ack(channel.basic_get("kept")[0].delivery_tag)
        channel.connection.close()
        for stop in (broker.terminate, broker.kill):
            stop()
            broker.start()
            channel = Clients(broker.url).channel()
            channel.confirm_delivery()
            put(channel, "kept", b"again", "stays")
            assert channel.queue_declare("kept", passive=True).method.message_count == 1
        put(channel, "kept", b"again", "gone")
        assert drain(channel, "kept") == [b"stays", b"again"]
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-message-deduplication": "yes"}, "x-message-deduplication"),
        (UNIQUE | {"x-queue-type": "stream"}, "a stream keeps every message"),
    ],
)
def test_what_cannot_be_is_refused(
    channel: BlockingChannel, arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(ChannelClosedByBroker, match=reason) as refused:
        channel.queue_declare("refused", durable=True, arguments=arguments)
    assert refused.value.reply_code == 406


def test_a_redeclaration_has_to_say_the_same(channel: BlockingChannel) -> None:
    queue = declare(channel, "unique.once", arguments=UNIQUE)
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-message-deduplication'"):
        channel.queue_declare(queue, exclusive=True)
    wait_until(lambda: channel.is_closed)


def test_a_transaction_drops_what_is_there(channel: BlockingChannel, clients: Clients) -> None:
    queue = declare(clients.channel(), "unique.tx", auto_delete=True, arguments=UNIQUE)
    transacted = clients.channel()
    transacted.tx_select()
    for body in (b"1", b"2"):
        put(transacted, queue, body, "a")
    transacted.tx_commit()
    put(channel, queue, b"3", "a")
    assert drain(channel, queue) == [b"1"]
