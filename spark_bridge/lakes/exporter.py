"""Copies logs to a table, one transaction after the other, exactly once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from routelog.log_backend.records.record_batch import RecordBatch
from routelog.spark_bridge.columns.record_table import RecordRows
from routelog.spark_bridge.columns.row_group import RowGroup, row_groups
from routelog.spark_bridge.lakes.lake_table import LakeTable
from routelog.spark_bridge.logs.errors import (
    DamagedBatch,
    DamagedSegment,
    DeclaredAgain,
    LogUnreadable,
    RecordsLost,
)
from routelog.spark_bridge.logs.queue_selection import QueueSelection
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange, ReadableLogs
from routelog.spark_bridge.reading.read_plan import stretches_between, whole
from routelog.spark_bridge.reading.stored_offsets import NumberedOffsets

OF_ONE_LOG = (RecordsLost, DamagedSegment, DamagedBatch)  # the others can be exported
TRANSACTION_BYTES = 128 * 1024 * 1024  # of bodies: it gives files of some ten megabytes


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of one run."""

    records: int = 0
    body_bytes: int = 0
    transactions: int = 0


class Exporter:
    """Copies the logs of a vhost to a table.

    A log that has lost records, or is damaged, is exported up to there, and the others go on.

    Attributes:
        failures: why logs were left out, since the last call of `backlog`.

    Args:
        transaction_bytes: of bodies, or of rows where these have more, as with small bodies; a transaction ends
            after the group of records that reaches it.
        lost_is_error: a log fails if retention has removed records before they were exported, or the queue was
            declared again. False: go on with what there is.
        progress: called with the bytes of bodies that were read.
    """

    def __init__(
        self,
        store: ReadableLogs,
        vhost: str,
        selection: QueueSelection,
        rows: RecordRows,
        table: LakeTable,
        *,
        transaction_bytes: int = TRANSACTION_BYTES,
        lost_is_error: bool = True,
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._store = store
        self._vhost = vhost
        self._selection = selection
        self._rows = rows
        self._table = table
        self._transaction_bytes = transaction_bytes
        self._lost_is_error = lost_is_error
        self._progress = progress
        self.failures: dict[LogPartition, LogUnreadable] = {}
        self._ends = NumberedOffsets()
        self._bytes = self._records = self._transactions = 0
        self._open_bytes = 0

    def backlog(self) -> list[OffsetRange]:
        """The stored records that are not in the table, by partition.

        Raises:
            BadOption: a queue that is asked for does not exist.
        """
        self._ends = NumberedOffsets()
        self.failures = {}
        there = self._store.partitions(self._vhost, self._selection.queues)
        partitions = self._selection.select(there)
        position = self._table.position(partitions)
        found: list[OffsetRange] = []
        for partition in partitions:
            try:
                found += self._backlog_of(partition, position)
            except OF_ONE_LOG as error:
                self.failures[partition] = error
        return found

    def run(self, backlog: Sequence[OffsetRange], stopping: Callable[[], bool]) -> Exported:
        """Copy a backlog; if `stopping` returns True it commits, and ends early.

        Raises:
            TableUnusable: see `LakeTable.add` and `LakeTable.commit`.
        """
        self._bytes = self._records = self._transactions = 0
        for stretch in backlog:
            if stopping():
                break
            if stretch.partition in self.failures:
                continue
            try:
                self._copy(self._store.located(stretch), stopping)
            except OF_ONE_LOG as error:
                self.failures[stretch.partition] = error
        self._commit()
        return Exported(self._records, self._bytes, self._transactions)

    def _backlog_of(self, partition: LogPartition, position: NumberedOffsets) -> list[OffsetRange]:
        extents = self._store.extents(partition)
        held = whole(extents)
        start = self._start(position, held)
        found = stretches_between(
            extents, start, max(held.end, start), lost_is_error=self._lost_is_error
        )
        if partition in position and partition not in position.numbers and held.number is not None:
            # `run` stores the number even without a record to copy, or a later declaration is missed.
            self._ends[partition] = start
            self._ends.know(held)
        return found

    def _start(self, position: NumberedOffsets, held: OffsetRange) -> int:
        start = position.get(held.partition, held.start)
        number = position.numbers.get(held.partition)
        if not held.is_of(number):
            return self._beginning(held, DeclaredAgain(held.partition, start))
        behind = start > held.end > held.start
        if behind and self._store.next_offset(held.partition) < start:
            lost = RecordsLost(held.partition, held.end, start)
            if None not in (number, held.number):
                raise lost  # the log was set back: which of its records were exported cannot be told
            return self._beginning(held, lost)
        return start

    def _beginning(self, held: OffsetRange, lost: RecordsLost) -> int:
        if self._lost_is_error:
            raise lost
        return held.start

    def _copy(self, stretch: OffsetRange, stopping: Callable[[], bool]) -> None:
        for group in row_groups(stretch, self._batches(stretch)):
            rows = self._rows.of(group)
            self._table.add(stretch.partition.queue, rows)
            self._ends[stretch.partition] = _end(group)
            self._ends.know(stretch)
            self._count(group, rows.nbytes)
            if self._open_bytes >= self._transaction_bytes:
                self._commit()
                if stopping():
                    return
        if stretch.partition not in self.failures:
            self._ends[stretch.partition] = stretch.end
            self._ends.know(stretch)

    def _batches(self, stretch: OffsetRange) -> Iterator[RecordBatch]:
        """Those before a failure, which a group of rows may have gathered, are exported."""
        try:
            yield from self._store.read(stretch, lost_is_error=self._lost_is_error)
        except OF_ONE_LOG as error:
            self.failures[stretch.partition] = error

    def _count(self, group: RowGroup, row_bytes: int) -> None:
        size = sum(each.body_bytes for each in group.slices)
        self._records += group.rows
        self._bytes += size
        self._open_bytes += max(size, row_bytes)
        self._progress(size)

    def _commit(self) -> None:
        if self._ends:
            self._table.commit(self._ends)
            self._transactions += 1
        self._ends = NumberedOffsets()
        self._open_bytes = 0


def _end(group: RowGroup) -> int:
    last = group.slices[-1]
    return last.batch.base_offset + last.stop
