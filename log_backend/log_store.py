"""The log store: all partitions of a node, their journal, their segments and their snapshots.

    data/
      LOCK                                   one owner
      compressing                            scratch file of compression
      metadata/                              RocksDB: topology, users, cursor snapshots
      journal/<number, 20 digits>.journal
      logs/<vhost>/<queue>-<partition>/...   durable partitions
      spill/...                              what other partitions could not keep in memory; emptied at start

Start: `LogStore(...)`, then `open_partition` for each one that the topology knows, then `recover`,
then `start`. A checkpoint lets go of a complete journal file: what it holds is written to segments and
synced, or settled in a cursor snapshot that is.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from log_backend.clock import Clock
from log_backend.cursor_snapshot import cursor_prefix, partition_prefix
from log_backend.damage import damage_change
from log_backend.disk import Disk
from log_backend.durability import Durability
from log_backend.journal import Journal
from log_backend.journal_block import JournalEntry
from log_backend.journal_files import JournalFile
from log_backend.log_directory import partition_directory
from log_backend.metadata import Change, MetadataStore
from log_backend.partition_log import PartitionLog
from log_backend.record_batch import RecordBatch
from log_backend.recovery import Recovery
from log_backend.retention import Retention
from log_backend.retention_timer import RetentionTimer
from log_backend.scrub import ReadBack, Scrub
from log_backend.segment import Segment, read_batches
from log_backend.segment_compressor import SegmentCompressor
from log_backend.segment_writer import SegmentWriter

log = logging.getLogger(__name__)

# A deleted partition's files: b"tombstones/" directory below the data directory -> its number, decimal.
TOMBSTONES = b"tombstones/"

NO_CURSORS: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Limits of a log store.

    Attributes:
        journal_file_bytes: size of one journal file; files are recycled.
        journal_files_max: beyond it, publishers wait for checkpoints.
        segment_bytes: a segment is sealed before it grows beyond, unless one batch is larger.
        memory_tail_bytes: batches kept in memory; beyond it they are flushed and forgotten.
        flush_seconds: how long a batch stays out of its segment.
        scrub_bytes_per_second: how fast sealed segments are read to find damage; 0 is never.
        scrub_interval_seconds: from the start of one round to that of the next.
        compression: of sealed segments, where a partition does not say: none, zstd, lz4.
        retention_seconds: how often segments past their retention are looked for.
    """

    journal_file_bytes: int = 64 * 1024 * 1024
    journal_files_max: int = 8
    segment_bytes: int = 64 * 1024 * 1024
    memory_tail_bytes: int = 256 * 1024 * 1024
    flush_seconds: float = 1.0
    scrub_bytes_per_second: int = 8 * 1024 * 1024
    scrub_interval_seconds: float = 86_400.0
    compression: str = "none"
    retention_seconds: float = 30.0


class LogStore:
    """The partitions of a node on one data directory.

    Attributes:
        metadata: the store for topology and users.
        leader_epoch: stamped on every batch; rises with every start.
        scrub: reads sealed segments in the background.
        on_durable: set by the owner; called with the journal position that is durable.
        on_written: set by the owner; called with the position that is written and not yet durable.
        on_failure: set by the owner; called once when the disk failed.
        on_pressure: set by the owner; called with True when publishers should wait.
    """

    def __init__(
        self,
        data: Path,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        options: LogOptions,
    ) -> None:
        self._data = data
        self._disk = disk
        self._clock = clock
        self._loop = loop
        self._options = options
        disk.make_directory(data)
        self._lock = disk.lock(data / "LOCK")
        disk.make_directory(data / "journal")
        disk.make_directory(data / "logs")
        self._empty_spill()
        self.metadata = MetadataStore.open(data / "metadata")
        self.leader_epoch = 0
        self._started = False
        self.segment_bytes = options.segment_bytes
        self.on_durable: Callable[[int], None] = lambda position: None
        self.on_written: Callable[[int], None] = lambda position: None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.on_pressure: Callable[[bool], None] = lambda pressed: None
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flusher")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="reader")
        self._journal_files = ThreadPoolExecutor(1, thread_name_prefix="journal-files")
        self.journal = Journal(
            data / "journal",
            disk,
            loop,
            self._journal_files,
            file_bytes=options.journal_file_bytes,
            files_max=options.journal_files_max,
            on_durable=lambda position: self.on_durable(position),
            on_written=lambda position: self.on_written(position),
            on_failure=self._failed,
            on_file_full=self._checkpoint_later,
            collect=self._journal_state,
            on_pressure=lambda pressed: self._press("journal", pressed),
        )
        self._writer = SegmentWriter(disk)
        self._compressor = SegmentCompressor(
            disk, loop, data / "compressing", self._flusher, self._run
        )
        self._recovery = Recovery(disk, self.metadata, self._writer, self._remove_directory)
        self._partitions: dict[int, PartitionLog] = {}
        self.scrub = Scrub(
            self._partitions,
            self._in_reader,
            disk,
            clock,
            bytes_per_second=options.scrub_bytes_per_second,
            interval_seconds=options.scrub_interval_seconds,
        )
        self._with_state: set[PartitionLog] = set()  # cursors of theirs have changed
        self._with_unflushed: set[PartitionLog] = set()
        self._changed: set[PartitionLog] = set()
        self._tail_bytes = 0
        self._pressures: set[str] = set()
        self._flush_lock = asyncio.Lock()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._retention_timer = RetentionTimer(loop, options.retention_seconds)
        self._flush_soon = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None

    def _empty_spill(self) -> None:
        spill = self._data / "spill"
        for vhost in self._disk.list_directory(spill):
            for partition in self._disk.list_directory(spill / vhost):
                self._disk.remove_tree(spill / vhost / partition)

    # -- life

    def recover(self) -> int:
        """Replay the journal into the open partitions; returns the entries replayed.

        Raises:
            JournalDamaged: what was durable cannot be read.
        """
        return self._recovery.replay(self.journal.recover(), self._partitions)

    def start(self, leader_epoch: int) -> None:
        """Begin to accept appends.

        Args:
            leader_epoch: higher than that of any earlier start.
        """
        self.leader_epoch = leader_epoch
        self._started = True
        self.journal.start()
        self._remove_deleted()
        for partition in self._partitions.values():
            self._compressor.look(partition)
        self._flush_timer = self._loop.call_later(self._options.flush_seconds, self._flush_later)
        self.scrub.start(self._loop)
        self._retention_timer.start()

    async def aclose(self) -> None:
        """Write everything that is needed to segments and snapshots, then let go of the files."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        await self.scrub.aclose()
        self._compressor.stop()
        self._retention_timer.stop()
        if self.journal.failure is None and self._failure is None:
            await self._checkpoint(None)
        await self.journal.aclose()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for executor in (self._flusher, self._readers, self._journal_files):
            executor.shutdown(wait=True)
        self._compressor.close()
        self.metadata.close()
        self._disk.close(self._lock)

    def _remove_deleted(self) -> None:
        for key, entry in list(self.metadata.scan(TOMBSTONES)):
            directory = self._data / key[len(TOMBSTONES) :].decode()
            if self._writer.owner_of(directory) == int(entry.value):
                self._remove_directory(directory, key)
            else:
                self.metadata.apply([Change(key, None)], synced=False)

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
        logs = self._data / ("logs" if durable else "spill")
        directory = partition_directory(logs, vhost, queue, index)
        partition = PartitionLog(
            self,
            number,
            directory,
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
        self._partitions[number] = partition
        if retention is not None:
            self._retention_timer.partitions.add(partition)
        return partition

    def cursor_removal(self, partition: PartitionLog, cursor: int) -> list[Change]:
        """Metadata changes to apply together with a cursor's removal from the topology."""
        if not partition.durable:
            return []
        prefix = cursor_prefix(partition.number, cursor)
        return [Change(key, None) for key, _ in self.metadata.scan(prefix)]

    def close_partition(self, partition: PartitionLog) -> list[Change]:
        """Close a partition for good; the files of one that is not durable go at once.

        Returns:
            Metadata changes to apply together with the removal from the topology, so that the files
            go even if the process dies first. When they are durable, call `remove_files`.
        """
        self._tail_bytes -= partition.close()
        self._partitions.pop(partition.number, None)
        for partitions in (
            self._with_state,
            self._with_unflushed,
            self._changed,
            self._retention_timer.partitions,
        ):
            partitions.discard(partition)
        if not partition.durable:
            self._remove_directory(partition.directory)
            return []
        prefix = partition_prefix(partition.number)
        gone = [Change(key, None) for key, _ in self.metadata.scan(prefix)]
        if partition.damage.found or partition.damage.lost:
            gone.append(damage_change(partition.number, None))
        return [Change(self._tombstone(partition), b"%d" % partition.number), *gone]

    def remove_files(self, partition: PartitionLog) -> None:
        """Delete the files of a partition whose deletion is durable.

        Not earlier: a crash would bring the queue back without its records.
        """
        self._remove_directory(partition.directory, self._tombstone(partition))

    def _tombstone(self, partition: PartitionLog) -> bytes:
        return TOMBSTONES + str(partition.directory.relative_to(self._data)).encode()

    def _remove_directory(self, directory: Path, tombstone: bytes | None = None) -> None:
        def remove() -> None:
            # The same thread writes segments, so nothing of the partition comes after this.
            self._writer.remove_directory(directory)
            if tombstone is not None and self.metadata.get(tombstone) is not None:
                self.metadata.apply([Change(tombstone, None)], synced=False)

        self._in_flusher(remove)

    # -- what partitions ask for (LogOwner)

    def tail_grew(self, size: int) -> None:
        """See `LogOwner`."""
        self._tail_bytes += size
        if size > 0 and self._tail_bytes > self._options.memory_tail_bytes and not self._flush_soon:
            self._flush_soon = True
            self._run(self.flush())
        self._press("memory", self._tail_bytes > 2 * self._options.memory_tail_bytes)

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

    def load(self, segment: Segment, offset: int) -> asyncio.Future[list[RecordBatch]]:
        """See `LogOwner`."""
        return self._loop.run_in_executor(
            self._readers,
            read_batches,
            self._disk,
            segment.path,
            segment.position_of(offset),
            segment.written_size,
            offset,
            segment.lowest_offset_at(segment.position_of(offset)),
        )

    def remove_segments(self, segments: list[Segment]) -> None:
        """See `LogOwner`."""
        self._in_flusher(lambda: self._writer.remove(segments))

    def damage_changed(self, partition: PartitionLog) -> None:
        """See `LogOwner`."""
        if not partition.durable:
            return  # its files end with the run
        change = damage_change(partition.number, partition.damage)
        self._in_flusher(lambda: self._keep_damage(change))

    def _keep_damage(self, change: Change) -> None:
        self.metadata.apply([change])

    def now(self) -> int:
        """See `LogOwner`."""
        return self._clock.now()

    # -- flushing and checkpoints

    async def flush(self) -> None:
        """Write what is needed of every durable partition to its segments (not synced)."""
        async with self._flush_lock:
            self._flush_soon = False
            await self._write_segments(to_sync=())
            self._evict()

    def _journal_state(self) -> None:
        for partition in self._with_state:
            for cursor in partition.cursors.values():
                for change in cursor.take_changes():
                    entry = JournalEntry(partition.number, change)
                    self.journal.append(entry, waited=False, synced=partition.synced)
        self._with_state.clear()

    def _flush_later(self) -> None:
        self._flush_timer = self._loop.call_later(self._options.flush_seconds, self._flush_later)
        if self._with_unflushed:
            self._run(self.flush())

    async def _write_segments(self, to_sync: Collection[PartitionLog]) -> None:
        if self._failure is not None:
            return
        over_budget = self._tail_bytes > self._options.memory_tail_bytes
        chosen = [p for p in self._with_unflushed if p.durable or over_budget]
        self._with_unflushed.difference_update(chosen)
        writes = [write for partition in chosen for write in partition.plan_flush()]
        unsynced = [s for p in to_sync for s in p.segments if s.unsynced]
        try:
            if writes or unsynced:
                await self._loop.run_in_executor(
                    self._flusher, self._writer.write, writes, unsynced
                )
        except Exception as error:  # also a fault of ours: what was planned is on no disk
            self._failed(error)
            return
        for partition in chosen:
            partition.flushed()
            self._compressor.look(partition)
        for segment in unsynced:
            segment.unsynced = False

    def _checkpoint_later(self, file: JournalFile) -> None:
        self._run(self._checkpoint(file))

    async def _checkpoint(self, file: JournalFile | None) -> None:
        async with self._flush_lock:
            # What changes from here on belongs to the next checkpoint, as does what cursors have
            # not told the journal yet.
            changed, self._changed = self._changed, set(self._with_state)
            await self._write_segments(to_sync=changed)
            if self._failure is not None:
                return
            try:
                await self._loop.run_in_executor(
                    self._flusher, self._store_snapshots, self._snapshots(changed)
                )
            except Exception as error:
                self._failed(error)
                return
            self._evict()
        if file is not None:
            self.journal.recycle(file)

    def _snapshots(self, changed: Collection[PartitionLog]) -> list[Change]:
        changes: list[Change] = []
        for partition in changed:
            if partition.closed:
                continue
            if partition.segments:
                partition.synced_offset = partition.segments[-1].end_offset
            marks = (partition.number, partition.next_offset, partition.synced_offset)
            for cursor in partition.cursors.values():
                changes += cursor.snapshot(*marks)
        return changes

    def _store_snapshots(self, changes: Sequence[Change]) -> None:
        if changes:
            self.metadata.apply(changes, synced=False)
            self.metadata.sync()

    def _evict(self) -> None:
        excess = self._tail_bytes - self._options.memory_tail_bytes
        if excess > 0:
            excess += self._options.memory_tail_bytes // 4  # not again at once
            largest = sorted(self._partitions.values(), key=PartitionLog.tail_bytes, reverse=True)
            for partition in largest:
                freed = partition.evict(excess)
                excess -= freed
                self._tail_bytes -= freed
                if excess <= 0:
                    break
        self._press("memory", self._tail_bytes > 2 * self._options.memory_tail_bytes)

    # -- pressure and failure

    def _press(self, reason: str, pressed: bool) -> None:
        if pressed == (reason in self._pressures):
            return
        before = bool(self._pressures)
        (self._pressures.add if pressed else self._pressures.discard)(reason)
        if before != bool(self._pressures):
            self.on_pressure(bool(self._pressures))

    def _failed(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self._compressor.stop()
            self.journal.stop(error)  # which says so in the log
            self.on_failure(error)

    def _in_reader(self, work: Callable[[], ReadBack]) -> "asyncio.Future[ReadBack]":
        return self._loop.run_in_executor(self._readers, work)

    def _in_flusher(self, work: Callable[[], None]) -> None:
        future = self._loop.run_in_executor(self._flusher, work)
        future.add_done_callback(_report)

    def _run(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)


def _report(future: "asyncio.Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.error("background work of the log failed", exc_info=error)
