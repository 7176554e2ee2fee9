"""A streaming query: on the driver it decides where micro-batches end, and tasks read them."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from routelog.log_backend import SystemClock
from routelog.spark_bridge.logs.errors import HoldLapsed
from routelog.spark_bridge.logs.http_logs import HttpLogs
from routelog.spark_bridge.logs.tiered_logs import TieredLogs
from routelog.spark_bridge.reading.micro_batches import MicroBatches
from routelog.spark_bridge.reading.read_options import ReadOptions
from routelog.spark_bridge.reading.stored_offsets import (
    NumberedOffsets,
    Offsets,
    StoredOffsets,
    have_one_number,
    parse_offsets,
    stored_offsets,
)
from routelog.spark_bridge.reading.task_reader import TaskReader, task_partitions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before Spark 4.2, which asks for the end of a micro-batch without limits

        class SupportsTriggerAvailableNow:
            """Stands for Spark's class, which earlier versions do not have."""


log = logging.getLogger(__name__)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads logs while they grow.

    Raises:
        BadSchema: the schema has other columns than the source.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._reader = TaskReader(options, schema)
        # The end of the last planned micro-batch, or the begin of the first one; None: not known yet.
        self._position: Offsets | None = None
        self._driver: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors get a copy, and make no decisions.
        return self.__dict__ | {"_driver": None}

    @property
    def _batches(self) -> MicroBatches:
        if self._driver is None:
            self._driver = MicroBatches(self._options.open_store(), self._options, SystemClock())
        return self._driver

    def initialOffset(self) -> StoredOffsets:  # noqa: N802
        """Return where a stream without a checkpoint begins.

        Spark calls it several times, also after that micro-batch was planned.
        """
        first = self._batches.first()
        if self._position is None:
            self._position = first
        return stored_offsets(first)

    def latestOffset(  # noqa: N802
        self, start: StoredOffsets | None = None, limit: "ReadLimit | None" = None
    ) -> StoredOffsets:
        """Return the end of the micro-batch from `start` on; `start` itself if it is too early for one.

        Before 4.2, Spark passes no arguments, and calls `initialOffset` later.
        """
        if start is None:
            start = (
                self.initialOffset() if self._position is None else stored_offsets(self._position)
            )
        begin = self._offsets(start)
        unlimited = type(limit).__name__ == "ReadAllAvailable"
        return stored_offsets(self._batches.end(begin, limited=not unlimited))

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        """The limit that Spark passes to `latestOffset`; there, it stands for all limits of the options."""
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
        )

        limits = self._options.trigger
        if limits.records_max is not None:
            return ReadMaxRows(limits.records_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.records_min is not None:
            return ReadMinRows(limits.records_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> StoredOffsets:  # noqa: N802
        """The ends of the logs that `end` has read, until its micro-batch is planned.

        For the query's progress.
        """
        return stored_offsets(self._batches.reached())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read nothing that is stored later than now, and do not wait for a minimum of records."""
        self._batches.freeze()

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        """Plan the tasks, each with what it needs to open the logs on its host."""
        begin, until = self._offsets(start), self._offsets(end)
        # Before 4.2, Spark may plan an empty range behind the last micro-batch before that one is done.
        if self._position is not None or begin != until:
            self._report(begin, until)
        self._position = until
        tasks = self._batches.tasks(begin, until)
        return task_partitions(self._batches.store, self._options.vhost, tasks)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. If there are no tasks, Spark plans one partition without a task."""
        return self._reader.read(partition)

    def _report(self, begin: Offsets, end: Offsets) -> None:
        # When a micro-batch is planned, all before it are done, so its begin is the position. The begin of the
        # first one may be computed again, and be behind the end that Spark has stored: hence `min`.
        position = {
            each: min(offset, end[each])
            for each, offset in begin.items()
            if each in end and have_one_number(each, begin, end)
        }
        store, consumer = self._batches.store, self._options.consumer
        if consumer and isinstance(store, HttpLogs | TieredLogs):
            try:
                store.report(consumer, position)
            except HoldLapsed as error:
                if self._options.fail_on_data_loss:
                    raise
                log.warning("%s", error)

    def _offsets(self, stored: StoredOffsets) -> NumberedOffsets:
        return parse_offsets(self._options.vhost, stored)
