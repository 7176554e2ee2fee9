"""A driver on a cluster: a batch read, then a stream into the exactly-once sink, with troubles on the way.

    python spark_cluster_program.py JSON

Half-way through its rows, an attempt of a task leaves a mark: a file `<micro-batch>-<task>-<number>`, where
the first attempt of the task that came so far has number 0. It need not be the first one that Spark started.
- number 0 of task 0 fails, in micro-batch 0;
- number 0 of task 0 stalls until number 1 is there, in micro-batch 1;
- number 0 of all tasks waits to be killed, in micro-batch 2, until there is a file `killed`.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from interop.spark.spark_stream import run_to_its_end
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import concat_ws, udf
from pyspark.sql.types import StringType

from routelog.spark_bridge import register
from routelog.spark_bridge.writing.exchange_writer import BATCH_PROPERTY

GIVEN = json.loads(sys.argv[1])
MARKS = GIVEN["marks"]
TROUBLE_AT = GIVEN["trouble_at"]  # row of a task
WAIT_SECONDS = 240

_seen: Counter[str] = Counter()


def leave_mark(task: str) -> int:
    """Returns how many attempts of the task have left one before."""
    for number in itertools.count():
        with suppress(FileExistsError):
            (Path(MARKS) / f"{task}-{number}").touch(exist_ok=False)
            return number
    raise AssertionError


@udf(StringType())
def troubled(place: str) -> str:
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty(BATCH_PROPERTY)
    task = context.partitionId()
    attempt = f"{batch}-{task}-{context.attemptNumber()}"
    _seen[attempt] += 1
    if _seen[attempt] != TROUBLE_AT:
        return place
    number = leave_mark(f"{batch}-{task}")
    awaited = ""
    if number == 0 and (batch, task) == ("0", 0):
        raise RuntimeError("the first attempt")
    if number == 0 and (batch, task) == ("1", 0):
        awaited = "1-0-1"
    if number == 0 and batch == "2":
        awaited = "killed"
    deadline = time.monotonic() + WAIT_SECONDS
    while awaited and not (Path(MARKS) / awaited).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(awaited)
        time.sleep(0.02)
    return place


def package_path(number: int) -> str:
    from routelog import spark_bridge

    return str(spark_bridge.__file__)


def say(place: str, told: object) -> None:
    sys.stdout.write(f"{place} {json.dumps(told)}\n")
    sys.stdout.flush()


def main() -> None:
    builder = SparkSession.builder.master(GIVEN["master"])
    for name, value in GIVEN["configuration"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    tasks = spark.sparkContext.parallelize(range(8), 8)
    say("packages", sorted(set(tasks.map(package_path).collect())))

    batch = spark.read.format("routelog").options(**GIVEN["batch"]).load()
    place = concat_ws("/", "queue", "partition", "offset")
    say("batch", sorted(row.place for row in batch.select(place.alias("place")).collect()))

    stream = spark.readStream.format("routelog").options(**GIVEN["stream"]).load()
    rows = stream.select(troubled(place).alias("body"))
    writer = rows.writeStream.format("routelog").options(**GIVEN["sink"])
    writer.option("checkpointLocation", GIVEN["checkpoint"]).trigger(availableNow=True)
    run_to_its_end(writer, Path(GIVEN["checkpoint"]))
    say("done", True)
    spark.stop()


if __name__ == "__main__":
    main()
