"""A program that reads the audit queue's log with PySpark.

    python spark_report.py DATA_FOLDER SCRATCH_FOLDER REPORT_FILE

The broker need not run: Spark reads the segment files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_counts import SparkCounts
from topology import ALL_QUEUE

from routelog.spark_bridge import register

OPENED_FILES_SHOWN = 10


def read_audit_log(spark: SparkSession, data: Path) -> SparkCounts:
    """Count events by name, and the files that were opened."""
    log = (
        spark.read.format("routelog")
        .option("path", str(data))
        .option("subscribe", ALL_QUEUE)
        .load()
        .select("routing_key", sf.col("body").cast("string").alias("body"))
    )
    return SparkCounts(_events_by_name(log), _opened_files(log))


def _events_by_name(log: DataFrame) -> dict[str, int]:
    rows = log.groupBy("routing_key").count().orderBy(sf.desc("count"), "routing_key").collect()
    return {row["routing_key"]: row["count"] for row in rows}


def _opened_files(log: DataFrame) -> list[tuple[str, int]]:
    file = sf.get_json_object("body", "$.args[0]").alias("file")
    files = log.where(sf.col("routing_key") == "open").select(file)
    named = files.where(sf.col("file").contains("/"))  # the others are file descriptors
    most = named.groupBy("file").count().orderBy(sf.desc("count"), "file")
    return [(row["file"], row["count"]) for row in most.limit(OPENED_FILES_SHOWN).collect()]


def _session(scratch: Path) -> SparkSession:
    """A small local session that writes below `scratch` only."""
    java_options = f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} -XX:-UsePerfData"
    return (
        SparkSession.builder.master("local[2]")
        .appName("routelog-demo")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def _stop(spark: SparkSession) -> None:
    """Stop Spark and see its Java process end, which by itself would outlive this program."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def main() -> None:
    """Read, save the report, stop Spark."""
    data, scratch, report = map(Path, sys.argv[1:])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:-UsePerfData"  # else it writes below /tmp
    spark = _session(scratch)
    try:
        register(spark)
        read_audit_log(spark, data).save(report)
    finally:
        _stop(spark)


if __name__ == "__main__":
    main()
