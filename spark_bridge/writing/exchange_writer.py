"""Writes of queries to exchanges: at least once, or exactly once with an application's id."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from routelog.spark_bridge.logs.errors import BadOption
from routelog.spark_bridge.reading.python_worker import exempt_modules
from routelog.spark_bridge.writing.confirmed_publisher import ConfirmedPublisher
from routelog.spark_bridge.writing.message_rows import (
    Message,
    check_message_schema,
    keyed_message_of,
    message_of,
)
from routelog.spark_bridge.writing.write_options import WriteOptions

BATCH_PROPERTY = "streaming.sql.batchId"  # of Spark's MicroBatchExecution


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """What a task did; `messages` were confirmed."""

    messages: int


def task_place(*, is_stream: bool) -> str:
    """Micro-batch and number of the task that runs here: the same when it runs again.

    Spark tells a writer the micro-batch when it commits only, but its tasks have it from the start; so
    have those of a write in a function for `foreachBatch`.
    """
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("there is no task")
    batch = context.getLocalProperty(BATCH_PROPERTY)
    if batch is None and is_stream:
        raise RuntimeError(f"Spark gives the task no {BATCH_PROPERTY}")
    return f"{batch or '-'}/{context.partitionId()}"


class ExchangeWriter(DataSourceWriter, DataSourceStreamWriter):
    """Publishes each row as soon as it comes; a task is done when all of its own are confirmed.

    A task or micro-batch that runs again publishes again. With an application's id the messages have keys, by
    which the exchange knows those that it has.

    Args:
        is_stream: rows come in micro-batches.

    Raises:
        BadOption: a mode other than append: what is in a queue cannot be overwritten.
        BadSchema: rows cannot become messages.
    """

    def __init__(
        self, options: WriteOptions, schema: StructType, overwrite: bool, *, is_stream: bool
    ) -> None:
        if overwrite:
            raise BadOption("mode", "an exchange takes append only")
        check_message_schema(schema, options)
        self._options = options
        self._is_stream = is_stream

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of one task.

        Raises:
            BadRow: a row has no body, exchange or routing key.
            PublishFailed: the broker did not take all of it.
        """
        messages = self._messages(iterator)
        first = next(messages, None)
        if first is None:
            return Published(0)
        published = Published(ConfirmedPublisher(self._options, chain([first], messages)).run())
        exempt_modules()
        return published

    def _messages(self, rows: Iterator[Row]) -> Iterator[Message]:
        if not self._options.application:
            return (message_of(row, self._options) for row in rows)
        task = task_place(is_stream=self._is_stream)
        return (
            keyed_message_of(row, self._options, f"{task}/{number}")
            for number, row in enumerate(rows)
        )

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803
    ) -> None:
        """Nothing is left to do: all of it is in the queues."""

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803
    ) -> None:
        """What was published stays; whoever runs the write again publishes it again."""
