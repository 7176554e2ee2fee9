"""A streaming driver that a test kills: `python spark_stream_program.py JSON`.

It writes with `parquet_batches` and says on its standard output where it is; at the place that it is
told it waits to be killed.
"""

from __future__ import annotations

import json
import sys
import time

from interop.spark_stream import STARTS_MAX, STARVED
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_bridge import parquet_batches, register


def say(place: str) -> None:
    sys.stdout.write(f"{place}\n")
    sys.stdout.flush()


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    write = parquet_batches(given["directory"])

    def reach(place: str) -> None:
        say(place)
        if place == given["wait_at"]:
            time.sleep(600)

    def arrived(frame: DataFrame, batch: int) -> None:
        reach(f"begins {batch}")
        write(frame, batch)
        reach(f"written {batch}")

    frame = spark.readStream.format("routelog").options(**given["options"]).load()
    writer = frame.select("queue", "partition", "offset").writeStream.foreachBatch(arrived)
    writer.option("checkpointLocation", given["checkpoint"])
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
