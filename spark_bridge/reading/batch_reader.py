"""A batch query: planned on the driver, read by tasks."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from routelog.spark_bridge.columns.record_conditions import NO_CONDITIONS
from routelog.spark_bridge.reading.read_options import ReadOptions
from routelog.spark_bridge.reading.read_plan import plan_batch
from routelog.spark_bridge.reading.task_reader import TaskReader, task_partitions


class BatchReader(DataSourceReader):
    """Reads what was in the logs when the query was planned.

    Raises:
        BadOption: an option is for streams only.
        BadSchema: the schema has other columns than the source.
    """

    _conditions = NO_CONDITIONS

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        options.check_batch()
        self._options = options
        self._reader = TaskReader(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks, each with what it needs to open the logs on its host."""
        store = self._options.open_store()
        tasks = plan_batch(store, self._options, self._conditions)
        return task_partitions(store, self._options.vhost, tasks)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. If there are no tasks, Spark plans one partition without a task."""
        return self._reader.read(partition)
