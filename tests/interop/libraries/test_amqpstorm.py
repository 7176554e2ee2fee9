"""AMQPStorm: a thread-safe client with its own reader thread; its whole surface."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import amqpstorm
import pytest
from amqpstorm import AMQPChannelError, AMQPConnectionError, Message, UriConnection
from support.waiting import wait_until

pytestmark = pytest.mark.interop


@pytest.fixture
def connection(broker) -> Iterator[amqpstorm.Connection]:
    host, port = urlsplit(broker.url).hostname, urlsplit(broker.url).port
    with amqpstorm.Connection(host, "guest", "guest", port=port, heartbeat=2) as opened:
        yield opened


@pytest.fixture
def channel(connection: amqpstorm.Connection) -> Iterator[amqpstorm.Channel]:
    with connection.channel(rpc_timeout=60) as opened:
        yield opened


@pytest.fixture
def queue(channel: amqpstorm.Channel, name: str) -> Iterator[str]:
    channel.queue.declare(name)
    yield name
    if channel.is_open:
        channel.queue.delete(name)


def count(channel: amqpstorm.Channel, queue: str) -> int:
    return int(channel.queue.declare(queue, passive=True)["message_count"])


def test_a_connection_says_what_was_agreed(broker, connection) -> None:
    assert connection.is_open
    assert not connection.is_blocked
    assert (connection.max_allowed_channels, connection.max_frame_size) == (2_047, 131_072)
    assert connection.server_properties["capabilities"]["basic.nack"]
    connection.check_for_errors()
    with UriConnection(broker.url + "%2F?heartbeat=5") as other:
        assert other.is_open
    assert other.is_closed
    with pytest.raises(AMQPConnectionError, match="refused"):
        amqpstorm.Connection("127.0.0.1", "guest", "wrong", port=urlsplit(broker.url).port)


def test_messages_keep_their_properties(channel, queue) -> None:
    sent = Message.create(
        channel,
        '{"a": 1}',
        {
            "app_id": "app",
            "content_type": "application/json",
            "correlation_id": "c",
            "delivery_mode": 2,
            "expiration": "60000",
            "headers": {"n": 1, "deep": {"list": [1, "two"]}},
            "message_type": "kind",
            "priority": 3,
            "reply_to": "somewhere",
            "user_id": "guest",
        },
    )
    sent.publish(queue)
    got = channel.basic.get(queue)
    assert (got.body, got.json(), got.redelivered, got.delivery_tag) == (
        sent.body,
        {"a": 1},
        False,
        1,
    )
    for each in (
        "app_id",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "message_id",
        "priority",
    ):
        assert getattr(got, each) == getattr(sent, each)
    assert (got.message_type, got.reply_to, got.user_id) == ("kind", "somewhere", "guest")
    assert got.properties["headers"] == {"n": 1, "deep": {"list": [1, "two"]}}
    assert got.timestamp == sent.timestamp.replace(microsecond=0, tzinfo=got.timestamp.tzinfo)
    got.ack()
    assert channel.basic.get(queue) is None


def test_basic_settles_one_or_many(channel, queue) -> None:
    for number in range(6):
        channel.basic.publish(str(number), queue)
    got = [channel.basic.get(queue) for _ in range(6)]
    got[0].nack(requeue=True)
    again = channel.basic.get(queue)
    assert (again.body, again.redelivered) == ("0", True)
    got[1].reject(requeue=False)
    channel.basic.nack(got[2].delivery_tag, requeue=False)
    channel.basic.reject(got[3].delivery_tag, requeue=True)
    wait_until(lambda: count(channel, queue) == 1)
    channel.basic.ack(got[5].delivery_tag, multiple=True)
    channel.basic.recover(requeue=True)
    assert [channel.basic.get(queue, no_ack=True).body for _ in range(2)] == ["0", "3"]
    assert channel.queue.purge(queue) == {"message_count": 0}


def test_consumers_are_served_within_their_prefetch_and_end(channel, queue) -> None:
    channel.basic.qos(2)
    tag = channel.basic.consume(queue=queue, consumer_tag="mine")
    assert (tag, channel.consumer_tags) == ("mine", ["mine"])
    for number in range(5):
        channel.basic.publish(str(number), queue)
    wait_until(lambda: count(channel, queue) == 3)
    bodies = []
    for message in channel.build_inbound_messages(break_on_empty=False, auto_decode=True):
        bodies.append(message.body)
        message.ack()
        if len(bodies) == 5:
            break
    assert bodies == ["0", "1", "2", "3", "4"]
    assert channel.basic.cancel("mine")["consumer_tag"] == "mine"


def test_callbacks_run_in_a_thread_of_the_client(connection, queue) -> None:
    consuming = connection.channel()
    got: list[str] = []

    def take(message: Message) -> None:
        got.append(message.body)
        message.ack()
        if len(got) == 3:
            message.channel.stop_consuming()

    consuming.basic.consume(take, queue)
    thread = threading.Thread(target=consuming.start_consuming)
    thread.start()
    with connection.channel() as channel:
        for number in range(3):
            channel.basic.publish(str(number), queue)
    thread.join(60)
    assert got == ["0", "1", "2"]
    consuming.close()


def test_a_loop_of_ones_own_takes_what_came_as_a_pair_or_a_dictionary(channel, queue) -> None:
    got: list[tuple] = []

    def take(body, _, method, properties) -> None:
        got.append((body, properties["app_id"], method["redelivered"]))

    channel.basic.consume(take, queue, no_ack=True)
    channel.basic.publish("one", queue, properties={"app_id": "own"})
    wait_until(lambda: channel.process_data_events(to_tuple=True) or got)
    channel.check_for_errors()
    channel.check_for_exceptions()
    assert got == [(b"one", "own", False)]
    channel.stop_consuming()
    channel.basic.publish("two", queue)
    shown = channel.basic.get(queue, no_ack=True, to_dict=True)
    assert (shown["body"], shown["method"]["message_count"]) == (b"two", 0)


def test_exchanges_and_bindings(channel, queue, name) -> None:
    source, target = f"{name}.source", f"{name}.target"
    channel.exchange.declare(source, "topic", durable=True)
    channel.exchange.declare(target, "fanout", auto_delete=True)
    channel.exchange.declare(source, passive=True)
    channel.exchange.bind(destination=target, source=source, routing_key="a.*")
    channel.queue.bind(queue, target)
    channel.basic.publish("through", "a.b", source)
    assert channel.basic.get(queue, no_ack=True).body == "through"
    channel.exchange.unbind(destination=target, source=source, routing_key="a.*")
    channel.basic.publish("nowhere", "a.b", source)
    assert channel.basic.get(queue, no_ack=True) is None
    channel.queue.unbind(queue, target)
    channel.exchange.delete(source, if_unused=True)
    channel.exchange.delete(target)


def test_confirms_tell_what_reached_no_queue(channel, queue) -> None:
    channel.confirm_deliveries()
    assert channel.confirming_deliveries
    assert channel.basic.publish("kept", queue, mandatory=True) is True
    with pytest.raises(AMQPChannelError, match="not delivered"):
        channel.basic.publish("nobody", "no." + queue, mandatory=True)
    wait_until(lambda: count(channel, queue) == 1)


def test_transactions_commit_or_roll_back(channel, queue) -> None:
    with channel.tx:
        channel.basic.publish("committed", queue)
    wait_until(lambda: count(channel, queue) == 1)
    channel.tx.select()
    channel.basic.publish("never", queue)
    channel.tx.rollback()
    channel.tx.commit()
    wait_until(lambda: count(channel, queue) == 1)


def test_an_error_closes_its_channel_only(connection, channel, name) -> None:
    with pytest.raises(AMQPChannelError, match="NOT_FOUND - no queue") as caught:
        channel.queue.declare("no." + name, passive=True)
    assert caught.value.error_code == 404
    assert channel.is_closed
    with connection.channel() as other:
        assert other.queue.declare(exclusive=True)["queue"].startswith("amq.gen-")
