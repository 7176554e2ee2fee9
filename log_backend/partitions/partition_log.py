"""The log of one partition: append at the end, read anywhere, remove what nobody needs.

A log is one, wherever it lies: the newest part in memory, then segments on the disk, then those that only
remote storage has.

An appended batch gets its offsets and is in the tail (memory) at once. A durable one also goes to the journal.
Within seconds, batches that are still needed are written to segments; those that are settled by then are never
written. So segments may have gaps: their offsets were settled, or were never promised to anybody.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from os import PathLike
from typing import Protocol

from routelog.log_backend.doors.clock import Clock, Moment
from routelog.log_backend.journal.journal_block import Reason, Settlement
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_groups import JournalGroup, JournalGroups
from routelog.log_backend.journal.receipt import Progress
from routelog.log_backend.partitions.cursor import Cursor
from routelog.log_backend.partitions.loaded_pieces import LoadedPieces, PieceBudget
from routelog.log_backend.partitions.log_end import NO_SEGMENT_DUE
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.quarantine import QuarantinedLog
from routelog.log_backend.partitions.remote_reads import RemoteReads
from routelog.log_backend.partitions.tail import Tail
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.records.record_batch import RecordBatch
from routelog.log_backend.remote.remote_log import RemoteLog
from routelog.log_backend.remote.remote_segment import RemoteSegment
from routelog.log_backend.segments.batch_merge import merged
from routelog.log_backend.segments.retention import Compaction, Extent, Hold, Retention
from routelog.log_backend.segments.segment import Segment, SegmentDamaged
from routelog.log_backend.segments.segment_plan import place_batches
from routelog.log_backend.segments.segment_writer import SegmentWrite

log = logging.getLogger(__name__)

SEGMENT_BATCHES_MIN = 16  # of merged batches: a small segment is not one batch
FLUSHED_MAX = (
    2_048  # batches in one step of a flush plan: 0.2 to 0.4 ms, and 0.7 where small ones are merged
)

# Of a log that is compacted: the newest segment is not, so it must not hold much, nor for long.
COMPACTED_SEGMENT_BYTES = 8 * 1024 * 1024
COMPACTED_SEGMENT_AGE = 3_600_000_000  # microseconds

_end_offset = attrgetter("end_offset")


class LogOwner(Protocol):
    """The store that owns a partition, as the partition sees it.

    Attributes:
        follows: this node follows a leader, which decides what is settled: nothing is settled here.
    """

    clock: Clock
    follows: bool
    intake: LogIntake
    segment_bytes: int
    loaded_pieces: PieceBudget
    remote_reads: RemoteReads
    progress: Progress

    def has_state(self, partition: "PartitionLog") -> None:
        """A cursor of the partition has changes for the journal."""

    def has_unflushed(self, partition: "PartitionLog") -> None:
        """The partition has batches that are in no segment."""

    def is_behind(self, partition: "PartitionLog") -> bool:
        """See `PartitionLog.is_behind`."""

    def load(self, segment: Segment, offset: int) -> asyncio.Future[list[RecordBatch]]:
        """Read batches from a segment in a thread."""

    def remove_segments(self, partition: "PartitionLog", segments: list[Segment]) -> None:
        """Delete files of a partition's oldest segments in a thread."""

    def keeps_newest(self, partition: "PartitionLog") -> bool:
        """Whether a partition keeps its newest segment for now, although nobody needs it."""

    def damage_changed(self, partition: "PartitionLog", *, lifted: bool) -> None:
        """Store the partition's damage record; `lifted`: nobody needs some of what is damaged."""


class PartitionLog(QuarantinedLog):
    """One partition of a queue.

    Attributes:
        retention: which records stay after they are settled; None: none do.
        has_copies: remote storage may have copies of it, or had some: see remote_log.py.
        remote: these copies; None: there are none, or they were not listed yet.
        compression: of sealed segments: none, zstd, lz4.
        compaction_failure: why the last pass of compaction failed; empty: it did not.
        merges: small batches are merged on their way into a segment.
        synced_offset: all needed records below are in synced segments.
        first_kept: base offset of the oldest segment, if that is synced: see first_kept.py.
        overtaken: by number of a cursor, a function that moves it to an offset; a forced retention calls it
            when it removes records that the cursor has not settled.
        leaving: segments before the others whose removal waits until no other leader can take it back.
        kept_from: of a follower: the leader has removed the records below this offset.
        held: by number of a cursor, the limit of what is kept for it beyond retention; without one: everything.
    """

    __slots__ = (
        "_awaiting_load",
        "_awaiting_visible",
        "_flushing",
        "_loaded",
        "_owner",
        "compaction_failure",
        "compression",
        "first_kept",
        "has_copies",
        "held",
        "kept_from",
        "leaving",
        "merges",
        "overtaken",
        "remote",
        "retention",
        "segments",
        "synced_offset",
    )

    def __init__(
        self,
        owner: LogOwner,
        number: int,
        directory: str | PathLike[str],
        *,
        durable: bool,
        durability: Durability = Durability.DISK,
        retention: Retention | None = None,
        compression: str = "none",
        merges: bool = True,
    ) -> None:
        super().__init__(number, directory, owner.intake, durable, durability)
        self.keeps_log = retention is not None
        self.is_stream = retention is not None and retention.is_stream
        self._begin_undamaged()
        self._owner = owner
        self.retention = retention
        self.has_copies = False
        self.remote: RemoteLog | None = None
        self.compression = compression
        self.compaction_failure = ""
        self.merges = merges
        self.synced_offset = 0
        self.first_kept: int | None = None
        self.kept_from = 0
        self.segments: list[Segment] = []
        self.leaving: tuple[Segment, ...] = ()
        self.overtaken: dict[int, Callable[[int], None]] = {}
        self.held: dict[int, Hold] = {}
        self._flushing = False
        # Made by the first load: most partitions have none
        self._loaded: LoadedPieces | None = None
        self._awaiting_load: tuple[Callable[[], None], ...] = ()
        self._awaiting_visible: tuple[Callable[[], None], ...] = ()

    @property
    def follows(self) -> bool:
        """See `LogOwner`."""
        return self._owner.follows

    def is_behind(self) -> bool:
        """Whether segments may end before what readers have seen of another leader's, or before a crash.

        If so, they are written soon.
        """
        return self._owner.is_behind(self)

    def retain(self, retention: Retention | None) -> None:
        """Keep records by another retention from now on; None: none that is settled."""
        self.retention, self.keeps_log = retention, retention is not None

    @property
    def compaction(self) -> Compaction | None:
        """How the log is compacted; None: it is not."""
        return None if self.retention is None else self.retention.compaction

    # -- writing

    def adopt(self, segment: Segment) -> None:
        """Take a segment of an earlier run, behind the others."""
        self.segments.append(segment)
        self._segments_due = 0

    def recovered(self, batch: RecordBatch) -> None:
        """Take a batch of the journal, unless a segment has it or all cursors have settled it."""
        if batch.base_offset >= self.next_offset:
            self.skip_to(batch.base_offset)
            if batch.end_offset > self.low_water() or self.retention is not None:
                self.keep(batch)
            self.next_offset = batch.end_offset

    def skip_to(self, offset: int) -> None:
        """Settle the missing offsets below an offset for all cursors: no stored batch holds them.

        What lies before the first batch, where no segment is, groups read from remote storage, if it is there.
        """
        if offset > self.next_offset:
            for cursor in self.cursors.values():
                if cursor.number == 0 or self.next_offset or not self.is_unlisted:
                    cursor.settle(self.next_offset, offset, Reason.LOST)
            self.next_offset = offset

    def take_back(self, batches: Sequence[RecordBatch]) -> None:
        """Remove the batches of a failed transaction; their offsets are settled, and not given again."""
        if self.closed:
            return
        freed = self._tail.take_back({batch.base_offset for batch in batches})
        self._owner.intake.grew(-freed)
        for batch in batches:
            self.next_offset = max(self.next_offset, batch.end_offset)
            for cursor in self.cursors.values():
                cursor.settle(batch.base_offset, batch.end_offset, Reason.LOST)
        self.show(batches[0])
        self.release()

    # -- reading

    @property
    def local_first(self) -> int:
        """Offset of the oldest record that is not in remote storage alone; the next offset if there is none."""
        if self.segments:
            return self.segments[0].base_offset
        first = self._tail.first
        return self.next_offset if first is None else first.base_offset

    @property
    def first_offset(self) -> int:
        """Offset of the oldest record that can be read; the next offset when there is none.

        Of the disk, as long as nobody knows what is in remote storage.
        """
        remote, local = self.remote, self.local_first
        return min(local, remote.segments[0].first_offset) if remote and remote.segments else local

    @property
    def lowest_offset(self) -> int:
        """No record below can be read: as `first_offset`, or 0 as long as nobody knows."""
        return 0 if self.is_unlisted else self.first_offset

    @property
    def is_unlisted(self) -> bool:
        """Whether remote storage may have records, and nobody knows yet."""
        return self.has_copies and self.remote is None and self.retention is not None

    def is_remote(self, offset: int) -> bool:
        """Whether remote storage is where to look for an offset that is not in memory."""
        local = self.local_first
        if offset >= local:
            return False
        if self.remote is None:
            return self.is_unlisted
        segment = self.remote.segment_of(offset)
        return segment is not None and segment.first_offset < local

    @property
    def progress(self) -> Progress:
        """Of the journal that its positions are of."""
        return self._owner.progress

    @property
    def last_batch_offset(self) -> int:
        """Offset at which the newest visible batch begins, or one not far before it."""
        end: int = self.visible_end
        last: RecordBatch | None = self._tail.last_below(end)
        if last is not None:
            return last.base_offset
        return self.segments[-1].last_indexed_offset if self.segments else end

    def when_visible(self, done: Callable[[], None]) -> None:
        """Call `done` as soon as more is visible, and hasten the journal; never called if all is visible."""
        if done in self._awaiting_visible:
            return
        if not self._awaiting_visible:
            group: JournalGroup | None = self.hiding()
            if group is None:
                return
            self._owner.progress.receipt(group.position, 0).when_covered(self._became_visible)
            self._owner.intake.groups.hasten(group)
        self._awaiting_visible += (done,)

    def _became_visible(self) -> None:
        awaiting, self._awaiting_visible = self._awaiting_visible, ()
        for done in awaiting:
            done()

    def offset_at(self, time: int) -> int:
        """Base offset of the first batch that was received at a time (us since 1970) or later.

        Returns:
            The offset. If the batch is in a segment, perhaps that of an earlier batch, by less than an index
            interval, or by a segment in remote storage: see `when_located`. The next offset if there is no such
            batch.
        """
        batch = self._tail.find_time(time)
        # Segments may hold an earlier one
        if batch is None or batch is self._tail.first or self._tail.is_unordered:
            remote = self._remote_offset_at(time)
            if remote is not None:
                return remote
            for segment in self.segments:
                if segment.last_time >= time:
                    return segment.offset_at(time)
        return self.next_offset if batch is None else batch.base_offset

    def _remote_offset_at(self, time: int) -> int | None:
        if self.is_unlisted:
            oldest = self.segments[0].first_time if self.segments else time
            return 0 if oldest >= time and self.local_first else None
        segment = self._remote_since(time)
        if segment is None or self.remote is None:
            return None
        index = self._owner.remote_reads.index(self, segment)
        first = segment.first_offset
        return first if index is None else max(first, index.offset_at(time))

    def _remote_since(self, time: int) -> RemoteSegment | None:
        # The first one, of those that the disk does not have, with a batch of a time or later.
        segment = None if self.remote is None else self.remote.since(time)
        return segment if segment and segment.first_offset < self.local_first else None

    def when_located(self, time: int) -> asyncio.Future[None] | None:
        """Wait until `offset_at` may know a time exactly; None: it does, or the log is closed."""
        if self.closed:
            return None
        reads = self._owner.remote_reads
        if self.is_unlisted:
            return reads.locate(self, None) if self._remote_offset_at(time) is not None else None
        segment = self._remote_since(time)
        is_known = segment is None or reads.index(self, segment) is not None
        return None if is_known else reads.locate(self, segment)

    def time_at(self, offset: int) -> int | None:
        """When the record at an offset, or the next one, was received (us since 1970).

        Returns:
            If the record is not in memory, perhaps the time of a batch less than an index interval before it,
            or of the last one of a segment in remote storage. None: there is no record, or nobody knows.
        """
        batch = self._find(offset)
        if batch is not None:
            time: int = batch.records.time
            return time
        if self.is_remote(offset):
            remote = None if self.remote is None else self.remote.segment_of(offset)
            return None if remote is None else remote.last_time
        segment = self.segment_of(offset)
        return (segment.time_at(offset) or None) if segment is not None else None

    def read(self, offset: int) -> RecordBatch | None:
        """The batch that holds an offset, or the next one if none does.

        Returns:
            None at the end of the log, at damage, at an open transaction, and if `load` must be called first.
        """
        batch = self._find(offset)
        if batch is not None and batch.base_offset >= min(self.blocked_from, self.open_from):
            return None
        return batch

    def _find(self, offset: int) -> RecordBatch | None:
        return self._look_up(offset)[1]

    def _look_up(self, offset: int) -> tuple[int, RecordBatch | None]:
        # The batch; without one, where to load: up to there, remote storage has no record.
        if offset >= self.blocked_from:
            return offset, None
        first = self._tail.first
        if (first is None or offset < first.base_offset) and self.is_remote(offset):
            offset, batch = self._owner.remote_reads.find(self, offset)
            if batch is not None or self.is_remote(offset):
                return offset, batch
        found: RecordBatch | None = None
        if first is not None and (offset >= first.base_offset or offset >= self._segments_end()):
            found = self._tail.find(offset)
        elif self._loaded is not None:
            found = self._loaded.find(offset)
        return offset, found

    def is_blocked(self, offset: int) -> bool:
        """Whether the record at an offset is not delivered, because something is damaged."""
        if offset >= self.blocked_from:
            return True
        remote = self.remote
        if remote is None or not remote.damaged:
            return False
        # The next record counts: none may be stored up to there.
        offset, batch = self._look_up(offset)
        return batch is None and offset < self.local_first and remote.is_damaged(offset)

    @property
    def is_damaged(self) -> bool:
        """See `QuarantinedLog`."""
        return super().is_damaged or bool(self.remote and self.remote.damaged)

    @property
    def first_blocked(self) -> int:
        """The lowest offset that is blocked."""
        ranges = () if self.remote is None else self.remote.damaged
        return min([self.blocked_from, *(first for first, _ in ranges)])

    def read_again(self) -> None:
        """Forget read errors, and damage in remote storage: the next reader tries again."""
        super().read_again()
        if self.remote is not None:
            self.remote.damaged.clear()

    def needs_load(self, offset: int) -> bool:
        """Whether the record at an offset is on disk, or in remote storage, only, and not blocked by damage."""
        if self.closed:
            return False
        offset, batch = self._look_up(offset)
        if batch is not None or self.is_blocked(offset):
            return False
        return offset < self._segments_end() or self.is_remote(offset)

    def waits_for_remote(self, offset: int) -> bool:
        """Whether the record at an offset is in remote storage, which does not answer."""
        offset, batch = self._look_up(offset)
        if batch is not None or not self.is_remote(offset):
            return False
        return self._owner.remote_reads.is_failing(self, offset)

    def segment_of(self, offset: int) -> Segment | None:
        """The oldest segment whose written records end behind an offset."""
        return next((each for each in self.segments if each.written_end > offset), None)

    def load(self, offset: int, done: Callable[[], None]) -> None:
        """Read the records at an offset into memory, and call `done` when a load has ended.

        One load from the disk runs at a time. `done` may be called after a load of other records, or when the
        log is closed: the caller then reads again, and loads again if needed.
        """
        offset, _ = self._look_up(offset)
        if self.closed or self.is_blocked(offset):
            return
        if self.is_remote(offset):
            self._owner.remote_reads.load(self, offset, done)
            return
        segment = self.segment_of(offset)
        if segment is None:
            return
        if not self._awaiting_load:
            future = self._owner.load(segment, offset)
            future.add_done_callback(lambda future: self._finish_load(segment, offset, future))
        if done not in self._awaiting_load:  # a reader may ask many times before the load ends
            self._awaiting_load += (done,)

    def _finish_load(
        self, segment: Segment, offset: int, future: "asyncio.Future[list[RecordBatch]]"
    ) -> None:
        awaiting, self._awaiting_load = self._awaiting_load, ()
        if future.cancelled():
            return  # the broker stops
        error = future.exception()
        if self.closed:
            pass  # `done` finds out
        elif error is not None and segment not in self.segments:
            pass  # retention removed it meanwhile, or compaction put another in its place: `done` reads again
        elif isinstance(error, SegmentDamaged):
            self.quarantine_segment(segment, error, offset)
        elif error is not None:
            self.read_failed(offset, error)
        else:
            self._loaded = self._loaded or LoadedPieces(self._owner.loaded_pieces)
            self._loaded.add(offset, future.result())
        for done in awaiting:
            done()

    # -- damage

    def _needed_from(self) -> int:
        """The lowest offset that somebody may still read."""
        return max(self.local_first, 0 if self.retention is not None else self.low_water())

    def _damage_changed(self, *, lifted: bool = False) -> None:
        """Store `damage`, and forget the pieces that were read before; see `LogOwner`."""
        self._forget_loaded()
        self._owner.damage_changed(self, lifted=lifted)

    def _forget_loaded(self) -> None:
        if self._loaded is not None:
            self._loaded.clear()

    def _segments_end(self) -> int:
        # Where the written part of the segments ends; later records are in the tail.
        for segment in reversed(self.segments):
            if segment.written_size:
                return segment.written_end
        return 0

    # -- cursors

    def open_cursor(self, number: int = 0) -> Cursor:
        """Return the cursor with a number; create it if there is none."""
        cursor = self.cursors.get(number)
        if cursor is None:
            notify = self._has_state if self.durable else None
            cursor = self.cursors[number] = Cursor(number, notify)
        return cursor

    def journal_settlement(self, settlement: Settlement) -> int:
        """Put a settlement into the block that gathers; its cursor must not learn of it before that is durable.

        Returns:
            The journal position of the block; 0: the partition is closed, or does not survive a restart.

        Raises:
            JournalFailed: the disk failed before; nothing was written.
        """
        if self.closed or not self.durable:
            return 0
        entry = JournalEntry(self.number, settlement)
        position: int = self._owner.intake.groups.append(entry, True, self.synced)
        return position

    def _has_unflushed(self) -> None:
        if self.segments:
            self._tail.comes_behind(self.segments[-1].last_time)
        self._owner.has_unflushed(self)

    def _has_state(self) -> None:
        if not self.closed:
            self._owner.has_state(self)

    def low_water(self) -> int:
        """All cursors have settled every offset below."""
        if not self.cursors:
            return self.next_offset
        if len(self.cursors) == 1:
            (cursor,) = self.cursors.values()
            return cursor.settled.low_water
        return min(cursor.low_water for cursor in self.cursors.values())

    def has_groups_below(self, offset: int) -> bool:
        """Whether a cursor other than the queue's own has not settled everything below an offset."""
        return any(each.low_water < offset for number, each in self.cursors.items() if number)

    def close_cursor(self, number: int) -> None:
        """Remove a cursor; its number is not used again."""
        self.cursors.pop(number, None)
        self.overtaken.pop(number, None)
        self.held.pop(number, None)
        if not self.closed:
            self.release()

    def expire(self) -> None:
        """Remove segments that are past the limits of the retention."""
        retention = self.retention
        if retention is None or not self.segments or self.closed or self._owner.follows:
            return
        own, now = self.open_cursor(), Moment.of(self._owner.clock)
        ended = retention.ended(self.segments, own.low_water, now)
        gone = self.segments[: max(ended, retention.copied(self.segments, self._copied_end, now))]
        if self.is_stream and gone:
            own.settle(own.low_water, gone[-1].end_offset, Reason.EXPIRED)
        if ended:
            remote = [] if self.remote is None else self.remote.segments
            older = [each for each in remote if each.next_base <= gone[0].base_offset]
            self._let_go([*older, *gone[:ended]])
        self.release()

    def _let_go(self, ended: Sequence[Extent]) -> None:
        # Groups that must not keep these oldest segments, which are past retention, go on behind them.
        for hold in list(self.held.values()):
            hold.check(ended)
        if self.retention is not None and self.retention.is_forced:
            for overtake in list(self.overtaken.values()):
                overtake(ended[-1].end_offset)

    def expire_remote(self, count: int) -> list[RemoteSegment]:
        """Take the oldest segments in remote storage for past retention.

        Returns:
            Those that nobody needs: they may be removed.
        """
        if self.remote is None or not count:
            return []
        ended = self.remote.segments[:count]
        self._let_go(ended)
        numbers = self.cursors.items()
        places = [each.low_water for number, each in numbers if number or not self.is_stream]
        passed = min(places, default=self.next_offset)
        return ended[: bisect_right(ended, passed, key=_end_offset)]

    def has_expired_remote(self, end: int) -> None:
        """Segments in remote storage below an offset were removed."""
        if self.remote is not None:
            self.remote.drop(end)
            self.remote.damaged = [each for each in self.remote.damaged if each[1] > end]

    def bytes_from(self, offset: int) -> int:
        """Stored size of the segments that end behind an offset, wherever they lie."""
        size = sum(each.file_bytes for each in self.segments if each.end_offset > offset)
        if self.remote is not None and offset < self.local_first:
            size += self.remote.bytes_between(offset, self.local_first)
        return size

    def release(self) -> None:
        """Remove what is settled: batches from memory, and whole segments past their retention."""
        end = low_water = self.low_water()
        if self.retention is not None:
            # Batches that are still being written stay: else nobody could read them meanwhile.
            end = min(end, self._segments_end())
        freed = self._tail.drop_up_to(end, self._owner.intake.let_go)
        if freed:
            self._owner.intake.grew(-freed)
        needed = self._needed_on_disk(low_water)
        if self.segments and not self._flushing and self.segments[0].end_offset <= needed:
            self._remove_segments(self._unneeded_segments(needed))
        if self.is_damaged:
            self.lift_quarantine()
        self._segments_due = self._next_due(needed)

    def _needed_on_disk(self, low_water: int) -> int:
        # Groups read what was copied from there; what was not copied stays in any case.
        if self.retention is not None and self.retention.is_remote and 0 in self.cursors:
            return self.cursors[0].low_water
        return low_water

    def _next_due(self, low_water: int) -> int:
        if self._flushing:
            return 0
        if not self.segments:
            return NO_SEGMENT_DUE
        end = self.segments[0].end_offset
        # An emptied log keeps its newest segment, until it is flushed again or the owner says so.
        return end if end > low_water else NO_SEGMENT_DUE

    def _unneeded_segments(self, low_water: int) -> int:
        if self.retention is not None and self._owner.follows:
            # A group may begin at anything that the leader's disk still has.
            return bisect_right(self.segments, min(low_water, self.kept_from), key=_end_offset)
        if self.retention is not None:
            now = Moment.of(self._owner.clock)
            return self.retention.removable(self.segments, low_water, self._copied_end, now)
        count = bisect_right(self.segments, low_water, key=_end_offset)
        if count == len(self.segments) and self._owner.keeps_newest(self):
            return count - 1
        return count

    def _remove_segments(self, count: int) -> None:
        if count:
            removed = self.segments[:count]
            self.leaving += tuple(removed)  # first: see `first_stored`
            del self.segments[:count]
            self._forget_loaded()
            self._owner.remove_segments(self, removed)

    def remove_settled_segments(self) -> bool:
        """Remove all segments, also the newest one, if nothing in them is needed.

        Returns:
            False while they are being written: call it again later.
        """
        if self._flushing and not self.closed:
            return False
        if not self.closed and self.segments and self.segments[-1].end_offset <= self.low_water():
            self._remove_segments(len(self.segments))
        return True

    def segments_to_sync(self) -> list[Segment]:
        """The segments that a checkpoint must sync: those with unsynced records that are needed."""
        settled = 0 if self.retention is not None else self.low_water()
        return [each for each in self.segments if each.unsynced and each.end_offset > settled]

    @property
    def _copied_end(self) -> int:
        # Not what lies behind a gap: what the disk has there was not copied.
        return 0 if self.remote is None else self.remote.end_from(self.segments[0].base_offset)

    def first_kept_moved(self) -> bool:
        """Update `first_kept`; returns whether it changed. Do not call it during a flush."""
        first_kept = self._first_synced(self.segments)
        moved, self.first_kept = first_kept != self.first_kept, first_kept
        return moved

    @property
    def first_stored(self) -> int | None:
        """As `first_kept`, of all files: another leader may still need those that are to leave.

        In any thread: segments that leave at this moment are in one of both lists, or in both.
        """
        segments = list(self.segments)
        return self._first_synced([*self.leaving, *segments])

    def _first_synced(self, segments: Sequence[Segment]) -> int | None:
        if not segments:
            return None
        # Sealed segments are synced; the newest one is after a checkpoint.
        oldest, newest = segments[0], segments[-1]
        is_synced = oldest is not newest or self.synced_offset > oldest.base_offset
        return oldest.base_offset if is_synced else None

    # -- flushing to segments

    def plan_flush(self) -> Iterator[list[SegmentWrite]]:
        """Plan where in segments the visible unflushed batches go that are needed; a part with each step.

        The caller writes them, and then calls `flushed`; until then, another plan is empty. Batches that become
        visible after the first step are not part of this plan.
        """
        if self._flushing:
            return
        end = self.visible_end
        while not self.closed and (batches := self._tail.take_unflushed(end, FLUSHED_MAX)):
            number, directory, size = self.number, self.directory, self._owner.segment_bytes
            ends_newest = False
            if self.compaction is not None:
                size, ends_newest = min(size, COMPACTED_SEGMENT_BYTES), self._newest_is_old()
            self._segments_due = 0
            needed = self._needed(batches)
            if self.merges:
                needed = merged(needed, size // SEGMENT_BATCHES_MIN)
            writes = place_batches(
                needed, self.segments, number, directory, size, ends_newest=ends_newest
            )
            self._flushing |= bool(writes)
            yield writes
        if not self.closed and not self._tail.is_flushed:
            self._has_unflushed()

    def _newest_is_old(self) -> bool:
        newest = self.segments[-1] if self.segments else None
        if newest is None or not newest.size:
            return False
        return self._owner.clock.now() - newest.first_time >= COMPACTED_SEGMENT_AGE

    def flushed(self) -> None:
        """Note that the planned writes are done."""
        self._flushing = False
        for segment in reversed(self.segments):
            if segment.written_size == segment.size:
                break
            segment.written()
            segment.written_at = self._owner.clock.monotonic()
        if not self.closed:
            self.release()
            self.expire()

    def flush_refused(self, writes: Sequence[SegmentWrite]) -> None:
        """Take back the planned writes that are not `done`: the disk had no room, and they wrote nothing.

        Their batches are unflushed again, except those that have left memory because they are settled.
        """
        if self.closed:
            return
        for write in reversed([each for each in writes if not each.done]):
            if write.batches:
                self._tail.unflush_from(write.batches[0].base_offset)
            if write.before is None:
                self.segments.remove(write.segment)
            else:  # also if the segment is empty now: those before it stay sealed
                write.segment.restore(write.before)
        self.flushed()
        if not self._tail.is_flushed:
            self._has_unflushed()

    def sealed_segments(self) -> list[Segment]:
        """Segments whose files are complete and synced; empty during a flush, which may be sealing one."""
        return [] if self._flushing or self.closed else self.segments[:-1]

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a segment in the place of neighbouring sealed ones: it has what compaction leaves of them."""
        at = self.segments.index(old[0])
        before = self.segments[at - 1].last_time if at else 0
        new.last_time, new.written_at = max(new.last_time, before), old[-1].written_at
        self.segments[at : at + len(old)] = [new]
        self._segments_due = 0

    def evict(self, size: int) -> int:
        """Remove up to `size` bytes of flushed batches from memory; returns the bytes freed."""
        freed = 0 if self._flushing else self._tail.evict(size)
        self._owner.intake.grew(-freed)
        return freed

    def _needed(self, batches: list[RecordBatch]) -> list[RecordBatch]:
        # The batches that some cursor has not settled.
        cursors = self.cursors.values()
        if self.retention is not None or not cursors:
            return batches
        if not any(cursor.settled.chunks for cursor in cursors):
            return batches[bisect_right(batches, self.low_water(), key=_end_offset) :]
        return [batch for batch in batches if not self._is_settled(batch)]

    def _is_settled(self, batch: RecordBatch) -> bool:
        return all(
            cursor.settled.unsettled_from(batch.base_offset) >= batch.end_offset
            for cursor in self.cursors.values()
        )

    # -- the end

    def close(self) -> int:
        """Close the partition: it was deleted, or the broker stops. Returns the bytes of memory freed."""
        self.closed, freed = True, self._tail.bytes
        self._owner.intake.let_go(self._tail.take_all())
        self._tail = Tail()
        self._forget_loaded()
        if self.has_copies:
            self._owner.remote_reads.forget(self)
        self.cursors = {}  # breaks the reference cycles with this log
        return freed


def journal_changes(partitions: set[PartitionLog], groups: JournalGroups) -> None:
    """Append the changes that the cursors of partitions have gathered, and empty the set."""
    for partition in partitions:
        for cursor in partition.cursors.values():
            for change in cursor.take_changes():
                groups.append(JournalEntry(partition.number, change), False, partition.synced)
    partitions.clear()


def forget_changes(partitions: set[PartitionLog]) -> None:
    """Append nothing of it: the journal is where it came from; the set is empty then."""
    for partition in partitions:
        for cursor in partition.cursors.values():
            cursor.take_changes()
    partitions.clear()
