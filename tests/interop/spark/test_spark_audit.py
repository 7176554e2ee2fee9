"""The whole way of audit events: aio-pika, topic routing, partitioned queues, a stream, a Delta table.

`ROUTELOG_TEST_AUDIT_EVENTS=1000000` is the full size.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import FIGURES, BrokerFactory
from deltalake import DeltaTable
from interop.spark.audit_publisher import EXCHANGE, KEYS, TENANTS, key_of
from interop.spark.spark_stream import run_to_its_end
from pyspark.sql import SparkSession
from support.log_service import http_logs, service_url
from support.pika_client import Clients

from routelog.spark_bridge import delta_batches
from routelog.spark_bridge.logs.readable_logs import LogPartition, ReadableLogs

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]

EVENTS = int(os.environ.get("ROUTELOG_TEST_AUDIT_EVENTS", "100000"))
PER_TRIGGER = max(EVENTS // 5, 1)
PARTITIONS = 3
QUEUES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "orders": ("order.#", lambda key: key.startswith("order.")),
    "europe": ("*.*.eu.*", lambda key: key.split(".")[2] == "eu"),
    "everything": ("#", lambda key: True),
}
PUBLISHER = Path(__file__).with_name("audit_publisher.py")
WAIT_SECONDS = 600


def confirmed(queue: str) -> list[int]:
    """Numbers of the events that a queue was given."""
    _, matches = QUEUES[queue]
    keys = [key_of(number) for number in range(len(KEYS) * TENANTS)]
    taken = [first for first, key in enumerate(keys) if matches(key)]
    return sorted(number for first in taken for number in range(first, EVENTS, len(keys)))


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def stored(logs: ReadableLogs) -> int:
    """Records that readers can see."""
    return sum(
        logs.extents(LogPartition("/", queue, number))[-1].end
        for queue in QUEUES
        for number in range(PARTITIONS)
    )


def run(spark: SparkSession, url: str, root: Path) -> None:
    """Read what there is into the table."""
    source = spark.readStream.format("routelog").options(
        url=url, subscribe=",".join(QUEUES), maxOffsetsPerTrigger=str(PER_TRIGGER)
    )
    rows = source.load().selectExpr(
        "queue",
        "partition",
        "offset",
        "timestamp",
        "cast(get_json_object(cast(body as string), '$.id') as long) as id",
    )
    writer = rows.writeStream.foreachBatch(delta_batches(str(root / "table")))
    checkpoint = root / "checkpoint"
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    run_to_its_end(writer, checkpoint)


def test_the_delta_table_has_what_was_confirmed(
    spark: SparkSession,
    fresh_broker: BrokerFactory,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    broker = fresh_broker()
    channel = Clients(broker.url).connect().channel()
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    arguments = {"x-queue-type": "stream", "x-partitions": PARTITIONS}
    for queue, (pattern, _) in QUEUES.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, EXCHANGE, pattern)
    began = time.monotonic()
    publisher = subprocess.Popen(
        [sys.executable, str(PUBLISHER), broker.url, str(EVENTS)],
        stdout=subprocess.PIPE,
        text=True,
    )
    runs = 0
    try:
        logs = http_logs(broker)
        wait_until(lambda: stored(logs) > 0)
        while publisher.poll() is None:
            run(spark, service_url(broker), tmp_path)
            runs += 1
    finally:
        publisher.kill()
        output, _ = publisher.communicate()
    assert output.split()[-1:] == [str(EVENTS)]
    numbers = {queue: confirmed(queue) for queue in QUEUES}
    records = sum(map(len, numbers.values()))
    wait_until(lambda: stored(logs) == records)
    run(spark, service_url(broker), tmp_path)
    seconds = time.monotonic() - began

    table = DeltaTable(tmp_path / "table")
    files = duckdb.read_parquet(table.file_uris())
    for queue, expected in numbers.items():
        found = files.filter(f"queue = '{queue}'").order("id").select("id").fetchnumpy()
        assert found["id"].tolist() == expected
    # Each place once, and none left out.
    places = files.aggregate(
        'queue, "partition", count(*), count(distinct "offset"), min("offset"), max("offset")'
    ).fetchall()
    assert len(places) == len(QUEUES) * PARTITIONS
    for _, _, count, different, first, last in places:
        assert (different, first, last) == (count, 0, count - 1)
    commits = table.version()
    assert runs >= 1
    assert commits > 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record_property(
        FIGURES,
        f"audit: {EVENTS:,} events confirmed, {records:,} records in {commits} commits of a Delta table"
        f" by {runs + 1} runs, {seconds:.0f} s; publisher {used.ru_utime + used.ru_stime:.0f} s of processor",
    )
