"""Spark reads a log whose older part is in remote storage, as one: in batches and as a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import BrokerFactory
from interop.spark.spark_stream import Stream
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.compressed_queue import ORDERS, SMALL_SEGMENTS, publish
from support.log_service import http_logs, service_url, wait_until_stored
from support.object_server import ObjectServer
from support.pika_client import Clients
from support.waiting import wait_until

from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

AUDIT = LogPartition("/", "audit", 0)
COUNT = len(ORDERS)
STREAM = {"x-queue-type": "stream", "x-remote-storage": True, "x-local-max-length-bytes": 70_000}


def test_both_parts_of_a_log_are_one_table_and_one_stream(
    spark: SparkSession, fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    server = ObjectServer(tmp_path / "objects").start()
    try:
        remote = server.url("broker-1")
        settings = {"ROUTELOG_REMOTE_STORAGE": remote, "ROUTELOG_RETENTION_SECONDS": "0.1"}
        broker = fresh_broker(**SMALL_SEGMENTS, **settings)
        connection = Clients(broker.url).connect()
        publish(connection.channel(), "audit", **STREAM)
        wait_until_stored(http_logs(broker), AUDIT, COUNT)
        wait_until(lambda: http_logs(broker).extents(AUDIT)[0].start > COUNT / 2)

        options = {"url": service_url(broker), "remote": remote, "subscribe": "audit"}
        rows = spark.read.format("routelog").options(**options).load().orderBy("offset").collect()
        assert [bytes(row.body) for row in rows] == ORDERS
        assert [row.offset for row in rows] == list(range(COUNT))

        stream = Stream(spark, tmp_path, **options, maxOffsetsPerTrigger="70")
        assert stream.run() == [("audit", 0, n) for n in range(COUNT)]
        publish(connection.channel(), "audit", ORDERS[:40], **STREAM)
        wait_until_stored(http_logs(broker), AUDIT, COUNT + 40)
        assert stream.run() == [("audit", 0, COUNT + n) for n in range(40)]

        wrong = {**options, "remote": server.url("broker-1", key="nobody")}
        frame = spark.read.format("routelog").options(**wrong).load()
        with pytest.raises(PySparkException, match="option remote: s3://logs/broker-1 cannot be"):
            frame.collect()
    finally:
        server.stop()
