# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""The end of a partition's log: where batches are appended."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import cython

from routelog.log_backend.journal.journal_block import NO_CURSOR, HandedOut
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_groups import JournalGroup, JournalGroups
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.tail import Tail
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.records.record_batch import PERSISTENT, RecordBatch, Records, new_batch
from routelog.log_backend.segments.damage import NOTHING_BLOCKED

NOTHING_OPEN = 2**63 - 1
NO_SEGMENT_DUE = 2**63 - 1

_PERSISTENT = cython.declare(cython.uint, PERSISTENT)

_MEMORY, _DISK = Durability.MEMORY, Durability.DISK  # a look-up in the enum takes 0.1 us


class PartitionClosed(Exception):
    """The partition was deleted; nothing was written."""


@cython.cclass
class LogEnd:
    """What is asked of a partition's log for each message: append, read from memory, let go of what is settled.

    Attributes:
        number: of the partition; unique on this node and never used again.
        durable: the partition survives a restart, with its persistent records and its cursors.
        durability: what a confirm of its persistent records promises; MEMORY unless it is durable.
        synced: its journal entries must survive a power cut.
        is_stream: records stay until their retention ends, and are all journaled.
        keeps_log: it has a retention, so readers other than consumers see its records.
        closed: the partition was deleted, or the broker stops.
        directory_text: see `directory`.
        next_offset: offset of the next record.
        open_from: lowest offset that a transaction under way has appended; NOTHING_OPEN: none has.
        blocked_from: no record at or behind this offset is delivered.
        cursors: of its readers, by number.
    """

    def __init__(
        self,
        number: int,
        directory: str | PathLike[str],
        intake: LogIntake,
        durable: bool,
        durability: Durability,
    ) -> None:
        self.number = number
        self.directory_text: str = fspath(directory)
        self.durable = durable
        self._promise(durability if durable else _MEMORY)
        self.is_stream = False
        self.keeps_log = False
        self.closed = False
        self.next_offset = 0
        self.open_from = NOTHING_OPEN
        self.blocked_from = NOTHING_BLOCKED
        self.cursors: dict[int, Cursor] = {}
        # The low water from which `release` has segments to look at; 0: whatever it is.
        self._segments_due = 0
        self._waits_for = 0  # the last journal position that readers here must wait for
        self._moved_at = 0  # the last one that has messages that moved here
        self._tail = Tail(intake if durable else None)
        self._intake = intake

    @property
    def directory(self) -> Path:
        """Directory of its segments."""
        # A `Path` interns its parts. If 100,000 were kept, Python's table of interned strings would grow, and
        # block the event loop meanwhile.
        return Path(self.directory_text)

    @property
    def ready_end(self) -> int:
        """Records below may be delivered.

        Not those of a transaction before all of it is appended, and not those that moved here before their
        block is what it promises: were it lost, they would come from their old place as well. Records that
        others append behind them wait, too, because they must not overtake them.
        """
        return self.end_of_ready()

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(end=cython.longlong)
    def end_of_ready(self) -> int:
        """See `ready_end`: the same for compiled callers, without the cost of a Python call."""
        end = self.open_from if self.open_from < self.next_offset else self.next_offset
        if self._moved_at and self._moved_at > self._intake.groups.promised:
            return self._intake.groups.first_moved(self.number, end)
        return end

    @property
    def is_open(self) -> bool:
        """Whether it has records that may not be delivered yet: see `ready_end`."""
        return self.open_from != NOTHING_OPEN or self.end_of_ready() < self.next_offset

    @property
    def visible_end(self) -> int:
        """Where the log ends for readers: records below are as durable as promised, and keep their offsets.

        Records that are not journaled wait for the journaled ones before them.
        """
        group = self.hiding()
        end = self.ready_end
        return end if group is None else min(end, group.first_offsets[self.number])

    def hiding(self) -> JournalGroup | None:
        """The journal group that must be written, or durable, before more is visible; None: all is visible."""
        groups = self._intake.groups
        if self._waits_for <= groups.promised:
            return None
        group: JournalGroup | None = groups.hiding(self.number)
        return group

    def tail_bytes(self) -> int:
        """Memory of the batches in the tail."""
        return self._tail.bytes

    @property
    def unflushed_bytes(self) -> int:
        """Memory of batches that are in no segment, and in no plan to write one."""
        return self._tail.unflushed_bytes

    def promise(self, durability: Durability) -> None:
        """Set the durability of confirms from now on; always MEMORY if the partition is not durable."""
        self._promise(durability if self.durable else _MEMORY)

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    def _promise(self, durability: Durability) -> int:
        self.durability = durability
        self.synced = durability is _DISK
        self._journaled = durability is not _MEMORY
        return 0

    @cython.locals(records=Records, waited=cython.bint)
    def append(self, records: Records, waited: bool = False) -> int:
        """Append records to the end, in order; see `ready_end` and `visible_end`.

        Args:
            records: their buffer is kept, not copied.
            waited: a publisher waits for the confirm.

        Returns:
            The journal position that a confirm waits for; it must be written or durable, as `durability`
            says. 0: the confirm waits for nothing.

        Raises:
            PartitionClosed: the partition was deleted.
            JournalFailed: the disk failed before; nothing was written.

        Guarantees:
            Once the journal has reached the position, persistent records of a durable partition survive what
            `durability` promises: all of them, or none. Offsets have no gaps.
        """
        return self.take(records, waited)

    @cython.cfunc
    @cython.returns(cython.longlong)
    @cython.exceptval(-1)
    @cython.locals(
        records=Records,
        waited=cython.bint,
        batch=RecordBatch,
        appended=list,
        groups=JournalGroups,
        position=cython.longlong,
        waits_for=cython.longlong,
    )
    def take(self, records: Records, waited: bool) -> int:
        """See `append`: the same for compiled callers, without the cost of a Python call."""
        if self.closed:
            raise PartitionClosed(str(self.directory))
        batch = new_batch(records, self.next_offset, self._intake.leader_epoch)
        position = waits_for = 0
        appended = self._intake.appended
        if appended is not None:
            self._join(appended, batch)
        groups = self._intake.groups
        if self._journaled and (records.attributes & _PERSISTENT or self.is_stream):
            position = waits_for = groups.append_batch(self.number, batch, waited, self.synced)
            if self._intake.is_moving and position > self._moved_at:
                self._moved_at = position
                groups.withhold(self.number, batch.base_offset)
        elif self.durable:
            if groups.failure is not None and records.attributes & _PERSISTENT:
                raise groups.failure  # the records would not survive a clean stop
            if groups.is_replicated or (self.keeps_log and self._journaled):
                waits_for = self._take_offsets(batch)
        if waits_for > self._waits_for:
            self._waits_for = waits_for
            self._intake.groups.hide(self.number, batch.base_offset)
        self._keep(batch)
        self.next_offset = batch.end_offset
        return position

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(appended=list, batch=RecordBatch)
    def _join(self, appended: list[Any], batch: RecordBatch) -> int:
        # Noted before the batch is stored anywhere, so that an error from here on takes it back.
        appended += [self, batch]
        if batch.base_offset < self.open_from:
            self.open_from = batch.base_offset
        return 0

    def _take_offsets(self, batch: RecordBatch) -> int:
        # These records do not survive a crash. Their offsets must not be given again: readers may have seen
        # them, and segments and snapshots of a replica have them, which would hide what another leader gives
        # them to. So the journal notes the end.
        taken = JournalEntry(self.number, HandedOut(NO_CURSOR, batch.end_offset))
        position: int = self._intake.groups.append(taken, False, self.synced)
        return position

    # -- what is in memory

    @cython.cfunc
    @cython.returns(RecordBatch)
    @cython.locals(offset=cython.longlong, batch=RecordBatch)
    def in_memory(self, offset: int) -> RecordBatch | None:
        """The batch in the tail that holds an offset, if it may be read; None: ask `PartitionLog.read`."""
        if self.blocked_from is not NOTHING_BLOCKED:
            return None
        batch = self._tail.find(offset)
        if batch is None or batch.base_offset > offset or batch.base_offset >= self.open_from:
            return None
        return batch

    @cython.cfunc
    @cython.returns(cython.bint)
    @cython.exceptval(check=True)
    @cython.locals(low_water=cython.longlong, freed=cython.longlong)
    def free_below(self, low_water: int) -> bool:
        """Let go of batches in memory that the queue's own cursor has settled: what `release` mostly comes to.

        Args:
            low_water: of that cursor. It is the only one where no log is kept: groups have theirs elsewhere.

        Returns:
            False when there is more to look at, and nothing was done: call `PartitionLog.release`.
        """
        if (
            low_water >= self._segments_due
            or self.keeps_log
            or self.blocked_from is not NOTHING_BLOCKED
            or len(self.cursors) != 1
        ):
            return False
        freed = self._tail.drop_up_to(low_water, self._intake.let_go)
        if freed:
            self._intake.grew(-freed)
        return True

    @cython.locals(batch=RecordBatch)
    def keep(self, batch: RecordBatch) -> None:
        """Add a batch to the end of the tail."""
        self._keep(batch)

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.returns(cython.int)
    @cython.locals(batch=RecordBatch, before=cython.longlong)
    def _keep(self, batch: RecordBatch) -> int:
        before = self._tail.bytes
        if self._tail.append(batch):
            self._has_unflushed()
        self._intake.grew(self._tail.bytes - before)
        return 0

    def show(self, batch: RecordBatch) -> None:
        """Let a transaction's records be delivered, given its first batch here; does nothing for later ones."""
        if self.open_from == batch.base_offset:
            self.open_from = NOTHING_OPEN

    def _has_unflushed(self) -> None:
        """The tail has an unflushed batch, and had none before."""
        raise NotImplementedError
