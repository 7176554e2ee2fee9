"""Indexes in Spark SQL, without Delta's jars: Spark reads the current Parquet files of a table itself."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index_views(spark: "SparkSession", folder: str) -> list[str]:
    """Create a temporary view for each index of a folder, with the index's name.

    A view shows the table as it is now. Call this again to see an update, and after a vacuum, which removes
    files that compaction has replaced.

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
    from routelog.spark_bridge.index.index_registry import IndexRegistry

    registry = IndexRegistry(Path(folder), SystemDisk())
    names = []
    for index in registry.all():
        path = registry.path(index)
        try:
            table = DeltaTable(path)
        except TableNotFoundError:
            continue
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        frame = spark.createDataFrame([], schema)
        if files := table.file_uris():
            # Spark takes the date from the names of directories; these spell the queue in another way.
            frame = spark.read.schema(schema).option("basePath", str(path)).parquet(*files)
            frame = frame.withColumn("queue", lit(index.queue))
        frame.createOrReplaceTempView(index.name)
        names.append(index.name)
    return names
