"""Readers over HTTP, as tasks of Spark, when another node leads: their tokens are those of all nodes."""

from __future__ import annotations

import pickle
from pathlib import Path

from cluster.brokers.mirrored_brokers import mirrored_brokers
from cluster.brokers.test_brokers import client, others
from cluster.brokers.test_leading import http_address
from support.log_service import contents, wait_until_stored
from support.pika_client import PERSISTENT

from routelog.spark_bridge.logs.http_endpoint import parse_endpoint
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

LOG = LogPartition("/", "log", 0)
WHOLE = OffsetRange(LOG, 0, 1, 0)


def test_a_task_reads_on_when_another_node_leads(tmp_path: Path) -> None:
    with mirrored_brokers(tmp_path, ROUTELOG_FLUSH_SECONDS="0.1") as cluster:
        cluster.until_led(in_sync=3)
        leader = cluster.leader()
        channel = client(leader).channel()
        channel.confirm_delivery()
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_publish("", "log", b"1", PERSISTENT)
        url = http_address(others(cluster, leader)[0]).replace("//", "//guest:guest@")
        endpoint = parse_endpoint(url, {}, 60.0, retries=100)
        driver = HttpLogs(endpoint, {})
        wait_until_stored(driver, LOG, 1)
        task = HttpLogs(pickle.loads(pickle.dumps(endpoint)), driver.ticket("/"))
        leader.kill()
        cluster.until_led(in_sync=2, without=f"{leader.data_dir.name}@test")
        wait_until_stored(driver, LOG, 1)
        assert contents(task, WHOLE) == [(0, b"1")]
