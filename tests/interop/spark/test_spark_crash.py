"""SIGKILL of a streaming driver with its JVM, and of the broker: what is written holds each record once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset
import pytest
from conftest import BrokerFactory
from interop.spark.spark_driver import SparkDriver
from interop.spark.spark_stream import Stream
from pyspark.sql import DataFrame, SparkSession
from support.log_service import http_logs, service_url, wait_until_stored
from support.pika_client import PERSISTENT, Clients
from support.ports import free_port
from unit.spark_bridge.log_files import LogFiles

from routelog.spark_bridge.logs.readable_logs import LogPartition

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[str], SparkDriver]]:
    """Starts the program anew on the same checkpoint; it waits to be killed at a place."""
    drivers: list[SparkDriver] = []
    (tmp_path / "marks").mkdir()
    options = {
        "path": str(tmp_path),
        "subscribe": "audit",
        "startingOffsets": "latest",
        "maxOffsetsPerTrigger": "300",
    }

    def start(wait_at: str) -> SparkDriver:
        given = {
            "options": options,
            "checkpoint": str(tmp_path / "checkpoint"),
            "directory": str(tmp_path / "table"),
            "marks": str(tmp_path / "marks"),
            "wait_at": wait_at,
        }
        drivers.append(SparkDriver("spark_stream_program.py", given))
        return drivers[-1]

    try:
        yield start
    finally:
        for driver in drivers:
            driver.kill()


def test_a_killed_driver_loses_and_repeats_nothing(
    tmp_path: Path, drive: Callable[[str], SparkDriver]
) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 1_000)
    first = drive("begins 0")
    first.wait_for("begins 0")
    first.kill()
    # Behind the start, and before batch 0 was ever done.
    log.numbered_segment(0, 1_000, 700)

    checkpoint, marks = tmp_path / "checkpoint", tmp_path / "marks"
    # In Spark's log of offsets, and not planned; then half-way through a task.
    for place in ("planning 1300", "reading 1300"):
        driver = drive(place)
        driver.wait_for_marks(marks, {place})
        assert (checkpoint / "offsets" / "1").exists()
        driver.kill()
        assert not (checkpoint / "commits" / "1").exists()

    # In the table, and not in the checkpoint.
    second = drive("written 2")
    second.wait_for("written 2")
    second.kill()
    assert not (checkpoint / "commits" / "2").exists()

    last = drive("")
    last.wait_for("caught up")
    last.finish()
    rows = pyarrow.dataset.dataset(tmp_path / "table", format="parquet").to_table(
        columns=["offset"]
    )
    assert sorted(rows["offset"].to_pylist()) == list(range(1_000, 1_700))


class KillingStream(Stream):
    """Kills the broker when a micro-batch has been planned and is not read; it comes back later."""

    kill: Callable[[], None]

    def _arrived(self, frame: DataFrame, batch: int) -> None:
        if batch == 1:
            self.kill()
        super()._arrived(frame, batch)


def test_a_killed_broker_loses_and_repeats_nothing(
    spark: SparkSession, fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker(ROUTELOG_MANAGEMENT_PORT=str(free_port()))
    channel = Clients(broker.url).connect().channel()
    channel.queue_declare("audit", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()

    def publish(first: int, end: int) -> None:
        for number in range(first, end):
            channel.basic_publish("", "audit", b"%d" % number, PERSISTENT)
        wait_until_stored(http_logs(broker), LogPartition("/", "audit", 0), end)

    publish(0, 300)
    returns = threading.Timer(3.0, broker.start)
    stream = KillingStream(
        spark,
        tmp_path,
        url=service_url(broker),
        subscribe="audit",
        maxOffsetsPerTrigger="100",
        fetchRetries="20",
    )

    def kill() -> None:
        broker.kill()
        returns.start()

    stream.kill = kill
    assert stream.run() == [("audit", 0, offset) for offset in range(300)]
    assert [number for number, _ in stream.batches] == [0, 1, 2]
    returns.join()
    channel = Clients(broker.url).connect().channel()
    channel.confirm_delivery()
    publish(300, 350)
    assert stream.run() == [("audit", 0, offset) for offset in range(300, 350)]
