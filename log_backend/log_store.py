"""The log store: all partitions of a node, their journal, their segments and their snapshots.

    data/
      LOCK                                   one owner
      ballast                                room for metadata on a full disk: see ballast.py
      compressing                            scratch file of compression
      compacting/...                         scratch files of compaction; emptied at start
      copies/...                             what a copy under way holds; emptied at start
      copy.new/, copied/, aside/             another node's data on their way here: see arriving_copy.py
      metadata/                              RocksDB: topology, users, cursor snapshots, as the journal has them
      journal/<number, 20 digits>.journal
      logs/<vhost>/<queue>-<partition>/...   durable partitions
      spill/...                              what other partitions could not keep in memory; emptied at start

Start: `LogStore(...)`, `recover_metadata`, `open_partition` for each one that the topology knows, `recover`,
`start`. A store that follows another node's has a `BlockApplier` from `recover_metadata` on.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from routelog.log_backend.copies.arriving_copy import take_copied
from routelog.log_backend.copies.copies import Copies
from routelog.log_backend.copies.restore import refuse_backups, refuse_unfinished
from routelog.log_backend.doors.ballast import Ballast
from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import LOCK_FILE, Disk
from routelog.log_backend.journal.journal import Journal, JournalFailed
from routelog.log_backend.journal.journal_block import NO_CURSOR, Reason, Settlement
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_supply import JournalSupply
from routelog.log_backend.journal.metadata_writer import MetadataWriter
from routelog.log_backend.loop.background import Background
from routelog.log_backend.loop.scheduler import scheduler_of
from routelog.log_backend.metadata.metadata import Change, MetadataStore
from routelog.log_backend.metadata.schedule_store import ScheduleStore
from routelog.log_backend.partitions.cold_reads import ColdReads
from routelog.log_backend.partitions.cursor import NO_CURSORS
from routelog.log_backend.partitions.log_intake import LogIntake
from routelog.log_backend.partitions.log_transaction import LogTransaction, together
from routelog.log_backend.partitions.partition_log import PartitionLog, journal_changes
from routelog.log_backend.partitions.remote_reads import RemoteReads
from routelog.log_backend.records.durability import Durability
from routelog.log_backend.recovery import Recovery
from routelog.log_backend.remote.remote_log import marked_partitions
from routelog.log_backend.segments.damage import damage_change
from routelog.log_backend.segments.first_kept import first_kept_change
from routelog.log_backend.segments.log_directory import EXCHANGE_MARK, partition_directory_name
from routelog.log_backend.segments.retention import Retention
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.segments.segment_removal import Unneeded
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.upkeep.checkpoints import Checkpoints
from routelog.log_backend.upkeep.disk_pressure import DiskPressure, Pressures
from routelog.log_backend.upkeep.disk_space import DiskSpace
from routelog.log_backend.upkeep.emptied_logs import EmptiedLogs
from routelog.log_backend.upkeep.eviction import GradualFree
from routelog.log_backend.upkeep.flusher import Flusher
from routelog.log_backend.upkeep.log_compactor import LogCompactor
from routelog.log_backend.upkeep.memory_watch import MemoryWatch
from routelog.log_backend.upkeep.partition_removal import PartitionRemoval, empty_spill
from routelog.log_backend.upkeep.retention_timer import RetentionTimer
from routelog.log_backend.upkeep.scrub import Scrub
from routelog.log_backend.upkeep.segment_compressor import SegmentCompressor
from routelog.log_backend.upkeep.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options of a log store.

    Attributes:
        journal_file_bytes: size of one journal file; files are recycled.
        journal_files_max: with more full files than that, publishers wait for checkpoints.
        segment_bytes: a segment is sealed before it grows larger, unless it holds a single larger batch.
        memory_tail_bytes: above it, batches in tails are flushed to segments and leave memory.
        memory_loaded_bytes: limit of the batches in memory that were read from segments.
        memory_remote_bytes: of those that were read from remote storage.
        flush_seconds: until a new batch is written to a segment.
        scrub_bytes_per_second: how fast sealed segments are read to find damage; 0: not at all.
        scrub_interval_seconds: from the start of one scrub round to the start of the next.
        disk_reserve_bytes: publishers wait when less is free; at most an eighth of the file system.
        ballast_bytes: kept free for metadata on a full disk; at most an eighth of the file system.
        compression: of sealed segments, unless the partition has its own: none, zstd, lz4.
        retention_seconds: between two rounds that remove segments past their retention.
        emptied_seconds: between two rounds that remove the last segment of logs nothing is needed of.
        has_remote: remote storage is configured.
        is_followed: standbys read the journal.
    """

    journal_file_bytes: int = 64 * 1024 * 1024
    journal_files_max: int = 8
    segment_bytes: int = 64 * 1024 * 1024
    memory_tail_bytes: int = 256 * 1024 * 1024
    memory_loaded_bytes: int = 64 * 1024 * 1024
    memory_remote_bytes: int = 64 * 1024 * 1024
    flush_seconds: float = 1.0
    scrub_bytes_per_second: int = 8 * 1024 * 1024
    scrub_interval_seconds: float = 86_400.0
    disk_reserve_bytes: int = 256 * 1024 * 1024
    ballast_bytes: int = 0
    compression: str = "none"
    retention_seconds: float = 30.0
    emptied_seconds: float = 15.0
    has_remote: bool = False
    is_followed: bool = False


class LogStore:
    """The partitions of a node on one data directory.

    Attributes:
        metadata, metadata_writer, clock: topology and users, only read; what changes them; what time it is.
        schedules, reads, has_remote: what is due when; what loads records; there is remote storage for logs.
        remote_reads: what loads records from there.
        intake, memory: what partitions share when they grow; all memory that holds messages.
        partitions: by number; read by others, changed only here.
        recovery, follows: brings partitions back; a `BlockApplier` keeps the store up, which has not started.
        shard: what the journal and its partitions share with their upkeep.
        compactor: compacts logs in the background.
        scrub, space: reads sealed segments in the background; what is free on the disk.
        copies: of all there is, for backups.
        on_failure, on_removed: set by the owner; the disk failed; nothing can bring back a deleted partition.
        pressures: why publishers should wait; its `on_change` is set by the owner before `start`.
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
        refuse_backups(data, disk)
        disk.make_directory(data)
        self._lock = disk.lock(data / LOCK_FILE)
        refuse_unfinished(data, disk)
        take_copied(data, disk)
        ballast = Ballast(data, disk, options.ballast_bytes)  # before RocksDB opens
        disk.make_directory(data / "journal")
        disk.make_directory(data / "logs")
        empty_spill(data, disk)
        self.metadata = MetadataStore.open(data / "metadata", clock=clock)
        self.metadata.make_room = ballast.make_room
        self.schedules = ScheduleStore(self.metadata, loop)
        self._started = self.follows = False
        self.segment_bytes = options.segment_bytes
        self.has_remote = options.has_remote
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.on_removed: Callable[[PartitionLog], None] = lambda partition: None
        self.on_damage_changed: Callable[[], None] = lambda: None
        self.pressures = Pressures()
        self._background = Background(loop)
        run = self._background.run
        self._flusher = Flusher(loop, disk, self.metadata, ballast)
        self.reads = ColdReads(disk, loop, options.memory_loaded_bytes)
        self.remote_reads = RemoteReads(loop, clock, options.memory_remote_bytes)
        if not options.has_remote:
            self.remote_reads.unused = "this broker has no 'remote_storage' in its configuration"
        self.loaded_pieces, self.load = self.reads.pieces, self.reads.load  # see `LogOwner`
        self._journal_files = ThreadPoolExecutor(1, thread_name_prefix="journal-files")
        supply = JournalSupply(
            data / "journal",
            disk,
            loop,
            self._journal_files,
            file_bytes=options.journal_file_bytes,
            files_max=options.journal_files_max,
            extent=JournalExtent(self.metadata),
        )
        self.journal = Journal(
            supply,
            disk,
            clock,
            loop,
            on_failure=self._failed,
            on_file_full=lambda file: self.checkpoints.take_later(file),
            collect=lambda: journal_changes(self.checkpoints.with_state, self.journal.groups),
            on_pressure=partial(self.pressures.press, "journal"),
        )
        self.journal.keeps_last = options.is_followed
        self.journal.on_disk_full = lambda: self._disk_pressure.refused()
        self.progress = self.journal.progress
        self.metadata_writer = MetadataWriter(self.journal, self.metadata, loop)
        tail_bytes_max = options.memory_tail_bytes
        let_go = GradualFree(scheduler_of(loop)).add
        self.intake = LogIntake(self.journal.groups, tail_bytes_max, self._tails_changed, let_go)
        press = partial(self.pressures.press, "memory")
        self.memory = MemoryWatch(self.intake, tail_bytes_max, press)
        self.space = DiskSpace(
            data,
            disk,
            loop,
            options.disk_reserve_bytes,
            ballast,
            promised=lambda: self.checkpoints.unflushed_bytes + self.journal.promised_bytes,
            on_look=self._disk_looked,
        )
        writer = SegmentWriter(disk, self._flusher.removal)
        self._compressor = SegmentCompressor(
            disk, loop, data / "compressing", self._flusher, run, self.space.check_segment
        )
        self._removal = PartitionRemoval(data, writer, self.metadata, clock, self._flusher.do)
        self.recovery = Recovery(disk, self.metadata, writer, self._removal.remove_directory)
        # They come and go: who lets others work meanwhile walks over a copy.
        self.partitions: dict[int, PartitionLog] = {}
        self.scrub = Scrub(
            self.partitions,
            self.reads.run,
            disk,
            clock,
            bytes_per_second=options.scrub_bytes_per_second,
            interval_seconds=options.scrub_interval_seconds,
        )
        self.compactor = LogCompactor(
            disk,
            clock,
            loop,
            data / "compacting",
            self._flusher,
            self.journal.told,
            run,
            self.space.check_segment,
            self._compressor.compress,
        )
        self._retention_timer = RetentionTimer(loop, options.retention_seconds, self.compactor.look)
        self._emptied = EmptiedLogs(loop, options.emptied_seconds, run)
        self.shard = Shard(
            data,
            disk,
            clock,
            loop,
            self.partitions,
            self.journal,
            self.metadata,
            self.metadata_writer,
            self.intake,
            self.memory,
            self.space,
            self._flusher,
        )
        self.checkpoints = Checkpoints(
            self.shard,
            writer,
            self._look_at_segments,
            self._removal,
            run,
            follows=lambda: self.follows,
            flush_seconds=options.flush_seconds,
            on_refused=lambda: self._disk_pressure.refused(),
            on_failure=self._failed,
        )
        self.copies = Copies(
            self.shard,
            self.checkpoints,
            lambda: [*self.partitions.values(), *self._removal.undecided],
            self._journal_files,
        )
        self.copies.remove_leftovers()
        self._disk_pressure = DiskPressure(
            self.shard, self.pressures, self.checkpoints, self._emptied
        )
        self.has_unflushed = self.checkpoints.has_unflushed  # see `LogOwner`
        self.is_behind = self.checkpoints.is_behind
        self._failure: Exception | None = None

    # -- life

    def recover_metadata(self) -> None:
        """Bring the metadata up to the journal; before anything is read from them.

        Raises:
            JournalDamaged: what was durable cannot be read.
        """
        self.recovery.replay_metadata(self.journal)

    def recover(self) -> int:
        """Replay the journal into the open partitions; returns the entries replayed: none where one follows.

        Raises:
            JournalDamaged: what was durable cannot be read.
        """
        if self.follows:
            return 0
        return self.recovery.replay(self.journal.recover(), self.partitions)

    def start(self, leader_epoch: int) -> None:
        """Begin to accept appends.

        Args:
            leader_epoch: higher than that of any earlier start.
        """
        self.intake.leader_epoch = leader_epoch
        followed, self.follows = self.follows, False
        self.checkpoints.begin()
        if not self.journal.is_replicated:  # which has begun its epoch
            self.journal.start(leader_epoch)
        if not followed:
            self._begin_upkeep()
        for number in marked_partitions(self.metadata):
            if number in self.partitions:  # else its files are about to go
                self.partitions[number].has_copies = True
        self._retention_timer.start()

    def follow(self) -> None:
        """Keep up a store whose content a follower carries out, instead of `start`, or before it."""
        self.follows = True
        self._begin_upkeep()

    def _begin_upkeep(self) -> None:
        self.space.start()
        self._started = True
        self._removal.resume()
        for partition in self.partitions.values():
            self._look_at_segments(partition)
            if partition.segments:
                partition.release()  # what the journal has settled
        self._emptied.start()
        self.checkpoints.start()
        self.scrub.start(self._loop)

    async def aclose(self) -> None:
        """Write everything that is needed to segments and snapshots, then let go of the files."""
        await self.copies.aclose()
        self.metadata_writer.stop()
        self.checkpoints.stop()
        self._disk_pressure.close()
        await self.scrub.aclose()
        self._compressor.stop()
        self.compactor.stop()
        self._retention_timer.stop()
        self._emptied.stop()
        if self._failure is None:
            await self._emptied.let_go()
            await self.checkpoints.take()  # which gives files back to the journal
        if self.checkpoints.refused or self.journal.refused:
            self.journal.abandon()
        await self.journal.drain()
        await self.schedules.aclose()  # they have what is committed
        if self._failure is None:
            await self.checkpoints.take()  # with what was visible too late for the first
        await self.journal.aclose()
        self.metadata_writer.close()
        self._removal.give_up()  # which only closes files: what is in them stays
        self.space.stop()
        await self._background.ended()
        await self.reads.aclose()
        await self.remote_reads.aclose()
        for executor in (self._flusher, self._journal_files):
            executor.shutdown(wait=True)
        self._compressor.close()
        self.metadata.close()
        self._disk.close(self._lock)

    # -- partitions

    @property
    def takes_entries(self) -> bool:
        """Whether it has begun to accept appends."""
        return self.journal.groups.gathers and not self.follows

    @property
    def bytes_in_memory(self) -> int:
        """Of all messages."""
        return self.memory.bytes + self.loaded_pieces.bytes + self.remote_reads.pieces.bytes

    @property
    def is_damaged(self) -> bool:
        """Whether a durable partition is quarantined, so that some of its records cannot be read."""
        return any(each.durable and each.damage.found for each in self.partitions.values())

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

        A follower that starts has those that exist open: they only promise what is asked for here.

        Args:
            number: unique for ever on this node.
            index: of the partition within its queue.
            durability: what a confirm promises, when the partition is durable.
            retention: what is kept longer than consumers need.
            compression: of sealed segments; None: as the options say.
            cursors: those that there are beside the queue's own, number 0, and where each began.
        """
        opened = self.partitions.get(number)
        if opened is not None:
            opened.promise(durability)
            return opened
        logs = self._logs if durable else self._spill
        partition = PartitionLog(
            self,
            number,
            partition_directory_name(logs, vhost, queue, index),
            durable=durable,
            durability=durability,
            retention=retention,
            compression=compression or self._options.compression,
            merges=not queue.startswith(EXCHANGE_MARK),  # held messages are known by their times
        )
        for cursor in (0, *cursors):
            partition.open_cursor(cursor)
        # Behind the start, numbers are new. Files of an earlier queue of the name are left alone: its
        # deletion may not be durable yet.
        if durable and not self._started and self.recovery.load(partition, cursors):
            self.checkpoints.has_changed(partition)
        self.partitions[number] = partition
        if retention is not None:
            self._retention_timer.partitions.add(partition)
        return partition

    def change_partition(
        self, partition: PartitionLog, retention: Retention | None, compression: str | None
    ) -> None:
        """Keep and compress an open partition in another way from now on; see `open_partition`.

        What is in segments stays as it is, until it may be removed.
        """
        partition.compression = compression or self._options.compression
        partition.retain(retention)
        if retention is None:
            self._retention_timer.partitions.discard(partition)
        else:
            self._retention_timer.partitions.add(partition)
        if self._started:
            partition.release()

    def transaction(self) -> LogTransaction:
        """Begin what a crash takes all of, or nothing; it may take several turns of the event loop."""
        return LogTransaction(self.journal, self.intake)

    @property
    def is_committing(self) -> bool:
        """The journal's block is open for several turns: a transaction that takes as many has to wait."""
        return self.intake.is_committing or self.journal.is_held

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
        self.checkpoints.forget(closed)
        self.compactor.forget(closed)
        self._retention_timer.partitions.difference_update(closed)
        for partition in closed:
            self.partitions.pop(partition.number, None)
            self._emptied.forget(partition)
        if any(partition.damage.found for partition in closed):
            self.on_damage_changed()
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
        """A cursor of the partition has changes for the journal."""
        self.checkpoints.has_state(partition)
        self.journal.wake_later()

    def remove_segments(self, partition: PartitionLog, segments: list[Segment]) -> None:
        """Delete files of a partition's oldest segments in a thread."""
        if partition.keeps_log and partition.durable and self.journal.groups.gathers:
            expired = Settlement(NO_CURSOR, [(0, segments[-1].end_offset)], Reason.EXPIRED)
            with suppress(JournalFailed):  # then nobody follows any more
                self.journal.append(
                    JournalEntry(partition.number, expired), waited=False, synced=False
                )
        begin = None
        if partition.durable and partition.first_kept_moved():
            # Not later: a checkpoint may find no change then, and store nothing before the files go.
            begin = first_kept_change(partition.number, partition.first_kept)
        gone = Unneeded(partition.directory, segments, begin)
        self.journal.when_told(partial(self._remove_segments, partition, gone))

    def _remove_segments(self, partition: PartitionLog, gone: Unneeded) -> None:
        partition.leaving = partition.leaving[len(gone.segments) :]
        self._flusher.remove(gone)

    def keeps_newest(self, partition: PartitionLog) -> bool:
        """Whether a partition keeps its newest segment for now, although nobody needs it."""
        return self._emptied.keeps_newest(partition)

    def damage_changed(self, partition: PartitionLog, *, lifted: bool) -> None:
        """Store the partition's damage record; `lifted`: when nobody can need again what is damaged."""
        store = partial(self._store_damage, partition)
        if lifted:
            self.journal.when_told(store)
        else:
            store()

    def _store_damage(self, partition: PartitionLog) -> None:
        # Of those that are not durable the files end with the run; of those that are closed it goes with them.
        if partition.durable and not partition.closed:
            change = damage_change(partition.number, partition.damage)
            self._flusher.do(partial(self.metadata.apply, [change]))
            self.on_damage_changed()

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.clock.now()

    def _look_at_segments(self, partition: PartitionLog) -> None:
        self._compressor.look(partition)
        self.compactor.look(partition)

    # -- memory, space and failure

    def _disk_looked(self) -> None:
        self.copies.looked()
        self._disk_pressure.looked()

    def _tails_changed(self, size: int) -> None:
        if size > 0:
            if self.intake.room < 0:
                self.space.hurry()
            if self.memory.excess > 0:
                self.checkpoints.flush_soon()
        self.memory.look()

    def _failed(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self.checkpoints.fail()
            self._compressor.stop()
            self.compactor.stop()
            self.journal.stop(error)  # which says so in the log
            self.metadata_writer.failed(error)
            # Nothing waits for it; publishers hear of the error
            self.pressures.press("journal", False)
            self.on_failure(error)
