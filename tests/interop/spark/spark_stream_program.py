"""A streaming driver that a test kills: `python spark_stream_program.py JSON`.

It writes with `parquet_batches` and says on its standard output where it is, and its source, which runs in
processes of Spark's, by making files; at the place that it is told it waits to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from interop.spark.spark_stream import STARTS_MAX, STARVED
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from routelog.spark_bridge import parquet_batches
from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.reading.log_stream_reader import LogStreamReader
from routelog.spark_bridge.reading.read_options import parse_read_options
from routelog.spark_bridge.reading.stored_offsets import StoredOffsets
from routelog.spark_bridge.reading.task_reader import TaskPartition

GIVEN = json.loads(sys.argv[1])


class WatchedReader(LogStreamReader):
    """Waits between Spark's log of offsets and the plan, and in the middle of a task."""

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        if start != end:
            self._reach(f"planning {end['audit']['0']}")
        return super().partitions(start, end)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            middle = batch.num_rows // 2
            yield batch[:middle]
            assert isinstance(partition, TaskPartition)
            self._reach(f"reading {partition.value[-1].end}")
            yield batch[middle:]

    def _reach(self, place: str) -> None:
        (Path(GIVEN["marks"]) / place).touch()
        parent = os.getppid()
        while place == GIVEN["wait_at"] and os.getppid() == parent:
            time.sleep(0.05)


class WatchedDataSource(RouteLogDataSource):
    """Under a name of its own, as nobody replaces a format that Spark has found."""

    @classmethod
    def name(cls) -> str:
        return "watched"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return WatchedReader(parse_read_options(self.options), schema)


def say(place: str) -> None:
    sys.stdout.write(f"{place}\n")
    sys.stdout.flush()


def main() -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(WatchedDataSource)
    write = parquet_batches(GIVEN["directory"])

    def reach(place: str) -> None:
        say(place)
        if place == GIVEN["wait_at"]:
            time.sleep(600)

    def arrived(frame: DataFrame, batch: int) -> None:
        reach(f"begins {batch}")
        write(frame, batch)
        reach(f"written {batch}")

    frame = spark.readStream.format("watched").options(**GIVEN["options"]).load()
    writer = frame.select("queue", "partition", "offset").writeStream.foreachBatch(arrived)
    writer.option("checkpointLocation", GIVEN["checkpoint"])
    for _ in range(STARTS_MAX):
        query = writer.start()
        try:
            query.processAllAvailable()
            break
        except StreamingQueryException as error:
            if STARVED not in str(error):
                raise
    say("caught up")
    sys.stdin.read()
    query.stop()


if __name__ == "__main__":
    main()
