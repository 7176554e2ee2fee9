"""Spark over a cluster: it reads a follower's directory, or any node's HTTP API, across a change of leader."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pika
import pytest
from cluster.brokers.mirrored_brokers import mirrored_brokers
from interop.spark.spark_stream import Stream
from pyspark.sql import SparkSession
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT
from support.waiting import WAIT_SECONDS

from routelog.spark_bridge.logs.log_directory import LogDirectory

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

ARGUMENTS = {"x-queue-type": "stream"}


def publish(broker: BrokerProcess, start: int, end: int) -> None:
    """Publish numbers to the stream `audit`, all confirmed."""
    # A node that has just begun to lead closes whoever it was to pass on.
    url = f"{broker.url}?connection_attempts=20&retry_delay=0.5"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("audit", durable=True, arguments=ARGUMENTS)
    for number in range(start, end):
        channel.basic_publish("", "audit", b"%d" % number, PERSISTENT)
    connection.close()


def until_stored(broker: BrokerProcess, end: int) -> None:
    """Wait until a node's segments have all records below an offset."""
    logs = LogDirectory(broker.data_dir)
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(logs.extents(each)[-1].end >= end for each in logs.partitions("/", {"audit"})):
        assert time.monotonic() < deadline, broker.log_text()
        time.sleep(0.02)


def http_url(broker: BrokerProcess) -> str:
    """The HTTP API of a node, also of one that passes it on."""
    found = re.findall(r"listening for HTTP on (\S+)", broker.log_text())
    return f"http://guest:guest@{found[-1]}"


def places(start: int, end: int) -> list[tuple[str, int, int]]:
    return [("audit", 0, offset) for offset in range(start, end)]


def test_each_record_is_read_once_from_a_follower_across_a_change_of_leader(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("files", "http"):
        (tmp_path / name).mkdir()
    with mirrored_brokers(tmp_path / "nodes", ROUTELOG_FLUSH_SECONDS="0.05") as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        follower, other = (each for each in cluster.brokers.values() if each is not leader)
        publish(follower, 0, 50)
        until_stored(follower, 50)
        files = Stream(spark, tmp_path / "files", path=str(follower.data_dir), subscribe="audit")
        http = Stream(spark, tmp_path / "http", url=http_url(follower), subscribe="audit")
        assert files.run() == places(0, 50)
        assert http.run() == places(0, 50)
        leader.kill()
        cluster.until_led()
        publish(other, 50, 80)
        until_stored(follower, 80)
        assert files.run() == places(50, 80)
        assert http.run() == places(50, 80)
