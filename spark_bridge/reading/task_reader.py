"""Runs the tasks of a query: reads their ranges, and gives the records to Spark as Arrow batches."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from routelog.spark_bridge.columns.envelope import arrow_schema, check_projection, offered_columns
from routelog.spark_bridge.columns.record_columns import arrow_batch
from routelog.spark_bridge.columns.row_group import row_groups
from routelog.spark_bridge.logs.readable_logs import ReadableLogs, Ticket
from routelog.spark_bridge.reading.python_worker import exempt_modules
from routelog.spark_bridge.reading.read_options import ReadOptions
from routelog.spark_bridge.reading.read_plan import Task

# From this size on, an Arrow batch of its own costs less than copying bodies to join them with others.
BYTES_ALONE = 512 * 1024


class TaskPartition(InputPartition):
    """A task, as it is sent to an executor.

    Attributes:
        value: its ranges.
        ticket: opens the logs on the executor.
    """

    def __init__(self, value: Task, ticket: Ticket) -> None:
        super().__init__(value)
        self.ticket = ticket


def task_partitions(store: ReadableLogs, vhost: str, tasks: Sequence[Task]) -> list[TaskPartition]:
    """Return the partitions that Spark sends to executors, one for each task; Spark requires a list."""
    ticket = store.ticket(vhost) if tasks else {}
    return [TaskPartition(task, ticket) for task in tasks]


class TaskReader:
    """The reader that is sent to executors with a query.

    Raises:
        BadSchema: the schema has other columns than the source.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_projection(schema, offered_columns(options.style, headers=options.headers))
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. If there are no tasks, Spark plans one partition without a task."""
        if not isinstance(partition, TaskPartition):
            return
        schema = arrow_schema(self._schema)
        store = self._options.open_store(partition.ticket)
        for wanted in partition.value:
            batches = store.read(wanted, lost_is_error=self._options.fail_on_data_loss)
            for group in row_groups(wanted, batches, BYTES_ALONE):
                yield arrow_batch(group, schema)
        exempt_modules()
