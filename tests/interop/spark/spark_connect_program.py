"""A client of Spark Connect, without a JVM: `python spark_connect_program.py JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from interop.spark.spark_stream import run_to_its_end
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import concat_ws
from pyspark.sql.streaming import DataStreamWriter

from routelog.spark_bridge import delta_batches, register

GIVEN = json.loads(sys.argv[1])


def say(place: str, told: object) -> None:
    sys.stdout.write(f"{place} {json.dumps(told)}\n")
    sys.stdout.flush()


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("routelog").options(**GIVEN["source"], **options).load()


def run(writer: DataStreamWriter, name: str) -> None:
    checkpoint = Path(GIVEN["directory"]) / f"{name}-checkpoint"
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    run_to_its_end(writer, checkpoint)


def main() -> None:
    found = SparkSession.builder.remote(GIVEN["url"]).create()
    say("found", read(found).count())
    spark = SparkSession.builder.remote(GIVEN["url"]).create()
    for _ in range(2):
        register(spark)
    frame = read(spark).select("offset", "body").where("offset >= 90")
    say("batch", sorted((row.offset, row.body.decode()) for row in frame.collect()))
    try:
        read(spark, minPartitions="few").count()
    except PySparkException as error:
        say("complaint", str(error))

    reader = spark.readStream.format("routelog").options(**GIVEN["source"])
    stream = reader.option("maxOffsetsPerTrigger", "40").load()
    for name in ("lake-1", ""):  # without a name it cannot tell what it has written
        table = delta_batches(f"{GIVEN['directory']}/table", name)
        try:
            run(stream.select("offset").writeStream.foreachBatch(table), f"table{name}")
        except PySparkException as error:
            say("nameless", str(error))
    place = concat_ws("/", "queue", "partition", "offset").alias("body")
    sink = stream.select(place).writeStream.format("routelog").options(**GIVEN["sink"])
    run(sink, "sink")
    say("jvm", SparkContext._jvm is not None)
    say("done", True)


if __name__ == "__main__":
    main()
