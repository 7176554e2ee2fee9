"""What a task of a query does: read its ranges, and hand the records to Spark as Arrow batches."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from spark_bridge.envelope import arrow_schema, check_projection, offered_columns
from spark_bridge.read_options import ReadOptions
from spark_bridge.read_plan import Task
from spark_bridge.record_columns import arrow_batch
from spark_bridge.row_group import row_groups


class TaskReader:
    """Travels to the executors with a query.

    Raises:
        BadSchema: the schema is no choice of the columns there are.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_projection(schema, offered_columns(options.style, headers=options.headers))
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Records of a task. Spark plans one partition without a task when there are none."""
        task: Task = (partition and partition.value) or ()
        schema = arrow_schema(self._schema)
        store = self._options.open_store()
        for wanted in task:
            batches = store.read(wanted, lost_is_error=self._options.fail_on_data_loss)
            for group in row_groups(wanted, batches):
                yield arrow_batch(group, schema)
