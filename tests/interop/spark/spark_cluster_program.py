"""A driver on a cluster: a batch read, then a stream into the exactly-once sink, with troubles on the way.

    python spark_cluster_program.py JSON

Tasks leave a mark where they are, as a file `<micro-batch>-<task>-<attempt>`. Half-way through its rows,
- the first attempt of task 0 fails, in micro-batch 0;
- the first attempt of task 0 stalls until another one is there, in micro-batch 1;
- all first attempts wait to be killed, in micro-batch 2, until there is a file `killed`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
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


@udf(StringType())
def troubled(place: str) -> str:
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty(BATCH_PROPERTY)
    task, attempt = context.partitionId(), context.attemptNumber()
    mark = f"{batch}-{task}-{attempt}"
    _seen[mark] += 1
    if _seen[mark] != TROUBLE_AT:
        return place
    (Path(MARKS) / mark).touch()
    awaited = ""
    if attempt == 0 and (batch, task) == ("0", 0):
        raise RuntimeError("the first attempt")
    if attempt == 0 and (batch, task) == ("1", 0):
        awaited = "1-0-1"
    if attempt == 0 and batch == "2":
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
