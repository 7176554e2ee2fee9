"""Queues whose sealed segments are compressed: clients notice nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker
from support.compressed_queue import (
    MESSAGES,
    ORDERS,
    SMALL_SEGMENTS,
    publish,
    segment_files,
    wait_until_compressed,
)
from support.pika_client import Clients, let_stop
from support.sampling import sampled
from support.waiting import WAIT_SECONDS

CODECS = ("zstd", "lz4")


@pytest.fixture
def broker(fresh_broker):
    """With small segments."""
    return fresh_broker(**SMALL_SEGMENTS)


@pytest.fixture
def open_channel(broker, request):
    """Opens a channel on a connection of its own."""

    def opened():
        clients = Clients(broker.url)
        request.addfinalizer(clients.close)
        return clients.channel()

    return opened


def consume(channel, queue, count, **arguments):
    channel.basic_qos(prefetch_count=200)
    got: list[Any] = []
    incoming = channel.consume(queue, arguments=arguments, inactivity_timeout=WAIT_SECONDS)
    for method, _, found in incoming:
        assert method is not None, f"only {len(got)} of {count} messages came"
        got.append(found)
        channel.basic_ack(method.delivery_tag)
        if len(got) == count:
            break
    channel.cancel()
    return got


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stop", sampled(["kill", "restart"], 2))
def test_a_backlog_is_compressed_and_consumed_after_a_restart(broker, open_channel, codec, stop):
    channel = open_channel()
    publish(channel, "orders", **{"x-compression": codec})
    wait_until_compressed(broker, "orders")
    assert sum(path.stat().st_size for path in segment_files(broker, "orders", ".zlog")) < 60_000
    if stop == "kill":
        broker.kill()
        broker.start()
    else:
        let_stop(broker.restart, channel.connection)
    assert consume(open_channel(), "orders", MESSAGES) == ORDERS


@pytest.mark.parametrize("codec", sampled(CODECS, 2))
def test_a_compressed_stream_is_replayed(broker, open_channel, codec):
    stream = {"x-queue-type": "stream", "x-compression": codec}
    channel = open_channel()
    publish(channel, "events", **stream)
    wait_until_compressed(broker, "events")
    let_stop(broker.restart, channel.connection)
    for _ in range(2):
        found = consume(open_channel(), "events", MESSAGES, **{"x-stream-offset": "first"})
        assert found == ORDERS
    assert consume(open_channel(), "events", 50, **{"x-stream-offset": 100}) == ORDERS[100:]


def test_what_is_consumed_leaves_no_files(broker, open_channel):
    channel = open_channel()
    publish(channel, "orders", **{"x-compression": "zstd"})
    wait_until_compressed(broker, "orders")
    assert consume(channel, "orders", MESSAGES) == ORDERS
    deadline = time.monotonic() + WAIT_SECONDS
    while (
        segment_files(broker, "orders", ".zlog")
        or len(segment_files(broker, "orders", "index")) > 2
    ):
        assert time.monotonic() < deadline
        channel.connection.process_data_events(0.01)


def test_a_deleted_queue_leaves_no_files(broker, open_channel):
    channel = open_channel()
    publish(channel, "orders", **{"x-compression": "zstd"})
    channel.queue_delete("orders")
    publish(channel, "orders", ORDERS[:10], **{"x-compression": "lz4"})
    assert consume(channel, "orders", 10) == ORDERS[:10]
    let_stop(broker.restart, channel.connection)
    assert segment_files(broker, "orders", ".zlog") == []
    assert not (broker.data_dir / "compressing").exists()


@pytest.mark.parametrize("value", ["gzip", "", "ZSTD", 1, True, None])
def test_a_codec_that_is_not_known_is_refused(channel, name, value):
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(name, durable=True, arguments={"x-compression": value})
    assert closed.value.reply_code == 406
    assert "x-compression" in closed.value.reply_text


def test_another_codec_at_redeclaration_is_refused(connection, name):
    arguments = {"x-compression": "zstd"}
    connection.channel().queue_declare(name, durable=True, arguments=arguments)
    connection.channel().queue_declare(name, durable=True, arguments=arguments)
    for other in ({"x-compression": "lz4"}, {}):
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().queue_declare(name, durable=True, arguments=other)
        assert closed.value.reply_code == 406


def test_queues_that_do_not_say_take_the_default(fresh_broker, request):
    broker = fresh_broker(**SMALL_SEGMENTS, ROUTELOG_DEFAULT_COMPRESSION="lz4")
    clients = Clients(broker.url)
    request.addfinalizer(clients.close)
    channel = clients.channel()
    publish(channel, "told nothing")
    publish(channel, "told none", **{"x-compression": "none"})
    wait_until_compressed(broker, "told%20nothing")
    assert segment_files(broker, "told%20none", ".zlog") == []
