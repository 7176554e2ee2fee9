"""Spark Connect: a client without a JVM, and a server whose Python has RouteLog."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from interop.spark.spark_cluster import Daemon, executor_python, install
from interop.spark.spark_driver import SparkDriver
from support.broker_process import BrokerProcess
from support.pika_client import Clients
from unit.spark_bridge.log_files import LogFiles

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

STARTED = re.compile(r"Spark Connect server started at: \S*:(\d+)")
CONFIGURATION = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
}
COUNT = 100


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """What a client calls a Connect server."""
    python = executor_python(tmp_path / "server")
    install(python)
    settings = [f"--conf={name}={value}" for name, value in CONFIGURATION.items()]
    daemon = Daemon(
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]"),
        *(*settings, "spark-internal"),
        PYSPARK_PYTHON=str(python),
        SPARK_DAEMON_MEMORY="768m",
    )
    try:
        yield f"sc://127.0.0.1:{daemon.wait_for(STARTED)[1]}"
    finally:
        daemon.kill()


def test_a_connect_client_reads_streams_and_writes(
    server: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    LogFiles(tmp_path).numbered_segment(0, 60, 40)
    clients = Clients(broker.url)
    channel = clients.connect(heartbeat=0).channel()  # nobody reads from it meanwhile
    queue = channel.queue_declare("", exclusive=True).method.queue
    given: dict[str, object] = {
        "url": server,
        "directory": str(tmp_path),
        "source": {"path": str(tmp_path), "subscribe": "audit"},
        "sink": {"url": broker.url, "exchange": "", "routingKey": queue},
    }
    driver = SparkDriver("spark_connect_program.py", given)
    try:
        # By its module's name first, then registered.
        assert json.loads(driver.wait_for("found ")) == COUNT
        expected = [[offset, str(offset)] for offset in range(90, COUNT)]
        assert json.loads(driver.wait_for("batch ")) == expected
        complaint = json.loads(driver.wait_for("complaint "))
        assert "option minPartitions: expected a number above 0, not 'few'" in complaint
        assert "give delta_batches an application" in json.loads(driver.wait_for("nameless "))
        assert json.loads(driver.wait_for("jvm ")) is False
        driver.wait_for("done ")
    finally:
        driver.kill()
    found = duckdb.read_parquet(DeltaTable(tmp_path / "table").file_uris()).order('"offset"')
    assert found.fetchall() == [(offset,) for offset in range(COUNT)]
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0]:
        bodies.append(got[2].decode())
    assert sorted(bodies) == sorted(f"audit/0/{offset}" for offset in range(COUNT))
    clients.close()
