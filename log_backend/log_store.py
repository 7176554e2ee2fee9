"""The log store: all partitions of a node, their journal, their segments and their snapshots.

    data/
      LOCK                                   one owner
      ballast                                room for metadata on a full disk: see ballast.py
      compressing                            scratch file of compression
      metadata/                              RocksDB: topology, users, cursor snapshots
      journal/<number, 20 digits>.journal
      logs/<vhost>/<queue>-<partition>/...   durable partitions
      spill/...                              what other partitions could not keep in memory; emptied at start

Start: `LogStore(...)`, `open_partition` for each one that the topology knows, `recover`, `start`. A checkpoint
lets go of full journal files: what they hold is in synced segments, or settled in a cursor snapshot that is.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from routelog.log_backend.doors.ballast import Ballast
from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.journal.journal import Journal
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_files import JournalFile
from routelog.log_backend.loop.background import Background
from routelog.log_backend.loop.turns import in_turns
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.metadata.schedule_store import ScheduleStore
from routelog.log_backend.partitions.cold_reads import ColdReads
from routelog.log_backend.partitions.cursor import NO_CURSORS
from routelog.log_backend.partitions.cursor_changes import journal_changes
from routelog.log_backend.partitions.letting_go import LettingGo
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.log_options import LogOptions
from routelog.log_backend.partitions.log_transaction import LogTransaction, together
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.partitions.partition_table import PartitionTable
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.recovery import Recovery
from routelog.log_backend.segments.damage import damage_change
from routelog.log_backend.segments.log_directory import partition_directory_name
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.upkeep.checkpoint import snapshot, store, store_snapshots
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.emptied_logs import EmptiedLogs
from routelog.log_backend.upkeep.eviction import evict
from routelog.log_backend.upkeep.flush_plan import FlushPlan
from routelog.log_backend.upkeep.flush_round import PARTITIONS_MAX, due, flush_round, flushing
from routelog.log_backend.upkeep.flusher import Flusher
from routelog.log_backend.upkeep.memory_watch import MemoryWatch
from routelog.log_backend.upkeep.partition_removal import PartitionRemoval, empty_spill
from routelog.log_backend.upkeep.retention_timer import RetentionTimer
from routelog.log_backend.upkeep.scrub import Scrub
from routelog.log_backend.upkeep.segment_compressor import SegmentCompressor

log = logging.getLogger(__name__)


class LogStore:
    """The partitions of a node on one data directory.

    Attributes:
        metadata, clock: the store for topology and users; what time it is.
        schedules, reads, has_remote: what is due when; what loads records; there is remote storage for logs.
        intake, memory: what partitions share when they grow; all memory that holds messages.
        partitions: by number; read by others, changed only here.
        scrub, space: reads sealed segments in the background; what is free on the disk.
        on_durable, on_written: set by the owner; called with the journal position that is so.
        on_failure, on_removed: set by the owner; the disk failed; nothing can bring back a deleted partition.
        pressures: why publishers should wait, of "disk", "journal" and "memory"; none: they may go on.
        on_pressure: set by the owner before `start`; called when these change.
    """

    def __init__(
        self,
        data: Path,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        options: LogOptions,
    ) -> None:
        self._logs, self._spill = f"{data}/logs", f"{data}/spill"
        self._disk = disk
        self.clock = clock
        self._loop = loop
        self._options = options
        disk.make_directory(data)
        self._lock = disk.lock(data / "LOCK")
        ballast = Ballast(data, disk, options.ballast_bytes)  # before RocksDB opens
        disk.make_directory(data / "journal")
        disk.make_directory(data / "logs")
        empty_spill(data, disk)
        self.metadata = MetadataStore.open(data / "metadata", clock=clock)
        self.metadata.make_room = ballast.make_room
        self.schedules = ScheduleStore(self.metadata, loop)
        self._started = self._closing = self._flush_soon = False
        self.segment_bytes = options.segment_bytes
        self.has_remote = options.has_remote
        self.on_durable: Callable[[int], None] = lambda position: None
        self.on_written: Callable[[int], None] = lambda position: None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.on_removed: Callable[[PartitionLog], None] = lambda partition: None
        self.on_pressure: Callable[[frozenset[str]], None] = lambda reasons: None
        self._background = Background(loop)
        self._run = self._background.run
        self._flusher = Flusher(loop, disk, self.metadata, ballast)
        self.reads = ColdReads(disk, loop, options.memory_loaded_bytes)
        self.loaded_pieces, self.load = self.reads.pieces, self.reads.load  # see `LogOwner`
        self._journal_files = ThreadPoolExecutor(1, thread_name_prefix="journal-files")
        self.journal = Journal(
            data / "journal",
            disk,
            clock,
            loop,
            self._journal_files,
            file_bytes=options.journal_file_bytes,
            files_max=options.journal_files_max,
            on_durable=lambda position: self.on_durable(position),
            on_written=lambda position: self.on_written(position),
            on_failure=self._failed,
            on_file_full=self._checkpoint_later,
            collect=lambda: journal_changes(self._with_state, self.journal.groups),
            on_pressure=partial(self._press, "journal"),
            extent=JournalExtent(self.metadata),
        )
        self.journal.on_disk_full = self._refused_by_disk
        self.waiters = self.journal.waiters
        self._tail_bytes_max = watched = options.memory_tail_bytes
        let_go = LettingGo(loop.call_soon, clock).add
        self.intake = LogIntake(self.journal.groups, watched, self._tails_changed, let_go)
        self.memory = MemoryWatch(self.intake, watched, partial(self._press, "memory"))
        self.space = DiskSpace(
            data,
            disk,
            loop,
            options.disk_reserve_bytes,
            ballast,
            promised=lambda: self._unflushed_bytes() + self.journal.promised_bytes,
            on_look=self._looked_at_space,
        )
        self._writer = SegmentWriter(disk, self._flusher.removal)
        self._compressor = SegmentCompressor(
            disk, loop, data / "compressing", self._flusher, self._run, self.space.check_segment
        )
        self._removal = PartitionRemoval(data, self._writer, self.metadata, clock, self._flusher.do)
        self._recovery = Recovery(disk, self.metadata, self._writer, self._removal.remove_directory)
        self.partitions = PartitionTable()
        self.scrub = Scrub(
            self.partitions,
            self.reads.run,
            disk,
            clock,
            bytes_per_second=options.scrub_bytes_per_second,
            interval_seconds=options.scrub_interval_seconds,
        )
        self._with_state: set[PartitionLog] = set()  # cursors of theirs have changed
        self._with_unflushed: set[PartitionLog] = set()
        self._changed: set[PartitionLog] = set()
        self._plan = FlushPlan()  # under way
        self._full_files: list[JournalFile] = []  # that wait for a checkpoint
        self._refused = False  # the disk was full; `_looked_at_space` tries again
        self.pressures: frozenset[str] = frozenset()
        self._flush_lock = asyncio.Lock()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._retention_timer = RetentionTimer(loop, options.retention_seconds)
        self._emptied = EmptiedLogs(loop, clock, options.emptied_seconds, self._run)
        self._failure: Exception | None = None

    # -- life

    def recover(self) -> int:
        """Replay the journal into the open partitions; returns the entries replayed.

        Raises:
            JournalDamaged: what was durable cannot be read.
        """
        return self._recovery.replay(self.journal.recover(), dict(self.partitions))

    def start(self, leader_epoch: int) -> None:
        """Begin to accept appends.

        Args:
            leader_epoch: higher than that of any earlier start.
        """
        self.intake.leader_epoch = leader_epoch
        self.space.start()
        self._started = True
        self.journal.start()
        self._removal.resume()
        for partition in self.partitions.values():
            self._compressor.look(partition)
            if partition.segments:
                partition.release()  # what the journal has settled
        self._emptied.start()
        self._flush_timer = self._loop.call_later(self._options.flush_seconds, self._flush_later)
        self.scrub.start(self._loop)
        self._retention_timer.start()

    async def aclose(self) -> None:
        """Write everything that is needed to segments and snapshots, then let go of the files."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._closing = True
        await self.scrub.aclose()
        self._compressor.stop()
        self._retention_timer.stop()
        self._emptied.stop()
        await self.schedules.aclose()
        if self._failure is None:
            await self._emptied.let_go()
            await self._checkpoint(None)  # which gives files back to the journal
        if self._refused or self.journal.refused:
            self.journal.abandon()
        await self.journal.drain()
        if self._failure is None:
            await self._checkpoint(None)  # with what was visible too late for the first
        await self.journal.aclose()
        self._removal.give_up()  # which only closes files: what is in them stays
        self.space.stop()
        await self._background.ended()
        await self.reads.aclose()
        for executor in (self._flusher, self._journal_files):
            executor.shutdown(wait=True)
        self._compressor.close()
        self.metadata.close()
        self._disk.close(self._lock)

    # -- partitions

    def open_partition(
        self,
        number: int,
        vhost: str,
        queue: str,
        index: int,
        *,
        durable: bool,
        durability: Durability = Durability.DISK,
        retention: Retention | None = None,
        compression: str | None = None,
        cursors: Mapping[int, int] = NO_CURSORS,
    ) -> PartitionLog:
        """Open a partition: one that exists when the topology knows it, or an empty one.

        Args:
            number: unique for ever on this node.
            index: of the partition within its queue.
            durability: what a confirm promises, when the partition is durable.
            retention: what is kept longer than consumers need.
            compression: of sealed segments; None: as the options say.
            cursors: those that there are beside the queue's own, number 0, and where each began.
        """
        logs = self._logs if durable else self._spill
        partition = PartitionLog(
            self,
            number,
            partition_directory_name(logs, vhost, queue, index),
            durable=durable,
            durability=durability,
            retention=retention,
            compression=compression or self._options.compression,
        )
        for cursor in (0, *cursors):
            partition.open_cursor(cursor)
        # Behind the start, numbers are new. Files of an earlier queue of the name are left alone: its
        # deletion may not be durable yet.
        if durable and not self._started and self._recovery.load(partition, cursors):
            self._changed.add(partition)
        self.partitions[number] = partition
        if retention is not None:
            self._retention_timer.partitions.add(partition)
        return partition

    def transaction(self) -> LogTransaction:
        """Begin what a crash takes all of, or nothing; it may take several turns of the event loop."""
        return LogTransaction(self.journal, self.intake)

    def together(self) -> AbstractContextManager[object]:
        """What is appended meanwhile survives a crash together, or not at all: see `log_transaction`."""
        return together(self.journal)

    def cursor_removal(self, partition: PartitionLog, cursor: int) -> list[Change]:
        """Metadata changes to apply together with a cursor's removal from the topology."""
        return self._removal.changes_of_cursor(partition, cursor)

    def close_partitions(self, *closed: PartitionLog) -> list[Change]:
        """Close partitions for good; the files of those that are not durable go at once.

        Returns:
            Metadata changes to apply together with the removal from the topology, so that the files
            go even if the process dies first. When they are durable, call `remove_files`; when that
            fails, `deletion_failed`.
        """
        self.intake.grew(-sum(partition.close() for partition in closed))
        self._with_state.difference_update(closed)
        self._with_unflushed.difference_update(closed)
        self._changed.difference_update(closed)
        self._retention_timer.partitions.difference_update(closed)
        for partition in closed:
            self.partitions.pop(partition.number, None)
            self._emptied.forget(partition)
        self._removal.remove([partition for partition in closed if not partition.durable])
        return [self._removal.change(partition) for partition in closed if partition.durable]

    def remove_files(self, *closed: PartitionLog) -> None:
        """Delete the files of partitions whose deletion is durable.

        Not earlier: a crash would bring the queue back without its records.
        """
        self._removal.remove(closed)
        for partition in closed:
            self.on_removed(partition)

    def deletion_failed(self, error: Exception) -> None:
        """Nobody knows whether deleted partitions come back, so their journal is kept: stop here."""
        self._failed(error)

    # -- what partitions ask for (LogOwner)

    def has_state(self, partition: PartitionLog) -> None:
        """See `LogOwner`."""
        self._with_state.add(partition)
        self._changed.add(partition)
        self.journal.wake_later()

    def has_unflushed(self, partition: PartitionLog) -> None:
        """See `LogOwner`."""
        self._with_unflushed.add(partition)
        if partition.durable:
            self._changed.add(partition)

    def remove_segments(self, partition: PartitionLog, segments: list[Segment]) -> None:
        """See `LogOwner`."""
        self._flusher.remove(partition, segments)

    def keeps_newest(self, partition: PartitionLog) -> bool:
        """See `LogOwner`."""
        return self._emptied.keeps_newest(partition)

    def damage_changed(self, partition: PartitionLog) -> None:
        """See `LogOwner`."""
        if partition.durable:  # else its files end with the run
            change = damage_change(partition.number, partition.damage)
            self._flusher.do(partial(store, self.metadata, [change]))

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.clock.now()

    # -- flushing and checkpoints

    async def flush(self) -> None:
        """Write what is needed of every durable partition to its segments (not synced), in rounds."""
        for _ in range(1 + len(self._with_unflushed) // PARTITIONS_MAX):  # some may have to stay
            async with flushing(self._flush_lock, self._failed):
                self._flush_soon = False  # here, or whoever grows meanwhile asks for another one
                unflushed = await self._due()
                some = await flush_round(unflushed, self.clock)
                await self._write(some, to_sync=())
                await self._evict()
            if self._refused or self._failure is not None or len(some) == len(unflushed):
                break
        # What is not visible yet had to stay: when memory is short, publishers may wait for it to go.
        groups, over = self.journal.groups, self.intake.tail_bytes > self._tail_bytes_max
        if over and self._with_unflushed and not (self._refused or groups.is_idle):
            self._flush_soon = True
            self.waiters.wait(groups.promised + 1, lambda: self._run(self.flush()), durable=False)

    async def _due(self) -> list[PartitionLog]:
        over_budget = self.intake.tail_bytes > self._tail_bytes_max
        return await due(self._with_unflushed, self.clock, transient=over_budget)

    def _flush_later(self) -> None:
        self._flush_timer = self._loop.call_later(self._options.flush_seconds, self._flush_later)
        if self._with_unflushed:
            self._run(self.flush())

    async def _write(self, due: list[PartitionLog], to_sync: Collection[PartitionLog]) -> None:
        if self._failure is not None:
            return
        self._plan = plan = FlushPlan()
        async for partition in in_turns(due, self.clock):
            self._with_unflushed.discard(partition)
            await plan.add(partition, self.clock)
        await plan.sync(to_sync, self.clock)
        try:
            if to_sync or not plan.is_empty:  # snapshots follow, if only to say what is settled
                write = partial(plan.write, self._writer, self.space)
                await self._loop.run_in_executor(self._flusher, write)
        except DiskFull as error:
            plan.refused()
            if not self._refused:
                log.warning("no room for segments: %s", error)
            self._refused = True
            self._refused_by_disk()
            return
        finally:
            self._plan = FlushPlan()
        self._refused = False
        async for partition in plan.flushed(self.clock, self.intake.let_go):
            self._compressor.look(partition)
        await plan.synced(self.clock)

    def _checkpoint_later(self, file: JournalFile) -> None:
        self._full_files.append(file)
        self._run(self._checkpoint(file))

    async def _checkpoint(self, file: JournalFile | None) -> None:
        """Make everything up to here durable outside the journal; give back its full files.

        Args:
            file: one of `_full_files`; when an earlier checkpoint gave it back, nothing is done.
        """
        async with flushing(self._flush_lock, self._failed):
            if file is not None and file not in self._full_files:
                return
            files, self._full_files = self._full_files, []  # in the order of their numbers
            # What changes from here on belongs to the next checkpoint, as does what cursors have
            # not told the journal yet.
            changed, self._changed = self._changed, set(self._with_state)
            await self._write(await self._due(), to_sync=changed)
            if self._failure is not None or self._refused:
                self._changed |= changed
                self._full_files = files + self._full_files
                return
            seen = [snapshot(p) async for p in in_turns(changed, self.clock)]
            last = files[-1:]
            changes = [JournalExtent.begins_with(each.mark.number + 1, each.end) for each in last]
            await self._loop.run_in_executor(
                self._flusher, store_snapshots, self.metadata, seen, changes
            )
            await self._evict()
            for full in files:
                # A partition that a crash may bring back needs what the journal has of it.
                self._removal.when_decided(partial(self.journal.recycle, full))

    async def _evict(self) -> None:
        excess = self.intake.tail_bytes - self._tail_bytes_max
        if excess > 0:  # and a quarter more, not to do it again at once
            await evict(self.partitions.values(), excess + self._tail_bytes_max // 4, self.clock)
        self._press("memory", self.memory.is_short)

    # -- space, pressure and failure

    def _unflushed_bytes(self) -> int:
        return self._plan.unwritten_bytes + self.intake.unflushed_bytes

    def _refused_by_disk(self) -> None:
        # Nothing is lost: what found no room is in memory, and in the journal if it was there.
        self._press("disk", True)
        if self._closing:
            self.journal.abandon()

    def _looked_at_space(self) -> None:
        self.intake.room = self.space.room
        self.journal.frugal = self.space.low
        if not self._closing:
            self._flusher.remove_unneeded()
            if self.space.free >= self.journal.promised_bytes:
                self.journal.go_on()
            has_room = self.space.free >= self._unflushed_bytes() and not self._flush_lock.locked()
            if has_room and self._failure is None and (self._full_files or self._refused):
                self._run(self._checkpoint(None) if self._full_files else self.flush())
            self._emptied.press("disk" in self.pressures)
        self._press("disk", self.space.low or self._refused or self.journal.refused)

    def _tails_changed(self, size: int) -> None:
        if size > 0 and self.intake.room < 0:
            self.space.hurry()
        if size > 0 and self.intake.tail_bytes > self._tail_bytes_max and not self._flush_soon:
            self._flush_soon = True
            self._run(self.flush())
        self._press("memory", self.memory.is_short)

    def _press(self, reason: str, pressed: bool) -> None:
        if pressed != (reason in self.pressures):
            change = self.pressures.union if pressed else self.pressures.difference
            self.pressures = change((reason,))
            # What is pressed ends as soon as memory shrinks.
            self.intake.tail_bytes_watched = -1 if self.pressures else self._tail_bytes_max
            self.on_pressure(self.pressures)

    def _failed(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self._compressor.stop()
            self.journal.stop(error)  # which says so in the log
            self._press("journal", False)  # nothing waits for it any more; publishers hear so
            self.on_failure(error)
