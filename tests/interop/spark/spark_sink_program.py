"""A streaming driver that writes exactly once, and that a test kills: `python spark_sink_program.py JSON`.

The first attempt of each task of the first micro-batch fails half-way. Rows from `WAITS_AT` on, if that is
in the environment, wait to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from interop.spark.spark_stream import run_to_its_end
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from routelog.spark_bridge import register
from routelog.spark_bridge.writing.exchange_writer import BATCH_PROPERTY

FAILS_AT = 2_000  # rows of a task
WAITS_AT = int(os.environ.get("WAITS_AT", sys.maxsize))
WAITS_SECONDS = 3_600

_seen: Counter[int] = Counter()


@udf(BinaryType())
def failing_once(body: bytearray) -> bytearray:
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and context.getLocalProperty(BATCH_PROPERTY) == "0":
        _seen[context.partitionId()] += 1
        if _seen[context.partitionId()] == FAILS_AT:
            raise RuntimeError("the first attempt")
    if int(body) >= WAITS_AT:
        time.sleep(WAITS_SECONDS)
    return body


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    frame = spark.readStream.format("routelog").options(**given["source"]).load()
    rows = frame.select(failing_once("body").alias("body"))
    writer = rows.writeStream.format("routelog").options(**given["sink"])
    writer.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True)
    run_to_its_end(writer, Path(given["checkpoint"]))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
