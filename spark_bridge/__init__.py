"""Spark reads the logs, in batches and as streams: a Python data source, no jar.

from routelog.spark_bridge import register

register(spark)
spark.read.format("routelog").options(path="/var/lib/routelog", subscribe="audit").load()
"""

from typing import TYPE_CHECKING

from routelog.spark_bridge.index.index_views import index_views
from routelog.spark_bridge.lakes.delta_batches import delta_batches
from routelog.spark_bridge.lakes.parquet_batches import parquet_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["delta_batches", "index_views", "parquet_batches", "register"]


def register(spark: "SparkSession") -> None:
    """Make the format `routelog` known to a Spark session; a second call changes nothing.

    Executors must be able to import this package: install RouteLog where they run. From then on, the workers of
    a local session use this program's interpreter, unless PYSPARK_PYTHON names another one.

    Raises:
        WorkersLackRouteLog: the interpreter of the workers, as this host finds it, lacks RouteLog.
    """
    # PySpark is an optional extra, and Spark's workers import this package without needing the imports below.
    from pyspark.errors import AnalysisException

    from routelog.spark_bridge.data_source import RouteLogDataSource
    from routelog.spark_bridge.reading.python_worker import choose_worker_interpreter

    context = getattr(spark, "sparkContext", None)
    if context is not None:  # with Spark Connect, workers belong to the server
        choose_worker_interpreter(context)
    try:
        spark.dataSource.register(RouteLogDataSource)
    except AnalysisException as error:
        # Spark has found `pyspark_routelog`, and does not allow to replace it.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
