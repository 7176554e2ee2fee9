"""Streams and replay, as a client of RabbitMQ's streams over AMQP 0-9-1 knows them."""

from __future__ import annotations

import datetime
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from support.pika_client import PERSISTENT, Inbox, let_stop
from support.waiting import WAIT_SECONDS

STREAM = {"x-queue-type": "stream"}


def filled(channel, name, count, **arguments):
    channel.queue_declare(name, durable=True, arguments=STREAM | arguments)
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", name, b"%d" % number, PERSISTENT)


def read(connection, queue, count, offset=None):
    """Offsets and bodies of this many messages, each acked; fewer when nothing more comes."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    arguments = {} if offset is None else {"x-stream-offset": offset}
    got: list[Any] = []
    if count:
        incoming = channel.consume(queue, arguments=arguments, inactivity_timeout=WAIT_SECONDS)
        for method, properties, body in incoming:
            assert method is not None, f"only {len(got)} of {count} messages came"
            got.append((int(properties.headers["x-stream-offset"]), body))
            channel.basic_ack(method.delivery_tag)
            if len(got) == count:
                break
    channel.close()
    return got


def everything(first, end):
    return [(number, b"%d" % number) for number in range(first, end)]


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        (0, 0),
        (17, 17),
        ("1h", 0),
        ("999999999Y", 0),
        (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), 0),
    ],
)
def test_a_reader_begins_where_it_asks(connection, channel, name, offset, first):
    filled(channel, name, 40)
    assert read(connection, name, 40 - first, offset) == everything(first, 40)


def test_published_headers_stay_and_an_offset_among_them_is_replaced(connection, channel, name):
    filled(channel, name, 0)
    published: list[dict[str, Any]] = [
        {},
        {"a": 1},
        {"x-stream-offset": 77, "a": [{"b": 2}]},
        {"a": "x-stream-offset"},
    ]
    for headers in published:
        both = pika.BasicProperties(content_type="text/plain", app_id="app", headers=headers)
        channel.basic_publish("", name, b"", both)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=10)
    incoming = reader.consume(
        name, arguments={"x-stream-offset": "first"}, inactivity_timeout=WAIT_SECONDS
    )
    for offset, headers in enumerate(published):
        _, properties, _ = next(incoming)
        assert properties.headers == headers | {"x-stream-offset": offset}
        assert (properties.content_type, properties.app_id) == ("text/plain", "app")


def test_readers_do_not_take_messages_from_each_other(connection, channel, name):
    filled(channel, name, 20)
    for _ in range(3):
        assert read(connection, name, 20, "first") == everything(0, 20)


@pytest.mark.differs_from_rabbitmq("begins with the first")
@pytest.mark.parametrize("count", [1, 7, 20, 1_000])
def test_a_reader_may_begin_with_the_last_messages(connection, channel, name, count):
    filled(channel, name, 20)
    wanted = everything(max(0, 20 - count), 20)
    assert read(connection, name, len(wanted), -count) == wanted


@pytest.mark.differs_from_rabbitmq("always says 0")
def test_a_declaration_tells_how_many_messages_a_stream_has(channel, name):
    filled(channel, name, 20)
    assert channel.queue_declare(name, passive=True).method.message_count == 20


def test_without_an_offset_a_reader_gets_what_comes_next(connection, clients, channel, name):
    filled(channel, name, 5)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=10)
    incoming = reader.consume(name, inactivity_timeout=WAIT_SECONDS)
    late = clients.channel()  # another connection: this one is inside of `next`
    connection.call_later(0.2, lambda: late.basic_publish("", name, b"5", PERSISTENT))
    _, properties, body = next(incoming)
    assert (properties.headers["x-stream-offset"], body) == (5, b"5")


def test_a_timestamp_in_the_future_waits(connection, channel, name):
    filled(channel, name, 5)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=10)
    future = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    arguments = {"x-stream-offset": future}
    incoming = reader.consume(name, arguments=arguments, inactivity_timeout=0.3)
    assert next(incoming) == (None, None, None)


@pytest.mark.differs_from_rabbitmq("drops headers that are arrays or tables")
def test_other_headers_and_properties_stay(connection, channel, name):
    channel.queue_declare(name, durable=True, arguments=STREAM)
    properties = pika.BasicProperties(
        content_type="a/b", content_encoding="c", headers={"n": [1, "x"]}, message_id="m"
    )
    channel.basic_publish("", name, b"body", properties)
    reader = connection.channel()
    reader.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first"}
    incoming = reader.consume(name, arguments=arguments, inactivity_timeout=WAIT_SECONDS)
    _, got, body = next(incoming)
    assert (got.content_type, got.content_encoding, got.message_id) == ("a/b", "c", "m")
    assert (got.headers, body) == ({"x-stream-offset": 0, "n": [1, "x"]}, b"body")


@pytest.mark.differs_from_rabbitmq("closes the connection with 541")
@pytest.mark.parametrize("offset", ["somewhere", True, "5x"])
def test_an_offset_that_is_none_is_refused(connection, channel, name, offset):
    filled(channel, name, 1)
    with pytest.raises(ChannelClosedByBroker) as closed:
        read(connection, name, 1, offset)
    assert closed.value.reply_code == 406


def test_a_stream_needs_a_prefetch(connection, channel, name):
    filled(channel, name, 1)
    with pytest.raises(ChannelClosedByBroker) as closed:
        connection.channel().basic_consume(name, lambda *_: None)
    assert closed.value.reply_code == 406
    assert "prefetch count is not set" in closed.value.reply_text


@pytest.mark.parametrize("how", ["no_ack", "get", "purge"])
def test_what_a_stream_cannot_do_is_not_implemented(clients, name, how):
    channel = clients.channel()
    filled(channel, name, 1)
    acts = {
        "no_ack": lambda: channel.basic_consume(name, lambda *_: None, auto_ack=True),
        "get": lambda: channel.basic_get(name),
        "purge": lambda: channel.queue_purge(name),
    }
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        acts[how]()
    assert closed.value.reply_code == 540


@pytest.mark.parametrize("flags", [{"durable": False}, {"exclusive": True}, {"auto_delete": True}])
def test_a_stream_is_durable_and_shared(channel, name, flags):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, **({"durable": True} | flags), arguments=STREAM)
    assert closed.value.reply_code == 406


@pytest.mark.differs_from_rabbitmq("it has no x-retention")
def test_a_queue_with_retention_is_replayed_after_it_was_consumed(connection, channel, name):
    channel.queue_declare(name, durable=True, arguments={"x-retention": "1h"})
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", name, b"%d" % number, PERSISTENT)
    while channel.basic_get(name, auto_ack=True)[0] is not None:
        pass
    assert read(connection, name, 10, "first") == everything(0, 10)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", 1),
        ("x-expires", 60_000),
        ("x-max-length", 5),
        ("x-overflow", "reject-publish"),
        ("x-max-priority", 5),
        ("x-single-active-consumer", True),
        ("x-delivery-limit", 3),
        ("x-dead-letter-exchange", "amq.fanout"),
    ],
)
def test_what_a_stream_would_not_do_cannot_be_asked_of_it(channel, name, argument, value):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, durable=True, arguments=STREAM | {argument: value})
    assert closed.value.reply_code == 406
    assert f"invalid arg '{argument}' for queue '{name}'" in closed.value.reply_text


@pytest.mark.differs_from_rabbitmq("refuses it with 406, too, but in words of its own")
def test_a_queue_without_a_log_cannot_be_replayed(connection, channel, name):
    channel.queue_declare(name, durable=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        read(connection, name, 1, "first")
    assert closed.value.reply_code == 406
    assert "keeps no log" in closed.value.reply_text


@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_a_stream_is_read_again_after_the_broker_was_stopped(fresh_broker, client_of, stop):
    broker = fresh_broker()
    connection = client_of(broker)
    filled(connection.channel(), "kept", 30)
    if stop == "crash":
        broker.kill()
        broker.start()
    else:
        let_stop(broker.restart, connection)
    connection = client_of(broker)
    assert read(connection, "kept", 30, "first") == everything(0, 30)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "kept", b"30", PERSISTENT)
    assert read(connection, "kept", 1, 30) == [(30, b"30")]


def test_the_oldest_segments_go_when_a_stream_is_too_large(fresh_broker, client_of):
    broker = fresh_broker(ROUTELOG_SEGMENT_BYTES="65536", ROUTELOG_FLUSH_SECONDS="0.05")
    connection = client_of(broker)
    channel = connection.channel()
    arguments = STREAM | {"x-max-length-bytes": 200_000}
    channel.queue_declare("small", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(1_000):
        channel.basic_publish("", "small", b"%d" % number + bytes(1_000), PERSISTENT)
    [(first, body)] = read(connection, "small", 1, "first")
    assert 500 < first < 1_000
    assert body.startswith(b"%d\0" % first)


@pytest.fixture
def kept(channel, name):
    """A queue with `x-retention` whose ten messages are consumed: it has nothing ready."""
    filled(channel, name, 10, **{"x-queue-type": "classic", "x-retention": "1h"})
    while channel.basic_get(name, auto_ack=True)[0]:
        pass
    return name


@pytest.mark.differs_from_rabbitmq("it has no x-retention")
def test_a_reader_of_an_empty_queue_goes_on_with_a_larger_prefetch(connection, kept):
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inbox = Inbox(channel, kept, arguments={"x-stream-offset": "first"}).wait_for(3)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    inbox.wait_for(5)
