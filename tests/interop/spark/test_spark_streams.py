"""Spark's structured streaming, unmodified, over logs that grow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset
import pytest
from interop.spark.spark_stream import SPARK, STARVED, Stream
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from support.broker_process import BrokerProcess
from support.pika_client import PERSISTENT, Clients
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge import parquet_batches
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.reading.lag import StreamLag
from routelog.spark_bridge.reading.lag_listener import LagListener

WAIT_SECONDS = 600

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def places(start: int, end: int, partition: int = 0) -> list[tuple[str, int, int]]:
    return [("audit", partition, offset) for offset in range(start, end)]


def test_a_live_queue_is_followed(
    spark: SparkSession, fresh_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = fresh_broker(ROUTELOG_FLUSH_SECONDS="0.05")
    clients = Clients(broker.url)
    channel = clients.channel()
    channel.queue_declare("audit", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    channel.basic_publish("", "audit", b"0", PERSISTENT)
    logs = LogDirectory(broker.data_dir)
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(logs.extents(each)[-1].end for each in logs.partitions("/", {"audit"})):
        assert time.monotonic() < deadline
        channel.connection.sleep(0.02)
    stream = Stream(spark, tmp_path, path=str(broker.data_dir), subscribe="audit")
    query = stream.start(processingTime="0 seconds")
    try:
        for number in range(1, 50):
            channel.basic_publish("", "audit", b"%d" % number, PERSISTENT)
        while len(stream.offsets) < 50:
            assert time.monotonic() < deadline, stream.batches
            if error := query.exception():
                assert STARVED in str(error)
                query = stream.start(processingTime="0 seconds")
            channel.connection.sleep(0.05)
    finally:
        query.stop()
        clients.close()
    assert stream.offsets == places(0, 50)


def test_available_now_reads_what_there_is_in_limited_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = LogFiles(tmp_path, partition=0), LogFiles(tmp_path, partition=1)
    first.numbered_segment(0, 50, 50)
    second.segment(0, (0, records([b"x" * 10] * 20)))
    limits = {"maxOffsetsPerTrigger": "40"}
    stream = Stream(spark, tmp_path, path=str(tmp_path), subscribe="audit", **limits)
    assert sorted(stream.run()) == places(0, 100) + places(0, 20, 1)
    assert [len(batch) for _, batch in stream.batches] == [39, 39, 39, 3]
    assert stream.run() == []
    first.numbered_segment(100, 5)
    assert stream.run() == places(100, 105)


@pytest.mark.long
def test_latest_is_pinned_by_the_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 10)
    latest = {"startingOffsets": "latest"}
    stream = Stream(spark, tmp_path, path=str(tmp_path), subscribe="audit", **latest)
    assert stream.run() == []
    stored = (stream.checkpoint / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(stored) == {"audit": {"0": 10}}
    # As a crash inside of batch 0 leaves it.
    for name in ("0", ".0.crc"):
        (stream.checkpoint / "commits" / name).unlink(missing_ok=True)
    log.numbered_segment(0, 10, 10)
    assert stream.run() == places(10, 20)


@pytest.mark.long
def test_a_limited_stream_begins_where_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 10)
    given = {"path": str(tmp_path), "subscribe": "audit", "maxOffsetsPerTrigger": "4"}
    told = Stream(spark, tmp_path / "told", **given, startingOffsets='{"audit": {"0": 3}}')
    assert told.run() == places(3, 10)
    assert [len(batch) for _, batch in told.batches] == [4, 3]
    latest = Stream(spark, tmp_path / "latest", **given, startingOffsets="latest")
    assert latest.run() == []
    log.numbered_segment(0, 10, 6)
    assert latest.run() == places(10, 16)


@pytest.mark.long
def test_a_retention_gap_fails_the_stream_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 5)
    given = {"path": str(tmp_path), "subscribe": "audit"}
    stream = Stream(spark, tmp_path, **given)
    assert stream.run() == places(0, 5)
    for path in log.directory.iterdir():
        path.unlink()
    log.numbered_segment(20, 5)
    with pytest.raises(StreamingQueryException, match="offsets 5 to 19 of partition 0 of queue"):
        stream.run()
    assert Stream(spark, tmp_path, failOnDataLoss="false", **given).run() == places(20, 25)


@pytest.mark.long
def test_mistakes_in_a_stream_are_answered_by_name(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 2)
    stream = Stream(spark, tmp_path, path=str(tmp_path), subscribe="audits")
    with pytest.raises(StreamingQueryException, match="option subscribe: no log of 'audits' in"):
        stream.run()


@pytest.mark.long
def test_a_query_written_for_kafka_runs(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).segment(0, (0, records([b"one", b"two"], routing_key=b"k")))
    reader = spark.read.format("routelog").options(
        path=str(tmp_path), subscribe="audit", schemaStyle="kafka", includeHeaders="true"
    )
    rows = reader.load().selectExpr("cast(key as string)", "cast(value as string)", "topic")
    assert [tuple(row) for row in rows.collect()] == [("k", "one", "audit"), ("k", "two", "audit")]
    assert reader.option("includeHeaders", "false").load().columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert reader.option("columns", "value,offset").load().columns == ["value", "offset"]


@pytest.mark.long
def test_conditions_are_pushed_down(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 10)
    damaged = log.numbered_segment(10, 10)
    damaged.write_bytes(bytes(damaged.stat().st_size))
    for base, year in ((20, 2027), (30, 2030)):
        time = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
        log.segment(base, (base, records([b"late"] * 10, time=time)))
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    reader = session.read.format("routelog").options(path=str(tmp_path), subscribe="audit")
    frame = reader.option("pushdown", "true").load()
    if SPARK < (4, 1):
        with pytest.raises(PySparkException, match=r"option pushdown: needs Spark 4\.1 or later"):
            frame.count()
        return
    # Whoever reads the whole log meets the damage.
    assert frame.where("offset >= 3 and offset < 7 and queue = 'audit'").count() == 4
    assert frame.where("timestamp > '2028-01-01 00:00:00'").count() == 10
    assert frame.where("partition = 1").count() == 0


@pytest.mark.long
def test_a_batch_that_is_written_again_replaces_what_a_crash_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, table = LogFiles(tmp_path), tmp_path / "table"
    log.numbered_segment(0, 10)
    frame = spark.read.format("routelog").options(path=str(tmp_path), subscribe="audit").load()
    write = parquet_batches(str(table), compression="zstd")
    write(frame.select("offset"), 0)
    write(frame.select("offset"), 1)
    left = table / "batch=1" / "_temporary" / "0"
    left.mkdir(parents=True)
    (first,) = (table / "batch=1").glob("*.parquet")
    for name in ("of-a-killed-task.parquet", "_temporary/0/half.parquet"):
        (table / "batch=1" / name).write_bytes(first.read_bytes())
    write(frame.where("offset < 5").select("offset"), 1)
    files = sorted(str(path.relative_to(table).parent) for path in table.rglob("*.parquet"))
    assert files == ["batch=0", "batch=1"]
    found = pyarrow.dataset.dataset(table, format="parquet").to_table(columns=["offset"])
    assert sorted(found["offset"].to_pylist()) == sorted([*range(10), *range(5)])


@pytest.mark.long
def test_the_lag_is_right_after_the_last_batch_too(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 10)
    reports: list[StreamLag] = []
    listener = LagListener(str(tmp_path), report=reports.append)
    spark.streams.addListener(listener)
    try:
        limits = {"maxOffsetsPerTrigger": "6"}
        stream = Stream(spark, tmp_path, path=str(tmp_path), subscribe="audit", **limits)
        assert stream.run() == places(0, 10)
        deadline = time.monotonic() + 60
        while not any(each.offsets_behind == 0 for each in reports):
            assert time.monotonic() < deadline, reports
            time.sleep(0.01)
    finally:
        spark.streams.removeListener(listener)
    assert [(each.batch, each.offsets_behind) for each in reports] == [(0, 4), (1, 0)]
    assert [each.partitions[0].latest_offset for each in reports] == [10, 10]
