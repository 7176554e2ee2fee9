"""A batch query that reads only what its conditions on queue, partition, offset and time allow.

If `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader with `pushFilters`. So this is a
separate class, for the option `pushdown`. It needs Spark 4.1.
"""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from routelog.spark_bridge.columns.record_conditions import conditions_of
from routelog.spark_bridge.reading.batch_reader import BatchReader


class PushdownReader(BatchReader):
    """Reads what the conditions of a query allow."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the conditions for the plan; Spark still applies all filters."""
        self._conditions = conditions_of(filters)
        return filters
