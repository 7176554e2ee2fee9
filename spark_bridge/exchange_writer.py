"""Writes of batch and streaming queries to exchanges: at least once."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_bridge.confirmed_publisher import ConfirmedPublisher
from spark_bridge.errors import BadOption
from spark_bridge.message_rows import check_message_schema, message_of
from spark_bridge.write_options import WriteOptions


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """What a task did; `messages` were confirmed."""

    messages: int


class ExchangeWriter(DataSourceWriter, DataSourceStreamWriter):
    """Publishes each row as soon as it comes; a task is done when all of its own are confirmed.

    A task or micro-batch that runs again publishes again.

    Raises:
        BadOption: a mode other than append: what is in a queue cannot be overwritten.
        BadSchema: rows cannot become messages.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadOption("mode", "an exchange takes append only")
        check_message_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of one task.

        Raises:
            BadRow: a row has no body, exchange or routing key.
            PublishFailed: the broker did not take all of it.
        """
        messages = (message_of(row, self._options) for row in iterator)
        first = next(messages, None)
        if first is None:
            return Published(0)
        return Published(ConfirmedPublisher(self._options, chain([first], messages)).run())

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
