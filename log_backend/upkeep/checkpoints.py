"""Flushes write batches to segments; a checkpoint syncs them, stores cursors, and frees journal files.

A record is in the journal first. Its batch goes to a segment, without a sync, when the flush timer rings or
memory is short. A journal file is recycled once all that it holds is durable elsewhere: in a synced segment,
as settled in a stored snapshot, or as topology in the metadata store. So the order of a checkpoint is: write,
sync, store snapshots, recycle.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from routelog.log_backend.doors.disk import DiskFull
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_files import JournalFile
from routelog.log_backend.loop.scheduler import Lane, in_turns
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.segment_writer import SegmentWriter
from routelog.log_backend.upkeep.eviction import evict
from routelog.log_backend.upkeep.flush_plan import (
    PARTITIONS_MAX,
    FlushPlan,
    due,
    flush_round,
    flushing,
)
from routelog.log_backend.upkeep.partition_removal import PartitionRemoval
from routelog.log_backend.upkeep.partition_snapshot import Snapshot, snapshot, store_snapshots
from routelog.log_backend.upkeep.shard import Shard

log = logging.getLogger(__name__)


class Checkpoints:
    """The flushes and checkpoints of a store, one at a time.

    Attributes:
        with_state: partitions whose cursors have changes that the journal has not been told.
        refused: why the last segments could not be written; None: they could. `go_on` tries again.
        lock: who has it keeps segments and snapshots from being written.

    Args:
        look: called with each partition that was flushed: it may have a sealed segment.
        run: has work done on the event loop.
        follows: whether nobody reads here: then what is in segments leaves memory, which is used again.
        flush_seconds: between two flushes.
        on_refused: called when the disk has no room.
        on_failure: called with the error that no write may follow.
    """

    def __init__(
        self,
        shard: Shard,
        writer: SegmentWriter,
        look: Callable[[PartitionLog], None],
        removal: PartitionRemoval,
        run: Callable[[Coroutine[None, None, None]], None],
        *,
        follows: Callable[[], bool],
        flush_seconds: float,
        on_refused: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._shard = shard
        self._writer = writer
        self._look = look
        self._removal = removal
        self._run = run
        self._follows = follows
        self._flush_seconds = flush_seconds
        self._on_refused = on_refused
        self._on_failure = on_failure
        self.with_state: set[PartitionLog] = set()
        self._with_unflushed: set[PartitionLog] = set()
        # Perhaps with less in segments than there was before `begin`; None: a flush under way has to end first
        self._behind: set[PartitionLog] | None = None
        self._changed: set[PartitionLog] = set()  # since their last snapshot
        self._unstored: dict[PartitionLog, Snapshot] = {}  # of checkpoints that were given up
        self._plan = FlushPlan()  # under way
        self._full_files: list[JournalFile] = []  # that wait for a checkpoint
        self._given_up = -1  # what was committed when `told` last waited in vain
        self.refused: DiskFull | None = None
        self._failed = False
        self._flush_asked = False
        self.lock = asyncio.Lock()
        self._keepers = 0  # who read the journal's files
        self._kept_files: list[JournalFile] = []  # for them
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to flush from time to time."""
        self._timer = self._shard.loop.call_later(self._flush_seconds, self._flush_later)

    def stop(self) -> None:
        """Flush only when asked to."""
        if self._timer is not None:
            self._timer.cancel()

    def fail(self) -> None:
        """Write nothing any more."""
        self._failed = True

    # -- what is to be written

    @property
    def unflushed_bytes(self) -> int:
        """Bytes of batches that are to be in a segment, and are not on the disk."""
        return self._plan.unwritten_bytes + self._shard.intake.unflushed_bytes

    def has_changed(self, partition: PartitionLog) -> None:
        """The next checkpoint is to store a snapshot of a partition."""
        self._changed.add(partition)

    def has_state(self, partition: PartitionLog) -> None:
        """A cursor of a durable partition has changed."""
        self.with_state.add(partition)
        self._changed.add(partition)

    def has_unflushed(self, partition: PartitionLog) -> None:
        """A partition has batches that are to be in a segment."""
        self._with_unflushed.add(partition)
        if partition.durable:
            self._changed.add(partition)

    def forget(self, closed: Iterable[PartitionLog]) -> None:
        """Forget partitions that are closed."""
        behind = self._behind or set()
        for partitions in (self.with_state, self._with_unflushed, self._changed, behind):
            partitions.difference_update(closed)
        for partition in closed:
            self._unstored.pop(partition, None)

    # -- flushes

    def begin(self) -> None:
        """Segments are another leader's or an earlier run's from here on, as far as readers know."""
        self._behind = None if self.lock.locked() else self._durable_unflushed()

    def is_behind(self, partition: PartitionLog) -> bool:
        """Whether segments may lack what readers have seen before `begin`: then they are written soon."""
        if self._behind is None and not self.lock.locked():
            self._behind = self._durable_unflushed()
        if self._behind is not None and partition not in self._behind:
            return False
        self.flush_soon()
        return True

    def _durable_unflushed(self) -> set[PartitionLog]:
        return {each for each in self._with_unflushed if each.durable}

    def flush_soon(self) -> None:
        """Flush, unless that was asked for and has not begun."""
        if not self._flush_asked:
            self._flush_asked = True
            self._run(self.flush())

    async def flush(self) -> None:
        """Write what is needed of every durable partition to its segments (not synced), in rounds."""
        for _ in range(1 + len(self._with_unflushed) // PARTITIONS_MAX):  # some may have to stay
            is_written = False
            async with flushing(self.lock, self._on_failure):
                self._flush_asked = False  # here, or whoever grows meanwhile asks for another one
                unflushed = await self._due(durable=not self._is_given_up)
                some = await flush_round(unflushed)
                is_written = await self._write(some, to_sync=())
                await self._evict()
            if not is_written or len(some) == len(unflushed):
                break
        # What is not visible yet had to stay: when memory is short, publishers may wait for it to go.
        groups, over = self._shard.journal.groups, self._shard.memory.excess > 0
        if over and self._with_unflushed and not (self.refused or groups.is_idle):
            self._flush_asked = True
            following = self._shard.journal.progress.receipt(groups.promised + 1, 0)
            following.when_covered(lambda: self._run(self.flush()))

    async def _due(self, *, durable: bool) -> list[PartitionLog]:
        over = self._shard.memory.excess > 0
        return await due(self._with_unflushed, durable=durable, transient=over)

    def _flush_later(self) -> None:
        self.start()
        if self._with_unflushed:
            self._run(self.flush())

    async def _write(self, due: list[PartitionLog], to_sync: Collection[PartitionLog]) -> bool:
        if self._failed:
            return False
        if self._behind is None:
            self._behind = self._durable_unflushed()
        behind = self._behind  # not what `begin` puts in its place meanwhile
        self._plan = plan = FlushPlan()
        async for partition in in_turns(due, Lane.UPKEEP):
            self._with_unflushed.discard(partition)
            await plan.add(partition)
        await plan.sync(to_sync)
        try:
            if to_sync or not plan.is_empty:  # snapshots follow, if only to say what is settled
                # No segment may lack what is settled, and have what is behind it, before that is committed:
                # behind another leader, this node needs it.
                if plan.is_durable and not await self._told():
                    plan.refused()
                    return False
                write = partial(plan.write, self._writer, self._shard.space)
                await self._shard.loop.run_in_executor(self._shard.flusher, write)
        except DiskFull as error:
            plan.refused()
            behind &= self._with_unflushed
            if self.refused is None:
                log.warning("no room for segments: %s", error)
            self.refused = error
            self._on_refused()
            return False
        finally:
            self._plan = FlushPlan()
        if not self._is_given_up:  # else what was refused may still wait
            self.refused = None
        async for partition in plan.flushed(self._shard.intake.let_go):
            self._look(partition)
            behind.discard(partition)
        if self._follows():
            await evict([partition for partition, _ in plan.partitions], sys.maxsize)
        await plan.synced()
        return True

    async def _told(self) -> bool:
        if await self._shard.journal.told():
            return True
        committed, progress = self._shard.journal.committed, self._shard.journal.progress
        if self._given_up != committed:
            self._given_up = committed
            progress.receipt(0, committed + 1).when_covered(self._more_is_committed)
        return False

    @property
    def _is_given_up(self) -> bool:
        # Until more is committed, it would wait in vain, and others for the lock. A journal that has no room to
        # write what it was told is another matter: `go_on`.
        return self._given_up == self._shard.journal.committed < self._shard.journal.written

    def _more_is_committed(self) -> None:
        # Not only for the next full file: there may be no room to fill one.
        if self._full_files:
            self._run(self.take(self._full_files[-1]))

    async def _evict(self) -> None:
        excess = self._shard.memory.excess
        if excess > 0:  # and a quarter more, not to do it again at once
            wanted = excess + self._shard.memory.tail_bytes_max // 4
            await evict([*self._shard.partitions.values()], wanted)
        self._shard.memory.look()

    # -- checkpoints

    def take_later(self, file: JournalFile) -> None:
        """Take a checkpoint, as a file of the journal is full."""
        self._full_files.append(file)
        self._run(self.take(file))

    async def take(self, file: JournalFile | None = None) -> None:
        """Make everything up to here durable outside the journal; give back its full files.

        Args:
            file: one that is full; when an earlier checkpoint gave it back, nothing is done.
        """
        async with flushing(self.lock, self._on_failure):
            if self._is_given_up or (file is not None and file not in self._full_files):
                return
            files, self._full_files = self._full_files, []  # in the order of their numbers
            # What changes from here on belongs to the next checkpoint, as does what cursors have
            # not told the journal yet.
            changed, self._changed = self._changed, set(self.with_state)
            if not await self._write(await self._due(durable=True), to_sync=changed):
                self._changed |= changed
                self._full_files = files + self._full_files
                return
            async for partition in in_turns(changed, Lane.UPKEEP):
                seen = snapshot(partition)
                self._unstored[partition] = seen.behind(self._unstored.get(partition))
            if not await self._told():
                self._full_files = files + self._full_files
                return
            last = files[-1:]
            changes = [JournalExtent.begins_with(each.mark.number + 1, each.end) for each in last]
            await (
                self._shard.metadata_writer.applied()
            )  # what the files say of topology is synced, too
            await self._shard.loop.run_in_executor(
                self._shard.flusher,
                store_snapshots,
                self._shard.metadata,
                self._shard.journal.committed,
                list(self._unstored.values()),
                changes,
            )
            self._unstored.clear()
            await self._evict()
            supply = self._shard.journal.supply
            for full in files:
                # A partition that a crash may bring back needs what the journal has of it.
                supply.held += 1
                self._removal.when_decided(partial(self._recycle, full))
            if supply.held:  # and the journal needs room to say that it does not come back
                supply.prepare()

    @contextmanager
    def keeping_files(self) -> Iterator[None]:
        """Meanwhile no file of the journal is written over; the journal may have more of them instead."""
        self._keepers += 1
        try:
            yield
        finally:
            self._keepers -= 1
            if not self._keepers:
                kept, self._kept_files = self._kept_files, []
                for file in kept:
                    self._recycle(file)

    def _recycle(self, file: JournalFile) -> None:
        if self._keepers:
            self._kept_files.append(file)
            return
        self._shard.journal.supply.held -= 1
        self._shard.journal.recycle(file)

    def go_on(self) -> None:
        """There is room: write what was refused, and take the checkpoint that full files wait for."""
        if self._failed or self.lock.locked():
            return
        if self._full_files:
            self._run(self.take())
        elif self.refused:
            self._run(self.flush())
