"""Rows as messages exactly once: SIGKILL of the driver, tasks that fail half-way, and tasks that run twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from conftest import BrokerFactory
from interop.spark.spark_stream import run_to_its_end
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from support.broker_process import BrokerProcess
from support.pika_client import Clients
from unit.spark_bridge.log_files import LogFiles, records

from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.logs.errors import PublishFailed
from routelog.spark_bridge.writing import exchange_writer
from routelog.spark_bridge.writing.exchange_writer import ExchangeWriter

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("spark_sink_program.py")
BODY = StructField("body", BinaryType())
KEY = StructField("deduplication_key", StringType())
ROWS = 24_000
PER_BATCH = 8_000
DRIVER_SECONDS = 600


def once_exchange(broker: BrokerProcess) -> BlockingChannel:
    """The exchange of the sink in front of a queue."""
    channel = Clients(broker.url).connect().channel()
    arguments = {"x-cache-size": 1_000_000, "x-cache-persistence": "disk"}
    channel.exchange_declare("once", "x-message-deduplication", durable=True, arguments=arguments)
    channel.queue_declare("events", durable=True)
    channel.queue_bind("events", "once")
    return channel


def taken(channel: BlockingChannel) -> list[bytes]:
    count = channel.queue_declare("events", passive=True).method.message_count
    bodies = []
    for _, _, body in channel.consume("events", auto_ack=True):
        bodies.append(body)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def writer(
    broker: BrokerProcess, *fields: StructField, is_stream: bool = False, **given: str
) -> ExchangeWriter:
    options = {"url": broker.url, "exchange": "once", "routingKey": "k", "applicationId": "app"}
    source = RouteLogDataSource(options | given)
    make = source.streamWriter if is_stream else source.writer
    return cast(ExchangeWriter, make(StructType([BODY, *fields]), False))


def rows(*bodies: bytes) -> Iterator[Row]:
    return (Row(body=body) for body in bodies)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What Spark tells a task: where it is."""
    told = {"place": "0/0"}
    monkeypatch.setattr(exchange_writer, "task_place", lambda *, is_stream: told["place"])
    return told


def test_a_task_that_runs_again_adds_nothing(
    fresh_broker: BrokerFactory, place: dict[str, str]
) -> None:
    broker = fresh_broker()
    channel = once_exchange(broker)
    bodies = [b"%d" % n for n in range(5_000)]
    writer(broker).write(rows(*bodies[:1_234]))  # the attempt that failed
    both = [threading.Thread(target=writer(broker).write, args=(rows(*bodies),)) for _ in range(2)]
    for attempt in both:  # speculation
        attempt.start()
    for attempt in both:
        attempt.join(60)
    broker.kill()
    broker.start()
    channel = Clients(broker.url).connect().channel()
    writer(broker).write(rows(*bodies))
    assert taken(channel) == bodies
    # Other tasks, micro-batches and applications have rows of their own, however much they are alike.
    place["place"] = "0/1"
    writer(broker).write(rows(b"1", b"1"))
    place["place"] = "1/0"
    writer(broker).write(rows(b"1"))
    writer(broker, applicationId="another").write(rows(b"1"))
    assert taken(channel) == [b"1"] * 4


def test_a_row_in_the_place_of_another_is_not_taken_for_it(
    fresh_broker: BrokerFactory, place: dict[str, str]
) -> None:
    broker = fresh_broker()
    channel = once_exchange(broker)
    writer(broker).write(rows(b"a", b"b"))
    writer(broker).write(rows(b"a", b"c"))
    assert taken(channel) == [b"a", b"b", b"c"]


def test_rows_may_have_keys_of_their_own(
    fresh_broker: BrokerFactory, place: dict[str, str]
) -> None:
    broker = fresh_broker()
    channel = once_exchange(broker)
    sink = writer(broker, KEY)
    sink.write(iter([Row(body=b"a", deduplication_key="q/0/1")]))
    place["place"] = "7/7"
    sink.write(iter([Row(body=b"a", deduplication_key=key) for key in ("q/0/1", "q/0/2")]))
    assert taken(channel) == [b"a", b"a"]
    with pytest.raises(ValueError, match="null in column deduplication_key"):
        sink.write(iter([Row(body=b"a", deduplication_key=None)]))


def test_an_exchange_that_forgets_is_refused(
    fresh_broker: BrokerFactory, place: dict[str, str]
) -> None:
    broker = fresh_broker()
    once_exchange(broker)
    for name, kind in (("plain", "fanout"), ("amq.topic", "topic")):
        if kind == "fanout":
            Clients(broker.url).connect().channel().exchange_declare(name, kind, durable=True)
        with pytest.raises(PublishFailed, match=f"the channel was closed: .*'{name}'"):
            writer(broker, exchange=name).write(rows(b"a"))


@pytest.mark.long
def test_a_killed_driver_and_failing_tasks_publish_each_row_once(
    fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker()
    channel = once_exchange(broker)
    log = LogFiles(tmp_path / "source")
    batches = [
        (n, records([b"%d" % row for row in range(n, n + 100)])) for n in range(0, ROWS, 100)
    ]
    log.segment(0, *batches)
    given = {
        "source": {
            "path": str(tmp_path / "source"),
            "subscribe": "audit",
            "maxOffsetsPerTrigger": str(PER_BATCH),
            "minPartitions": "2",
        },
        "sink": {
            "url": broker.url,
            "exchange": "once",
            "routingKey": "k",
            "applicationId": "copy",
        },
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    killed_at = [
        _run(given, channel, kill_at=kill_at) for kill_at in (PER_BATCH + 1_000, PER_BATCH * 2)
    ]
    # Within a micro-batch, whose rows came again.
    assert PER_BATCH < killed_at[0] < ROWS
    assert _run(given, channel, kill_at=None) == ROWS
    assert sorted(map(int, taken(channel))) == list(range(ROWS))


@pytest.mark.long
def test_micro_batches_that_a_function_writes_have_rows_of_their_own(
    spark: SparkSession, fresh_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = fresh_broker()
    channel = once_exchange(broker)
    LogFiles(tmp_path).segment(0, (0, records([b"tick"] * 20)))
    sink = {"url": broker.url, "exchange": "once", "routingKey": "k", "applicationId": "ticks"}

    def publish(frame: DataFrame, batch: int) -> None:
        for _ in range(2):  # as when the function fails behind it, and the micro-batch runs again
            frame.select("body").write.format("routelog").options(**sink).mode("append").save()

    source = spark.readStream.format("routelog").options(path=str(tmp_path), subscribe="audit")
    rows = source.option("maxOffsetsPerTrigger", "10").load()
    writer = rows.writeStream.foreachBatch(publish).trigger(availableNow=True)
    run_to_its_end(writer.option("checkpointLocation", str(tmp_path / "once")), tmp_path / "once")
    assert taken(channel) == [b"tick"] * 20


def _run(given: dict[str, object], channel: BlockingChannel, kill_at: int | None) -> int:
    """Run the driver to its end, or until the queue has so many; returns how many it has then."""
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.getenv("PYTHONPATH")]
    driver = subprocess.Popen(
        [sys.executable, str(PROGRAM), json.dumps(given)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            # The last rows wait for the kill, however late this process looks.
            **({} if kill_at is None else {"WAITS_AT": str(ROWS - 1_000)}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + DRIVER_SECONDS
        while driver.poll() is None:
            assert time.monotonic() < deadline
            if kill_at is not None and _waiting(channel) >= kill_at:
                break
            time.sleep(0.02)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        output, _ = driver.communicate()
    assert driver.returncode == (0 if kill_at is None else -signal.SIGKILL), output
    return _waiting(channel)


def _waiting(channel: BlockingChannel) -> int:
    count: int = channel.queue_declare("events", passive=True).method.message_count
    return count
