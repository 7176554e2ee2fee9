"""Spark imports modules named `pyspark_*` and finds the format `routelog` here by itself."""

from routelog.spark_bridge.data_source import RouteLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
