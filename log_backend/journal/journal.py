"""The journal: one sequence of changes per node, made durable by group commit.

Entries gather in a group; when the disk is free, the group becomes one block, written over preallocated
zeros and synced by one thread. While it syncs, the next group gathers by itself, so no timer decides how
many changes share a sync. A timer only bounds how long changes lie that nobody waits for.

A block in which no entry asks for a sync is written only. So there are two positions: `written`, which the
end of the process cannot take back, and `durable`, which a power cut cannot. A sync makes everything before
it durable too, in earlier files as well. Promises go by `committed`: on a node on its own that is `durable`.

A journal of a replica (`replicate`) is synced with every block, and `committed` is what its owner says: what
the other replicas have, too. `durable` only informs the owner then. It begins as a follower's: `store` and
`truncate` take the place of `append`, until it is to `lead`.

Everything here runs on the event loop but `_write_blocks`, the commit thread; the files come from
`journal_supply.py`, and `stored_blocks.py` knows what is in them. A block that somebody waits for, up
to 128 KiB, is written on the loop while the disk is quick (`disk_pace.py`).
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from queue import SimpleQueue
from typing import Protocol

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.journal.block_writer import BlockWriter, Erasure, PlacedGroup
from routelog.log_backend.journal.disk_pace import DiskPace
from routelog.log_backend.journal.journal_block import (
    BLOCK_HEADER_BYTES,
    Block,
    aligned,
)
from routelog.log_backend.journal.journal_chain import START, Mark, ShardBlock
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_files import JournalFile
from routelog.log_backend.journal.journal_groups import JournalGroup, JournalGroups
from routelog.log_backend.journal.journal_supply import JournalSupply
from routelog.log_backend.journal.receipt import Progress
from routelog.log_backend.journal.stored_blocks import StoredBlocks
from routelog.log_backend.loop.deadline import Deadline
from routelog.log_backend.measures.histogram import Histogram

log = logging.getLogger(__name__)

# What the loop writes itself. Meanwhile clients write more, which one read brings; beside the thread it would
# read and answer them piece by piece. A larger block is worth the changes of thread.
LOOP_COMMIT_BYTES_MAX = 131_072
COMMIT_DELAY_SECONDS = 0.01  # for changes that nobody waits for: acks may be lost this long
# Idle so long, or twice, the journal vouches for its last commit: far above any commit.
MARK_SECONDS = 0.1

# A leader without enough followers waits so long, then it takes its checkpoint later; so it can stop.
TOLD_SECONDS_MAX = 10.0


class JournalFailed(Exception):
    """A write or sync failed: nothing more is accepted until a restart recovers."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"the log cannot be written: {cause}")
        self.cause = cause


class NotReplicated(Exception):
    """Too few nodes have stored a change in time; they may store it yet."""


class ReplicaEvents(Protocol):
    """What a journal tells the replica that it belongs to, on the event loop."""

    def on_block(self, block: ShardBlock) -> None:
        """A block was made here, and is being written: the replica leads."""

    def on_durable(self, end: Mark) -> None:
        """Everything up to this block is synced."""

    def on_truncated(self, position: int) -> None:
        """The journal ends behind this position, and a power cut brings nothing back."""

    def on_recycled(self, base: Mark) -> None:
        """The files up to this block are given back: a checkpoint has what they said."""


class Journal:
    """Appends changes, says when they are written and when they are durable.

    Attributes:
        written: position of the last block that the operating system has: it survives the end of the
            process.
        durable: position of the last synced block: everything at or below it survives a power cut.
            Never above `written`.
        committed: position of the last block that nothing can take back: never above `durable`, and on a
            node on its own the same.
        end: of a replica: the last block that is stored, or is to be.
        supply: its files.
        groups: what has gathered for the next blocks; partitions append their batches there.
        progress: how far it has come for confirms, and who waits for more: once it accepts entries.
        keeps_last: the last full file that has blocks is not given back: else the journal of a node that is
            started again would begin where it ended, and whoever lacks its last block need a copy. True of a
            replica.
        sync_times: seconds that writing and syncing of each synced block took.
        refused: why another file, or a block that is larger, could not be had; None: it could. `go_on` tries
            again.
        on_disk_full: called when `refused` is set.

    Args:
        supply: of nobody else.
        on_failure: called once; pending entries are not durable and never will be.
        on_file_full: a file is complete; give it to `recycle` when what is in it is durable in
            segments and snapshots.
        collect: called before each commit; may append.
        on_pressure: called with True when too much waits for the disk, and with False at half.
    """

    def __init__(
        self,
        supply: JournalSupply,
        disk: Disk,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        on_failure: Callable[[JournalFailed], None],
        on_file_full: Callable[[JournalFile], None],
        collect: Callable[[], None],
        on_pressure: Callable[[bool], None],
    ) -> None:
        self.supply = supply
        supply.on_ready, supply.on_refused = self._file_ready, self._no_file
        supply.on_failed = self._failed
        self._disk = disk
        self._clock = clock
        self._writer = BlockWriter(disk, supply.files)
        self._pace = DiskPace(clock)
        self._reader = supply.reader()
        self._epoch = 0
        self._replica: ReplicaEvents | None = None
        self._truncations: list[Mark] = []  # where the journal is to end
        self._blocks = StoredBlocks(disk)
        self._full: deque[JournalFile] = deque()  # complete, and not all of it is promised, or kept
        self._loop = loop
        self._on_failure = on_failure
        self._on_file_full = on_file_full
        self._collect = collect
        self.written = self.durable = self.committed = 0
        self.end = START
        self.groups = JournalGroups(self._entry_added, on_pressure)
        self.progress = Progress(loop.call_soon, clock.monotonic)
        self.keeps_last = False
        self.sync_times = Histogram()
        self._awaiting_collected: list[Callable[[], None]] = []
        self.refused: DiskFull | None = None
        self.on_disk_full: Callable[[], None] = lambda: None
        self._committing = self._uncollected = False
        self._scheduled: asyncio.Handle | None = None
        self._later = Deadline(loop, COMMIT_DELAY_SECONDS, self._commit)
        self._mark_timer: asyncio.TimerHandle | None = None
        self._marking = False
        self._old_files: list[JournalFile] = []  # of earlier runs
        self._file: JournalFile | None = None
        self._closing: asyncio.Future[None] | None = None
        self._closed = False
        self._stalled = False  # no file has room: what can be collected stays where it is
        self._held_back: JournalGroup | None = None  # the block that found no room
        self._abandoned = False
        self._jobs: SimpleQueue[PlacedGroup | tuple[Erasure, list[Mark]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_blocks, name="journal", daemon=True)

    def replicate(
        self, shard: int, events: ReplicaEvents, committed: int = 0, alone: int = 0
    ) -> list[tuple[Mark, int]]:
        """Be the journal of a replica; call before `recover`.

        Args:
            committed: up to here blocks are known to be committed; what the journal tells itself is added.
            alone: the newest epoch of a node on its own: all that it had written was committed.

        Returns:
            Its base, and the mark of each block that is stored, with the bytes of its entries.

        Raises:
            JournalDamaged: a block that had been committed cannot be read.
        """
        self._replica, self._writer.shard = events, shard
        self.groups.is_replicated = self.keeps_last = True
        marks = [(block.mark, block.length - BLOCK_HEADER_BYTES) for block in self._reader.blocks()]
        of_alone = (mark.position for mark, _ in marks if mark.epoch <= alone)
        self.committed = max(committed, self._reader.committed, *of_alone)
        return [(self._reader.base, 0), *marks]

    @property
    def is_replicated(self) -> bool:
        """It is a replica's."""
        return self._replica is not None

    def recover(self) -> Iterator[Block]:
        """Read what earlier runs left, in order; call before `start`, and use up. It may be read
        again until then.

        Of a replica's journal, only what is committed; the rest stays stored.

        Raises:
            JournalDamaged: a block that had been committed cannot be read.
        """
        for block in self._reader.blocks():
            if self._replica is None or block.position <= self.committed:
                yield block
        self.written = self.durable = self._reader.end.position
        if self._replica is None:
            self.committed = self.durable

    @property
    def recovered_epoch(self) -> int:
        """Epoch of the last block that `recover` has found; 0: it has found none."""
        return self._reader.end.epoch

    def adopt(self) -> None:
        """Make durable what was read: it may be in the system's cache only. `start` does it, too."""
        if not self._old_files:
            self._old_files = self.supply.adopt(self._reader)

    def start(self, epoch: int) -> None:
        """Begin to accept entries; files of earlier runs that have blocks become complete files at once.

        Args:
            epoch: not below that of any block.
        """
        self._epoch = epoch
        self.groups.start(self.durable + 1)
        self._open()

    def follow(self) -> None:
        """Begin to store a leader's blocks, instead of `start`; nothing can be appended."""
        self.groups.promise(self.committed)
        self._open()

    def lead(self, epoch: int) -> None:
        """Begin an epoch behind everything that is stored, with an empty block; entries are accepted then."""
        self._epoch = epoch
        self.groups.lead(self.end.position + 1, epoch)
        self._wake()

    def store(self, blocks: Sequence[ShardBlock]) -> None:
        """Add blocks that a leader made; told by `on_durable`.

        Args:
            blocks: each is what its checksum says (`ShardBlock.is_intact`); payloads are kept.

        Raises:
            ValueError: they do not follow; those before are added.
        """
        for block in blocks:
            if not block.follows(self.end):
                raise ValueError(f"block {block.position} does not follow {self.end}")
            self.groups.add_block(
                block.position,
                block.epoch,
                block.payload,
                block.checksum,
                synced=block is blocks[-1],
            )
            self.end = block.mark
        self._wake()

    def truncate(self, position: int) -> None:
        """Erase what is behind a position that is here and not below `committed`; told by `on_truncated`.

        Blocks that are stored behind this call come behind it.

        Raises:
            ValueError: it is no such position.
        """
        group = self.groups.cut(position)
        if group is None:
            end = self._blocks.mark(position)
        else:
            group.synced = True  # the one that asked for it may be gone
            end = Mark(position, group.epoch, group.checksum)
        if end is None or position < self.committed:
            raise ValueError(f"the journal cannot be cut at {position}")
        self.end = end
        self._truncations.append(end)
        self._commit()

    def commit(self, position: int) -> None:
        """Blocks of a replica's journal are committed up to a position, and a follower has applied them."""
        if position <= self.committed:
            return
        self.committed = position
        self.groups.promise(position)
        self.progress.advance(position, position)
        self._give_files()
        self._wake_closing()

    async def read(self, after: int, bytes_max: int) -> list[ShardBlock]:
        """Blocks behind a position: no more than so many bytes, but for the first.

        Returns:
            Empty: the block behind `after` is not there, or not any more.
        """
        places = self._blocks.places(after, self.written, bytes_max)
        if not places:
            return []
        return await self._loop.run_in_executor(None, self._blocks.read, places)

    def mark(self, position: int) -> Mark | None:
        """The block at a position, or the one that the journal begins behind; None: it is not there."""
        return self._blocks.mark(position) if position <= self.written else None

    def committed_bytes(self, position: int) -> int:
        """How much is committed behind a position, as it takes room in files that were not given back."""
        behind = self._blocks.bytes_behind(position) - self._blocks.bytes_behind(self.committed)
        return max(0, behind)

    def commit_written(self) -> None:
        """Of a node on its own: soon sync what is only written, with an empty block if nothing else comes."""
        if self.written > self.committed:
            self._marking = True
            self.wake_later()

    def _open(self) -> None:
        self.adopt()
        self.end = self._writer.end = self._reader.end
        self._blocks.base = self._reader.base
        for file in self.supply.reused(self._old_files):
            self._blocks.add(file)
            self._is_full(file)
        self.progress.advance(self.committed, self.committed)
        self._thread.start()
        self._give_files()
        self.supply.start()

    def append(self, entry: JournalEntry, *, waited: bool, synced: bool = True) -> int:
        """Add a change to the next commit.

        Args:
            waited: somebody waits for it, so commit as soon as the disk is free; otherwise within
                COMMIT_DELAY_SECONDS.
            synced: it has to survive a power cut; otherwise it is only written, unless something
                else in its block, or behind it, asks for a sync.

        Returns:
            Its position: compare it with `committed`, or with `written` when that is enough.

        Raises:
            JournalFailed: the disk failed before; nothing was added.
        """
        position: int = self.groups.append(entry, waited, synced)
        return position

    @property
    def failure(self) -> Exception | None:
        """Set once, when the disk failed."""
        return self.groups.failure

    def check(self) -> None:
        """Refuse to go on when the disk has failed.

        Raises:
            JournalFailed: it has.
        """
        if self.failure is not None:
            raise self.failure

    def when_committed(self, done: Callable[[], None]) -> None:
        """Call `done` when nothing can take back what cursors know now: no other leader, and no power cut."""
        self._awaiting_collected.append(done)
        self._marking = True  # or it would wait for somebody's next entry, or for the next sync
        self.wake_later()

    def when_told(self, done: Callable[[], None]) -> None:
        """Call `done` when no other leader can take back what cursors know now.

        A leader that is deposed forgets what is not committed: until then no file may tell of it, or lack what
        it was about. On a node on its own, an ack that a power cut takes back does no harm: at once.
        """
        if self.is_replicated and self.groups.gathers:
            self.when_committed(done)
        else:
            done()

    async def told(self) -> bool:
        """Wait until nothing that cursors know now can be taken back; returns whether that is so."""
        told = asyncio.Event()
        self.when_told(told.set)
        if told.is_set():
            return True
        try:
            # All files may be full, and wait for the checkpoint that waits here.
            with self.supply.sparing():
                async with asyncio.timeout(TOLD_SECONDS_MAX):
                    await told.wait()
        except TimeoutError:
            return False
        return True

    def wake_later(self) -> None:
        """There is something to `collect`; commit it within COMMIT_DELAY_SECONDS."""
        self._uncollected = True  # during a commit nothing is scheduled
        self._wake_later()

    @property
    def is_held(self) -> bool:
        """Whether the block that gathers waits until it is let go."""
        return self.groups.is_held

    def hold(self) -> None:
        """Write the block that gathers when it is let go, not before; it is let go before `aclose`.

        All that is appended meanwhile is in it, so whoever waits for it waits longer.
        """
        if self.groups.is_held:  # the first of two that lets go would end the block of the other
            raise RuntimeError("the journal's block is held already")
        self.groups.is_held = True

    def let_go(self) -> None:
        """The block that was held is complete."""
        self.groups.let_go()
        self._entry_added(self.groups.first.waited)

    @property
    def promised_bytes(self) -> int:
        """Size of the file that will be made next, and of a block that is larger than a file."""
        waiting = self._held_back.bytes if self._held_back is not None else 0
        return waiting + (self.supply.file_bytes if self.supply.makes_more else 0)

    def go_on(self) -> None:
        """There may be room for what was refused."""
        if self.failure is None and not self._closed and self.groups.started:
            self.supply.prepare()
            if self._held_back is not None:
                self._held_back = None
                self._commit()

    def abandon(self) -> None:
        """The disk stays full: when no file has room, `aclose` gives up what is not committed."""
        self._abandoned = True
        self._wake_closing()

    def stop(self, cause: Exception) -> None:
        """Accept no more entries: the disk failed elsewhere."""
        self._failed(cause)

    def recycle(self, file: JournalFile) -> None:
        """Take back a complete file whose content is durable elsewhere."""
        self._blocks.forget(file)
        if self.failure is None and not self._closed:
            self.supply.recycle(file)
        else:
            self._disk.close(file.file)
        if self._replica is not None:
            self._replica.on_recycled(self._blocks.base)

    async def drain(self) -> None:
        """Commit what is pending, as far as there is room."""
        while self.failure is None and (self._committing or self.groups.started):
            self._commit()
            if not self._committing and (self._is_hopeless() or not self.groups.has_more):
                break
            self._closing = self._loop.create_future()
            await self._closing

    async def aclose(self) -> None:
        """Commit what is pending, then end the thread and close the files."""
        await self.drain()
        if self._thread.is_alive():  # it never began in a follower
            self._jobs.put(None)
            await self._loop.run_in_executor(None, self._thread.join)
        self._closed = True  # from here on the thread needs no file that comes back
        await self.supply.aclose()
        self._later.stop()
        for handle in (self._scheduled, self._mark_timer):
            if handle is not None:
                handle.cancel()
        for file in (*self._full, self._file):
            if file is not None:
                self._disk.close(file.file)

    # -- committing

    def _entry_added(self, waited: bool) -> None:
        if waited:
            self._wake()
        else:
            self._wake_later()

    def _wake(self) -> None:
        if not self._committing and self._scheduled is None:
            # After this turn's other reads: their changes share the commit.
            self._scheduled = self._loop.call_soon(self._commit, True)

    def _wake_later(self) -> None:
        if not self._committing and self._scheduled is None:
            self._later.set()

    def _commit(self, ends_turn: bool = False) -> None:
        self._scheduled = None
        self._later.clear()
        if self._committing or self._closed or self.failure is not None:
            return
        if self._truncations:
            self._erase()
            return
        # What recovery woke it for waits for the first file.
        if self._has_no_room() or not self.groups.started or self.groups.is_first_held:
            return
        if self.groups.gathers and not self._gather():
            return
        group = self.groups.first
        if not (self.groups.has_more or self._marking):
            return
        size = aligned(BLOCK_HEADER_BYTES + group.bytes)
        if not self._have_room(size):
            return
        file = self._file
        assert file is not None
        is_last = not self.groups.gathers or group is self.groups.last
        self.groups.take_first()
        self._committing = True
        group.epoch = group.epoch or self._epoch
        leads = self._replica is not None and group.epoch == self._epoch
        group.synced |= leads or self._marking
        # Who waits for what is collected waits for the last group, which may be empty.
        self._marking = self._marking and not is_last
        file.first = file.first or group.position
        placed = PlacedGroup(file, file.at, self.committed, group)
        file.places.append(file.at)
        file.at += size
        if leads:
            placed = placed._replace(block=self._made(placed))
        if ends_turn and group.waited and self._suits_loop(group):
            self._write_here(placed)
        else:
            self._jobs.put(placed)

    def _suits_loop(self, group: JournalGroup) -> bool:
        return group.bytes <= LOOP_COMMIT_BYTES_MAX and self._pace.is_quick()

    def _gather(self) -> bool:
        self._uncollected = False
        try:
            self._collect()
        except Exception as error:  # a fault of ours: or whoever waits would wait for ever
            log.error("an error of the broker, while the journal gathered", exc_info=error)
            self._failed(error)
            return False
        for done in self._awaiting_collected:
            self.progress.receipt(0, self.groups.last.position).when_covered(done)
        self._awaiting_collected.clear()
        return True

    def _made(self, placed: PlacedGroup) -> bytearray:
        # The other replicas get it before it is written here; once, if there was no room.
        group, before = placed.group, self._writer.end
        block = self._writer.encode(placed)
        if group.position > self.end.position:
            entries_end = BLOCK_HEADER_BYTES + group.bytes
            payload = memoryview(block)[BLOCK_HEADER_BYTES:entries_end].toreadonly()
            made = ShardBlock(
                self._writer.shard,
                group.epoch,
                group.position,
                before.checksum,
                payload,
                group.checksum,
            )
            self.end = made.mark
            assert self._replica is not None
            self._replica.on_block(made)
        return block

    def _committed(self, group: JournalGroup) -> None:
        self._committing = False
        self.refused = None
        self.written = group.position
        if group.synced:
            self.durable = group.position
        if self._replica is None:
            self.groups.promise(group.position)
            self.committed = self.durable
        if self._truncations:
            self._commit()
        elif self.groups.started and self.groups.first.waited:
            if self._suits_loop(self.groups.first):
                self._wake()
            else:
                self._commit()  # first: the disk works while the confirms go out
        elif self.groups.has_more or self._uncollected or self._marking:
            self._wake_later()
        elif group.synced and group.count and self._mark_timer is None:
            self._mark_later()
        if self._replica is not None:
            if group.synced:
                self._replica.on_durable(Mark(group.position, group.epoch, group.checksum))
        else:
            self.progress.advance(self.written, self.committed)
        self._wake_closing()

    def _erase(self) -> None:
        # Nothing is being written; blocks that are not even that may be what the journal is to end with.
        cuts, self._truncations = self._truncations, []
        end = min(*cuts, self._writer.end)
        self._writer.end = end
        self.groups.erased(end.position)
        self.written = end.position
        self.durable = min(self.durable, end.position)
        self._committing = True
        self._jobs.put((self._blocks.cut(end), cuts))

    def _erased(self, cuts: Sequence[Mark]) -> None:
        self._committing = False
        self.durable = self.written
        end = self._writer.end
        self._commit()
        assert self._replica is not None
        self._replica.on_durable(end)
        for each in cuts:
            self._replica.on_truncated(each.position)
        self._wake_closing()

    def _mark_later(self) -> None:
        self._mark_timer = self._loop.call_later(MARK_SECONDS, self._mark, self.written)

    def _mark(self, written: int) -> None:
        # An empty block calls the last commit durable: from then on its loss is no torn tail. Behind one
        # that was only written there is nothing to vouch for, and it vouches for those before it.
        self._mark_timer = None
        if self.written != written:
            self._mark_later()  # it was not idle so long
            return
        is_idle = not self._committing and not self.groups.has_more
        if is_idle and self.committed == self.written:
            self._marking = True
            self._commit()

    def _not_committed(self, placed: PlacedGroup, error: DiskFull) -> None:
        # Nothing of it was written: it goes first again, when `go_on` says so.
        self._committing = False
        self.groups.put_back(placed.group)
        placed.file.at = placed.at
        placed.file.places.pop()
        if self._truncations:
            self.groups.cut(min(self._truncations).position)
            self._commit()
            return
        self._held_back = placed.group
        self._refuse(error)
        self._wake_closing()

    def _refuse(self, error: DiskFull) -> None:
        if self.refused is None:
            log.warning("no room for the journal: %s", error)
        self.refused = error
        self.on_disk_full()

    def _failed(self, error: Exception) -> None:
        if self.failure is None:
            failure = self.groups.failure = JournalFailed(error)
            log.critical("%s; this node accepts no more writes", failure)
            self._on_failure(failure)
        self._wake_closing()

    def _wake_closing(self) -> None:
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def _write_blocks(self) -> None:
        call = self._loop.call_soon_threadsafe
        try:
            while (placed := self._jobs.get()) is not None:
                if not isinstance(placed, PlacedGroup):
                    erasure, cuts = placed
                    self._writer.erase(erasure)
                    call(self._erased, cuts)
                    continue
                started = self._clock.monotonic()
                try:
                    self._writer.write(placed)
                except DiskFull as error:
                    call(self._not_committed, placed, error)
                    continue
                seconds = self._clock.monotonic() - started
                call(self._committed_by_thread, placed.group, seconds)
            if self.failure is None:
                self._writer.sync()  # a clean stop leaves nothing to a power cut
        except Exception as error:  # also a fault of ours: or its waiters would wait for ever
            call(self._failed, error)

    def _committed_by_thread(self, group: JournalGroup, seconds: float) -> None:
        self._took(group, seconds, on_loop=False)
        self._committed(group)

    def _took(self, group: JournalGroup, seconds: float, *, on_loop: bool) -> None:
        self._pace.took(seconds, on_loop=on_loop)
        if group.synced:
            self.sync_times.observe(seconds)

    def _write_here(self, placed: PlacedGroup) -> None:
        started = self._clock.monotonic()
        try:
            self._writer.write(placed)
        except DiskFull as error:
            self._not_committed(placed, error)
        except Exception as error:
            self._failed(error)
        else:
            self._took(placed.group, self._clock.monotonic() - started, on_loop=True)
            self._committed(placed.group)

    # -- files

    def _is_hopeless(self) -> bool:
        return self._abandoned and self._has_no_room() and not self.supply.making

    def _has_no_room(self) -> bool:
        return self._held_back is not None or (self._stalled and not self.supply.ready)

    def _have_room(self, size: int) -> bool:
        file = self._file
        if file is not None and (file.at + size <= file.size or file.at == 0):
            return True
        self._stalled = not self.supply.ready
        if self._stalled:
            self.supply.prepare()
            return False
        if file is not None:
            self._is_full(file)
            self._give_files()
        self._file = self.supply.ready.popleft()
        self._blocks.add(self._file)
        self.supply.prepare()
        return True

    def _is_full(self, file: JournalFile) -> None:
        self._full.append(file)
        self.supply.held += 1

    def _give_files(self) -> None:
        # What a segment may not have yet, a checkpoint cannot cover.
        # Without room for another file the last blocks are those of the one that is written. A node on its own
        # goes on even if there is none: who follows it takes a copy.
        is_short = self.refused is not None and not (self.is_replicated and self._file is None)
        keeps = self.keeps_last and not is_short
        while self._full and self._full[0].end.position <= self.groups.promised:
            if keeps and not any(each.places for each in islice(self._full, 1, None)):
                break
            self.supply.held -= 1
            self._on_file_full(self._full.popleft())

    def _file_ready(self) -> None:
        if self._held_back is None:
            self.refused = None
        self._commit()
        self._wake_closing()

    def _no_file(self, error: DiskFull) -> None:
        self._refuse(error)
        self._give_files()
        self._wake_closing()
