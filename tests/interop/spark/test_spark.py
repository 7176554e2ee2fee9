"""Apache Spark, unmodified, reads logs through the format `routelog`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.broker_process import BrokerProcess
from support.compressed_queue import ORDERS, SMALL_SEGMENTS, publish, wait_until_compressed
from support.pika_client import Clients
from unit.spark_bridge.log_files import LogFiles, numbered, records

from routelog.log_backend import key_partition
from routelog.spark_bridge import register

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def load(
    spark: SparkSession, data: Path, *, schema: str | None = None, **options: str
) -> DataFrame:
    reader = spark.read.format("routelog").options(path=str(data), **options)
    return (reader.schema(schema) if schema else reader).load()


def offsets(spark: SparkSession, data: Path, **options: str) -> list[tuple[int, int]]:
    """Partition and offset of all records found."""
    frame = load(spark, data, schema="partition int, offset long", **options)
    return sorted((row.partition, row.offset) for row in frame.collect())


def complaint(spark: SparkSession, data: Path, **options: str) -> str:
    schema = options.pop("schema", None)
    with pytest.raises(PySparkException) as caught:
        load(spark, data, schema=schema, **options).collect()
    return str(caught.value)


def test_the_format_is_found_without_registration(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 2)
    fresh = spark.newSession()
    assert load(fresh, tmp_path, subscribe="audit").count() == 2


@pytest.mark.long
def test_registration_may_be_repeated(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 2)
    fresh = spark.newSession()
    for session in (fresh, fresh, spark):
        register(session)
        assert load(session, tmp_path, subscribe="audit").count() == 2


def test_all_columns_of_a_record(spark: SparkSession, tmp_path: Path) -> None:
    sent = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    properties = Basic.Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers={"tenant": "acme", "try": 2, "ok": True, "none": None, "list": [1, "a"]},
        delivery_mode=2,
        priority=7,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        timestamp=sent,
        message_type="created",
        user_id="guest",
        app_id="shop",
    ).marshal()
    content = records(
        [b"\x00\xffbody", b""],
        exchange=b"events",
        routing_keys=[b"order.created", "größe".encode()],
        properties=[properties, b"\x00\x00"],
        time=1_700_000_000_123_456,
    )
    LogFiles(tmp_path, "audit/é", 3, vhost="shop").segment(41, (41, content))
    frame = load(spark, tmp_path, vhost="shop", subscribe="audit/é")
    first, second = (row.asDict(recursive=True) for row in frame.orderBy("offset").collect())
    received = datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    assert first.pop("timestamp").astimezone(UTC) == received
    assert first["properties"].pop("timestamp").astimezone(UTC) == sent
    assert first == {
        "vhost": "shop",
        "queue": "audit/é",
        "partition": 3,
        "offset": 41,
        "exchange": "events",
        "routing_key": "order.created",
        "properties": {
            "content_type": "application/json",
            "content_encoding": "gzip",
            "delivery_mode": 2,
            "priority": 7,
            "correlation_id": "c-1",
            "reply_to": "answers",
            "expiration": "60000",
            "message_id": "m-1",
            "type": "created",
            "user_id": "guest",
            "app_id": "shop",
        },
        "headers": {
            "tenant": "acme",
            "try": "2",
            "ok": "true",
            "none": None,
            "list": '[1, "a"]',
        },
        "body": b"\x00\xffbody",
    }
    assert (second["offset"], second["routing_key"], second["body"]) == (42, "größe", b"")
    assert (second["headers"], set(second["properties"].values())) == (None, {None})


def test_a_hundred_thousand_records_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    for partition in range(2):
        log = LogFiles(tmp_path, partition=partition)
        log.numbered_segment(0, *[1_000] * 20)
        log.numbered_segment(20_000, 1, *[999] * 30, 29, tail=bytes(4096))
    frame = load(spark, tmp_path, subscribe="audit", minPartitions="6")
    assert frame.count() == 100_000
    frame.createOrReplaceTempView("audit")
    sums = spark.sql(
        "select partition, count(distinct offset), min(offset), max(offset),"
        " count_if(cast(offset as string) = cast(body as string)) from audit group by partition"
    )
    assert sorted(map(tuple, sums.collect())) == [(p, 50_000, 0, 49_999, 50_000) for p in (0, 1)]


def test_the_partitions_of_a_queue_are_read_as_the_broker_filled_them(
    spark: SparkSession, fresh_broker: Callable[..., BrokerProcess]
) -> None:
    broker = fresh_broker(ROUTELOG_SEGMENT_BYTES="65536")
    clients = Clients(broker.url)
    channel = clients.channel()
    arguments = {"x-queue-type": "stream", "x-partitions": 3}
    channel.queue_declare("orders-1", durable=True, arguments=arguments)
    channel.queue_bind("orders-1", "amq.topic", "#")
    channel.confirm_delivery()  # a stream counts what is visible
    published: dict[str, list[str]] = {}
    for number in range(2_000):
        key = f"order.{number % 40}"
        published.setdefault(key, []).append(f"{number} ".ljust(100))
        channel.basic_publish("amq.topic", key, published[key][-1].encode())
    ready = channel.queue_declare("orders-1", passive=True).method.message_count
    clients.close()
    assert (ready, broker.terminate()) == (2_000, 0)

    schema = "queue string, partition int, offset long, routing_key string, body binary"
    rows = load(spark, broker.data_dir, schema=schema, subscribe="orders-1").collect()
    assert {row.queue for row in rows} == {"orders-1"}
    found: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
        assert row.partition == key_partition(row.routing_key.encode(), 3)
        found.setdefault(row.routing_key, []).append(row.body.decode())
    assert found == published
    for partition in range(3):
        own = sorted(row.offset for row in rows if row.partition == partition)
        assert own == list(range(len(own)))
        assert own
        assigned = json.dumps({"orders-1": [partition]})
        places = offsets(spark, broker.data_dir, assign=assigned, startingOffsets="earliest")
        assert places == [(partition, offset) for offset in own]


@pytest.mark.long
def test_a_schema_is_the_choice_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 2)
    frame = load(
        spark,
        tmp_path,
        schema="body binary, offset bigint, properties struct<message_id string>",
        subscribe="audit",
    )
    assert frame.columns == ["body", "offset", "properties"]
    assert sorted(map(tuple, frame.collect())) == [(b"0", 0, (None,)), (b"1", 1, (None,))]


@pytest.mark.long
def test_starting_and_ending_offsets(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path, partition=0).numbered_segment(10, 5, 5)
    LogFiles(tmp_path, partition=1).numbered_segment(0, 4)
    found = offsets(
        spark,
        tmp_path,
        subscribe="audit",
        startingOffsets='{"audit": {"0": 13, "1": -2}}',
        endingOffsets='{"audit": {"0": 16, "1": -1}}',
    )
    assert found == [(0, 13), (0, 14), (0, 15), (1, 0), (1, 1), (1, 2), (1, 3)]
    earliest = offsets(
        spark, tmp_path, assign='{"audit": [1]}', startingOffsets="earliest", endingOffsets="latest"
    )
    assert earliest == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_gaps_between_offsets_and_a_torn_tail(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.segment(0, (0, numbered(0, 2)), (40, numbered(40, 1)))
    log.segment(60, (61, numbered(61, 2)), tail=b"RLB1 and half a header")
    assert offsets(spark, tmp_path, subscribe="audit") == [(0, at) for at in (0, 1, 40, 61, 62)]


def test_a_damaged_sealed_segment_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    path = log.numbered_segment(0, 3, 3)
    data = bytearray(path.read_bytes())
    data[-12] ^= 1
    path.write_bytes(data)
    log.numbered_segment(6, 1)
    message = complaint(spark, tmp_path, subscribe="audit")
    assert f"{path} is damaged at position " in message


@pytest.mark.long
def test_many_partitions_of_many_queues(spark: SparkSession, tmp_path: Path) -> None:
    for queue in ("audit.eu", "audit.us", "orders"):
        for partition in range(20):
            LogFiles(tmp_path, queue, partition).numbered_segment(partition, 2)
    frame = load(spark, tmp_path, subscribePattern=r"audit\..*", schema="queue string, offset long")
    assert frame.count() == 80
    assert {row.queue for row in frame.distinct().collect()} == {"audit.eu", "audit.us"}
    limited = load(spark, tmp_path, subscribePattern=".*", maxRecordsPerPartition="1")
    assert limited.rdd.getNumPartitions() == 120


@pytest.mark.long
def test_an_empty_queue_has_no_records(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path, "never written")
    LogFiles(tmp_path, "preallocated").segment(0, tail=bytes(4096))
    frame = load(spark, tmp_path, subscribe="never written,preallocated")
    assert frame.collect() == []
    assert frame.count() == 0


def test_mistakes_are_answered_by_name(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 2)
    found = complaint(spark, tmp_path, subscribe="audit", startingOffset="earliest")
    assert "did you mean startingOffsets?" in found
    found = complaint(spark, tmp_path, subscribe="audit", minPartitions="few")
    assert "option minPartitions: expected a number above 0, not 'few'" in found
    found = complaint(spark, tmp_path, subscribe="audits")
    assert "option subscribe: no log of 'audits' in the vhost" in found
    found = complaint(spark, tmp_path, subscribe="audit", schema="offset string")
    assert "column offset is bigint, not string" in found
    found = complaint(spark, tmp_path / "nowhere", subscribe="audit")
    assert "option path: no broker's data directory" in found


def test_the_format_works_from_sql(spark: SparkSession, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 3)
    spark.sql(
        f"create or replace temporary view log using routelog"
        f" options (path '{tmp_path}', subscribe 'audit')"
    )
    assert spark.sql("select max(offset), count(*) from log").collect() == [(2, 3)]


def test_what_a_broker_compressed(spark: SparkSession, fresh_broker: Callable[..., Any]) -> None:
    broker = fresh_broker(**SMALL_SEGMENTS)
    clients = Clients(broker.url)
    kept = {
        "audit": {"x-compression": "zstd", "x-retention": "1h"},
        "events": {"x-compression": "lz4", "x-queue-type": "stream"},
    }
    for queue, arguments in kept.items():
        publish(clients.channel(), queue, **arguments)
        wait_until_compressed(broker, queue)
    clients.close()
    for queue in kept:
        frame = load(spark, broker.data_dir, subscribe=queue).orderBy("offset")
        rows = frame.select("offset", "body").collect()
        assert [(row.offset, bytes(row.body)) for row in rows] == list(enumerate(ORDERS))
    middle = load(spark, broker.data_dir, subscribe="audit", startingOffsets='{"audit": {"0": 50}}')
    assert middle.count() == len(ORDERS) - 50
