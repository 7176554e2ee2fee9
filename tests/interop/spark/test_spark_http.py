"""Spark reads logs of a broker on another host: over HTTP, as from its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import BrokerFactory
from interop.spark.spark_stream import Stream
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.compressed_queue import ORDERS, SMALL_SEGMENTS, publish
from support.log_service import http_logs, service_url, wait_until_stored
from support.management_door import ManagementDoor
from support.pika_client import Clients
from support.waiting import wait_until

from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.lag import StreamLag
from routelog.spark_bridge.reading.lag_listener import LagListener

pytestmark = [pytest.mark.interop, pytest.mark.spark]

AUDIT = LogPartition("/", "audit", 0)
COUNT = len(ORDERS)


def test_batches_and_streams_over_http_have_what_the_files_have(
    spark: SparkSession, fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker(**SMALL_SEGMENTS)
    connection = Clients(broker.url).connect()
    publish(connection.channel(), "audit", **{"x-retention": "1h"})
    wait_until_stored(http_logs(broker), AUDIT, COUNT)
    url = service_url(broker)
    reader = spark.read.format("routelog").option("subscribe", "audit")
    files = reader.option("path", str(broker.data_dir)).load()
    http = spark.read.format("routelog").options(subscribe="audit", url=url).load()
    assert sorted(http.collect()) == sorted(files.collect())

    options = {"url": url, "subscribe": "audit", "maxOffsetsPerTrigger": "70"}
    stream = Stream(spark, tmp_path, **options, consumerName="lake")
    lags: list[StreamLag] = []
    listener = LagListener(url, report=lags.append)
    spark.streams.addListener(listener)
    try:
        assert len(stream.run()) == COUNT
        publish(connection.channel(), "audit", ORDERS[:10], **{"x-retention": "1h"})
        wait_until_stored(http_logs(broker), AUDIT, COUNT + 10)
        assert stream.run() == [("audit", 0, COUNT + n) for n in range(10)]
        wait_until(lambda: bool(lags) and lags[-1].offsets_behind == 0)
    finally:
        spark.streams.removeListener(listener)
    (held,) = ManagementDoor(broker).get("logs", "/", "audit", "readers")
    assert held["name"] == "lake"
    # Where the last micro-batch began: that it has ended is not known before the next one is planned.
    (place,) = held["partitions"]
    assert (place["next_offset"], place["messages_ready"]) == (COUNT, 10)


def test_what_is_wrong_with_the_address_is_said(
    spark: SparkSession, fresh_broker: BrokerFactory
) -> None:
    broker = fresh_broker()
    Clients(broker.url).connect().channel().queue_declare("audit", durable=True)
    reader = spark.read.format("routelog").option("subscribe", "audit")

    def complaint(**options: str) -> str:
        with pytest.raises(PySparkException) as caught:
            reader.options(**options).load().collect()
        return str(caught.value)

    assert "option url: http://127.0.0.1:1 cannot be reached" in complaint(
        url="http://guest:guest@127.0.0.1:1", fetchRetries="0"
    )
    refused = complaint(url=service_url(broker, "guest", "wr0ng"))
    assert "refuses user 'guest': Login failed" in refused
    assert "wr0ng" not in refused
    assert "option vhost: no vhost 'nowhere'" in complaint(url=service_url(broker), vhost="nowhere")
    assert "option path: give either path or url" in complaint(url=service_url(broker), path="/x")
