"""What a stream of Spark tells a broker of its place: never more than is done, however Spark asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql.types import StructType
from support.broker_process import BrokerProcess
from support.log_service import http_logs, service_url, wait_until_stored
from support.management_door import ManagementDoor
from support.pika_client import PERSISTENT, Clients

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.log_stream_reader import LogStreamReader
from routelog.spark_bridge.reading.stored_offsets import StoredOffsets

pytestmark = pytest.mark.differs_from_rabbitmq("has no such readers")

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", {"ROUTELOG_FLUSH_SECONDS": "0.05"}).start()
    yield process
    process.stop()


def publish(broker: BrokerProcess, first: int, end: int) -> None:
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("audit", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(first, end):
        channel.basic_publish("", "audit", b"%d" % number, PERSISTENT)
    clients.close()
    wait_until_stored(http_logs(broker), LogPartition("/", "audit", 0), end)


def reader(broker: BrokerProcess, **given: str) -> LogStreamReader:
    """One run of the query."""
    options = {"url": service_url(broker), "subscribe": "audit", "consumerName": "lake"}
    source = RouteLogDataSource(options | given)
    return cast(LogStreamReader, source.streamReader(StructType([ENVELOPE["offset"]])))


def kept_from(broker: BrokerProcess) -> int:
    """The offset from which on the broker keeps the log for the reader."""
    (row,) = ManagementDoor(broker).get("logs", "/", "audit", "readers")
    (place,) = row["partitions"]
    return int(place["next_offset"])


def at(offset: int) -> StoredOffsets:
    return {"audit": {"0": offset}}


@pytest.mark.parametrize("gives_start", [True, False])  # from Spark 4.2, and before
def test_the_log_is_kept_from_the_pinned_start_on(broker: BrokerProcess, gives_start: bool) -> None:
    publish(broker, 0, 10)
    stream = reader(broker, startingOffsets="latest")
    pinned = stream.latestOffset(stream.initialOffset()) if gives_start else stream.latestOffset()
    assert pinned["audit"]["0"] == 10
    publish(broker, 10, 20)
    # Spark asks again where it begins, and the answer differs.
    stream.partitions(stream.initialOffset(), pinned)
    assert kept_from(broker) == 10
    # So does one that was killed before its first micro-batch was done.
    again = reader(broker, startingOffsets="latest")
    again.partitions(again.initialOffset(), pinned)
    assert kept_from(broker) == 10
    stream.partitions(pinned, at(15))
    assert kept_from(broker) == 10
    stream.partitions(at(15), at(20))
    assert kept_from(broker) == 15


def test_a_micro_batch_that_is_to_run_again_is_kept(broker: BrokerProcess) -> None:
    publish(broker, 0, 10)
    # What Spark before 4.2 does first on a checkpoint, whether its last micro-batch is done or not.
    stream = reader(broker)
    assert stream.partitions(at(8), at(8)) == []
    (again,) = stream.partitions(at(4), at(8))
    assert kept_from(broker) == 4
    assert sum(batch.num_rows for batch in stream.read(again)) == 4
    assert stream.latestOffset()["audit"]["0"] == 10
    stream.partitions(at(8), at(10))
    assert kept_from(broker) == 8
