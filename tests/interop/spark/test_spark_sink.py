"""Rows of Spark as messages in a real broker: confirmed, or an error that says why not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from interop.spark.spark_stream import run_to_its_end
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from support.broker_process import BrokerProcess
from support.pika_client import Clients
from unit.spark_bridge.log_files import LogFiles

from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.logs.errors import BadOption, BadRow, PublishFailed
from routelog.spark_bridge.writing.confirmed_publisher import WINDOW_BYTES, WINDOW_MESSAGES
from routelog.spark_bridge.writing.exchange_writer import ExchangeWriter, Published

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROWS = StructType([StructField("body", BinaryType()), StructField("routing_key", StringType())])


def writer(broker: BrokerProcess, overwrite: bool = False, **given: str) -> ExchangeWriter:
    options = {"url": broker.url, "exchange": ""} | given
    return cast(ExchangeWriter, RouteLogDataSource(options).writer(ROWS, overwrite))


def rows(queue: str, bodies: list[bytes]) -> Iterator[Row]:
    return (Row(body=body, routing_key=queue) for body in bodies)


def taken(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All bodies that are in a queue."""
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0]:
        bodies.append(got[2])
    return bodies


@pytest.fixture
def channel(clients: Clients) -> BlockingChannel:
    return clients.channel()


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    name: str = channel.queue_declare("", exclusive=True).method.queue
    return name


def test_every_row_is_published_in_order(
    broker: BrokerProcess, channel: BlockingChannel, queue: str
) -> None:
    bodies = [b"%d" % number for number in range(WINDOW_MESSAGES + 500)]
    assert writer(broker).write(rows(queue, bodies)) == Published(len(bodies))
    assert taken(channel, queue) == bodies


def test_large_bodies_wait_for_confirms(
    broker: BrokerProcess, channel: BlockingChannel, queue: str
) -> None:
    bodies = [bytes([number]) * (WINDOW_BYTES // 2) for number in range(5)]
    assert writer(broker).write(rows(queue, bodies)) == Published(5)
    assert taken(channel, queue) == bodies


def test_rows_may_take_longer_than_confirms(
    broker: BrokerProcess, channel: BlockingChannel, queue: str
) -> None:
    def slow() -> Iterator[Row]:
        for body in (b"1", b"2"):
            yield Row(body=body, routing_key=queue)
            time.sleep(2.5)

    assert writer(broker, confirmTimeout="2s").write(slow()) == Published(2)
    assert taken(channel, queue) == [b"1", b"2"]


def test_no_rows_need_no_broker() -> None:
    options = {"url": "amqp://127.0.0.1:1/", "exchange": "", "routingKey": "k"}
    nothing = RouteLogDataSource(options).writer(ROWS, False).write(iter([]))
    assert nothing == Published(0)


def test_a_message_without_a_queue_is_an_error_unless_it_may_be(broker: BrokerProcess) -> None:
    with pytest.raises(PublishFailed, match="exchange '' with routing key 'nowhere': NO_ROUTE"):
        writer(broker).write(rows("nowhere", [b"x"]))
    allowed = writer(broker, mandatory="false")
    assert allowed.write(rows("nowhere", [b"x"])) == Published(1)


def test_a_missing_exchange_is_an_error(broker: BrokerProcess, channel: BlockingChannel) -> None:
    with pytest.raises(PublishFailed, match="no exchange 'nowhere'"):
        writer(broker, exchange="nowhere").write(rows("k", [b"x"]))


def test_a_broker_that_is_away_or_refuses_the_login_is_an_error(broker: BrokerProcess) -> None:
    away = writer(broker, url="amqp://127.0.0.1:1/")
    with pytest.raises(PublishFailed, match="no connection to the broker"):
        away.write(rows("k", [b"x"]))
    stranger = writer(broker, url=broker.url.replace("guest:guest", "guest:wrong"))
    with pytest.raises(PublishFailed, match="no connection to the broker"):
        stranger.write(rows("k", [b"x"]))


def test_a_broker_that_dies_meanwhile_is_an_error(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    broker = fresh_broker()
    clients = Clients(broker.url)
    clients.channel().queue_declare("audit")

    def endless() -> Iterator[Row]:
        for number in range(10 * WINDOW_MESSAGES):
            if number == WINDOW_MESSAGES:
                broker.kill()
            yield Row(body=b"x", routing_key="audit")

    with pytest.raises(PublishFailed, match="connection"):
        writer(broker).write(endless())


def test_a_broker_that_answers_nothing_is_an_error_in_time(
    fresh_broker: Callable[..., BrokerProcess],
) -> None:
    broker = fresh_broker()
    Clients(broker.url).channel().queue_declare("audit", durable=True)

    def stopped() -> Iterator[Row]:
        yield Row(body=b"x", routing_key="audit")
        os.kill(broker.pid, signal.SIGSTOP)

    began = time.monotonic()
    try:
        with pytest.raises(PublishFailed, match="confirmed nothing for 1 s"):
            writer(broker, confirmTimeout="1s").write(stopped())
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert time.monotonic() - began < 30


def test_a_bad_row_or_a_query_that_fails_ends_the_write(broker: BrokerProcess, queue: str) -> None:
    def failing() -> Iterator[Row]:
        yield Row(body=b"x", routing_key=queue)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer(broker).write(failing())
    with pytest.raises(BadRow, match="null in column body"):
        writer(broker).write(iter([Row(body=b"x", routing_key=queue), Row(body=None)]))
    with pytest.raises(BadOption, match="option mode: an exchange takes append only"):
        writer(broker, overwrite=True)


def test_batches_and_streams_write_to_an_exchange(
    spark: SparkSession, broker: BrokerProcess, channel: BlockingChannel, tmp_path: Path
) -> None:
    channel.exchange_declare("spark-events", "topic", auto_delete=True)
    channel.queue_declare("spark-sink", exclusive=True)
    channel.queue_bind("spark-sink", "spark-events", "made.#")
    frame = spark.sql(
        "select 'hello' as body, 'made.batch' as routing_key, map('tenant', 'acme') as headers,"
        " named_struct('message_id', 'm-1', 'timestamp', timestamp '2024-02-03 04:05:06')"
        " as properties"
    )
    sink = {"url": broker.url, "exchange": "spark-events"}
    frame.write.format("routelog").options(**sink).mode("append").save()
    method, properties, body = channel.basic_get("spark-sink", auto_ack=True)
    assert (method.routing_key, body) == ("made.batch", b"hello")
    assert (properties.message_id, properties.delivery_mode) == ("m-1", 2)
    assert (properties.headers, properties.timestamp) == ({"tenant": "acme"}, 1_706_933_106)

    LogFiles(tmp_path).numbered_segment(0, 20)
    source = spark.readStream.format("routelog").schema("body binary")
    writer = source.options(path=str(tmp_path), subscribe="audit").load().writeStream
    writer.format("routelog").options(**sink, routingKey="made.stream").queryName("to-exchange")
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    run_to_its_end(writer, tmp_path / "checkpoint")
    assert sorted(taken(channel, "spark-sink")) == sorted(b"%d" % n for n in range(20))

    with pytest.raises(PySparkException, match="column tenant is no part of a message"):
        spark.sql("select 'x' as body, 'k' as routing_key, 1 as tenant").write.format(
            "routelog"
        ).options(**sink).mode("append").save()
