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
    """The result of a task: the number of confirmed messages."""

    messages: int


def task_place(*, is_stream: bool) -> str:
    """Micro-batch and number of the running task: the same when the task runs again.

    Spark tells a writer the number of the micro-batch only at the commit, but a task has it as a property; also
    in a function for `foreachBatch`.
    """
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("there is no task")
    batch = context.getLocalProperty(BATCH_PROPERTY)
    if batch is None and is_stream:
        raise RuntimeError(f"Spark gives the task no {BATCH_PROPERTY}")
    return f"{batch or '-'}/{context.partitionId()}"


class ExchangeWriter(DataSourceWriter, DataSourceStreamWriter):
    """Publishes each row at once; a task is done when all of its messages are confirmed.

    A task or micro-batch that runs again publishes again. With an application id, messages have keys, by which
    the exchange drops duplicates.

    Args:
        is_stream: rows come in micro-batches.

    Raises:
        BadOption: the mode is not append: a queue cannot be overwritten.
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
        """Nothing to do: all messages are confirmed."""

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int | None = None,  # noqa: N803
    ) -> None:
        """Nothing to do: published messages stay, and another run publishes them again."""
