"""Indexes in Spark SQL, without Delta's jars: their files as they are at one moment, for Spark's own reader."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index_views(spark: "SparkSession", folder: str) -> list[str]:
    """Make each index of a folder a temporary view of its name.

    A view is of the moment: call it again to see what an update has brought, and after vacuum, which
    removes files that compaction has replaced.

    Args:
        folder: on storage that driver and executors share.

    Returns:
        The names of the views; indexes that were never updated have none.
    """
    # Extras; and Spark's workers import the package for its data source, and may lack what storage needs.
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError
    from pyspark.sql.functions import lit
    from pyspark.sql.types import StructType

    from routelog.log_backend import SystemDisk
    from routelog.spark_bridge.index.index_book import IndexBook

    book = IndexBook(Path(folder), SystemDisk())
    names = []
    for index in book.all():
        path = book.path(index)
        try:
            table = DeltaTable(path)
        except TableNotFoundError:
            continue
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        frame = spark.createDataFrame([], schema)
        if files := table.file_uris():
            # Names of directories say the date; the queue they say in a spelling of their own.
            frame = spark.read.schema(schema).option("basePath", str(path)).parquet(*files)
            frame = frame.withColumn("queue", lit(index.queue))
        frame.createOrReplaceTempView(index.name)
        names.append(index.name)
    return names
