"""A batch query: planned on the driver, read by tasks."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_bridge.envelope import arrow_schema, check_projection
from spark_bridge.read_options import ReadOptions
from spark_bridge.read_plan import Task, plan_read
from spark_bridge.record_columns import arrow_batch
from spark_bridge.row_group import row_groups


class BatchReader(DataSourceReader):
    """Reads what was in the logs when the query was planned.

    Raises:
        BadSchema: the schema is no choice of the envelope's columns.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_projection(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition a task; a list, as Spark asks for."""
        tasks = plan_read(self._options.open_store(), self._options)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Records of a task. Spark plans one partition without a task when there are none."""
        task: Task = (partition and partition.value) or ()
        schema = arrow_schema(self._schema)
        store = self._options.open_store()
        for wanted in task:
            batches = store.read(wanted, lost_is_error=self._options.fail_on_data_loss)
            for group in row_groups(wanted, batches):
                yield arrow_batch(group, schema)
