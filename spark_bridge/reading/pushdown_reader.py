"""A batch query that reads no more than conditions on queue, partition, offset and time let it.

Spark refuses a reader with `pushFilters` where `spark.sql.python.filterPushdown.enabled` is off, so
this is a class of its own, and asked for with the option `pushdown`. Needs Spark 4.1.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql.datasource import Filter, InputPartition

from routelog.spark_bridge.columns.record_conditions import NO_CONDITIONS, conditions_of
from routelog.spark_bridge.reading.batch_reader import BatchReader
from routelog.spark_bridge.reading.read_plan import plan_batch
from routelog.spark_bridge.reading.task_reader import task_partitions


class PushdownReader(BatchReader):
    """See `BatchReader`."""

    _conditions = NO_CONDITIONS

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Note what is of use for the plan; Spark goes on applying all of them."""
        self._conditions = conditions_of(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """See `task_partitions`."""
        store = self._options.open_store()
        tasks = plan_batch(store, self._options, self._conditions)
        return task_partitions(store, self._options.vhost, tasks)
