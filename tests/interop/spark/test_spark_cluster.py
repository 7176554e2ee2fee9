"""A standalone cluster of Spark: executors that know nothing of the driver's path, and that die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BrokerFactory
from interop.spark.spark_cluster import SparkCluster, executor_python, install
from interop.spark.spark_driver import SparkDriver
from pika.adapters.blocking_connection import BlockingChannel
from support.broker_process import BrokerProcess
from support.log_service import http_logs, service_url
from support.pika_client import PERSISTENT, Clients
from support.waiting import wait_until

from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

WORKERS = 2
CORES = 2
PARTITIONS = WORKERS * CORES
PER_PARTITION = 1_500
PER_BATCH = PARTITIONS * PER_PARTITION // 3
TROUBLE_AT = 200  # of some 500 rows that a task has
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.75",  # the last task alone gets a second attempt
    "spark.speculation.efficiency.enabled": "false",  # else a task that has read quickly may stall for ever
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    started = SparkCluster(tmp_path / "cluster", WORKERS, cores=CORES)
    try:
        yield started
    finally:
        started.stop()


def fill(broker: BrokerProcess) -> list[str]:
    """A queue with partitions, and one behind the sink's exchange; returns the places of all records."""
    clients = Clients(broker.url)
    channel = clients.channel()
    arguments = {"x-queue-type": "stream", "x-partitions": PARTITIONS}
    channel.queue_declare("audit", durable=True, arguments=arguments)
    channel.queue_bind("audit", "amq.topic", "#")
    keys = ["user.20", "user.1", "user.0", "user.21"]  # of partitions 0 to 3
    for number in range(PER_PARTITION):
        for key in keys:
            channel.basic_publish("amq.topic", key, b"%d" % number, PERSISTENT)
    arguments = {"x-cache-size": 1_000_000, "x-cache-persistence": "disk"}
    channel.exchange_declare("once", "x-message-deduplication", durable=True, arguments=arguments)
    channel.queue_declare("copied", durable=True)
    channel.queue_bind("copied", "once")
    clients.close()
    logs = http_logs(broker)
    partitions = [LogPartition("/", "audit", number) for number in range(PARTITIONS)]
    wait_until(
        lambda: sum(logs.extents(each)[-1].end for each in partitions) == PARTITIONS * PER_PARTITION
    )
    return sorted(
        f"audit/{each.partition}/{offset}"
        for each in partitions
        for offset in range(logs.extents(each)[-1].end)
    )


def copied(channel: BlockingChannel) -> list[str]:
    count = channel.queue_declare("copied", passive=True).method.message_count
    bodies = []
    for _, _, body in channel.consume("copied", auto_ack=True, inactivity_timeout=10):
        bodies.append(body.decode())
        if len(bodies) == count:
            break
    return sorted(bodies)


def test_a_cluster_is_exact_while_tasks_fail_stall_and_a_worker_is_killed(
    cluster: SparkCluster, fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker()
    places = fill(broker)
    python = executor_python(tmp_path / "executor")
    install(python)
    marks = tmp_path / "marks"
    marks.mkdir()
    given: dict[str, object] = {
        "master": cluster.url,
        "configuration": CONFIGURATION,
        "batch": {"path": str(broker.data_dir), "subscribe": "audit"},
        "stream": {
            "url": service_url(broker),
            "subscribe": "audit",
            "maxOffsetsPerTrigger": str(PER_BATCH),
            "minPartitions": str(PARTITIONS),
        },
        "sink": {
            "url": broker.url,
            "exchange": "once",
            "routingKey": "k",
            "applicationId": "copy",
        },
        "checkpoint": str(tmp_path / "checkpoint"),
        "marks": str(marks),
        "trouble_at": TROUBLE_AT,
    }
    driver = SparkDriver("spark_cluster_program.py", given, PYSPARK_PYTHON=str(python))
    try:
        (package,) = json.loads(driver.wait_for("packages "))
        assert python.parents[1] in Path(package).parents
        assert json.loads(driver.wait_for("batch ")) == places
        driver.wait_for_marks(marks, {"0-0-0", "0-0-1"})
        driver.wait_for_marks(marks, {"1-0-0", "1-0-1"})
        driver.wait_for_marks(marks, {f"2-{task}-0" for task in range(PARTITIONS)})
        cluster.workers[0].kill()
        (marks / "killed").touch()
        driver.wait_for("done ")
        driver.finish()
    finally:
        driver.kill()
    # Of the last micro-batch, only what ran on the killed worker ran again; Spark may try the last task twice.
    left = [path.name.split("-") for path in marks.iterdir() if path.name.startswith("2-")]
    again = {task for _, task, number in left if number != "0"}
    assert len(again) == CORES, left
    clients = Clients(broker.url)
    assert copied(clients.channel()) == places
    clients.close()
