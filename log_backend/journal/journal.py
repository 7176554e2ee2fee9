"""The journal: one sequence of changes per node, made durable by group commit.

Entries gather in a group; when the disk is free, the group becomes one block, written over preallocated
zeros and synced by one thread. While it syncs, the next group gathers by itself, so no timer decides how
many changes share a sync. A timer only bounds how long changes lie that nobody waits for.

A block in which no entry asks for a sync is written only. So there are two positions: `written`, which the
end of the process cannot take back, and `durable`, which a power cut cannot. A sync makes everything before
it durable too, in earlier files as well.

Everything here runs on the event loop but `_write_blocks`, the commit thread; the files come from
`journal_supply.py`. A small block that somebody waits for is written on the loop, while the disk is quick
(`disk_pace.py`): two changes of thread would take longer.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from routelog.log_backend.doors.clock import Clock
from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.journal.block_writer import BlockWriter, PlacedGroup
from routelog.log_backend.journal.disk_pace import DiskPace
from routelog.log_backend.journal.journal_block import (
    BLOCK_ALIGNMENT,
    BLOCK_HEADER_BYTES,
    Block,
    aligned,
)
from routelog.log_backend.journal.journal_entry import JournalEntry
from routelog.log_backend.journal.journal_files import JournalFile
from routelog.log_backend.journal.journal_groups import JournalGroup, JournalGroups
from routelog.log_backend.journal.journal_supply import JournalSupply
from routelog.log_backend.journal.journal_waiters import JournalWaiters
from routelog.log_backend.loop.deadline import Deadline

log = logging.getLogger(__name__)

LOOP_COMMIT_BYTES_MAX = BLOCK_ALIGNMENT  # a larger block has enough to share the changes of thread
COMMIT_DELAY_SECONDS = 0.01  # for changes that nobody waits for: acks may be lost this long
# Idle so long, or twice, the journal vouches for its last commit: far above any commit.
MARK_SECONDS = 0.1


class JournalFailed(Exception):
    """A write or sync failed: nothing more is accepted until a restart recovers."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"the log cannot be written: {cause}")
        self.cause = cause


class Journal:
    """Appends changes, says when they are written and when they are durable.

    Attributes:
        written: position of the last block that the operating system has: it survives the end of the
            process.
        durable: position of the last synced block: everything at or below it survives a power cut.
            Never above `written`.
        supply: its files.
        groups: what has gathered for the next blocks; partitions append their batches there.
        waiters: who inside of the broker waits for a position.
        refused: there was no room for another file, or a block that is larger; `go_on` tries again.
        on_disk_full: called when `refused` is set.

    Args:
        supply: of nobody else.
        on_durable: called with the new `durable`, which is also the new `written`.
        on_written: called with the new `written` when that is all that changed.
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
        on_durable: Callable[[int], None],
        on_written: Callable[[int], None],
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
        self._loop = loop
        self._on_durable = on_durable
        self._on_written = on_written
        self._on_failure = on_failure
        self._on_file_full = on_file_full
        self._collect = collect
        self.written = self.durable = 0
        self.groups = JournalGroups(self._entry_added, on_pressure)
        self.waiters = JournalWaiters()
        self._awaiting_collected: list[Callable[[], None]] = []
        self.refused = False
        self.on_disk_full: Callable[[], None] = lambda: None
        self._committing = False
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
        self._jobs: SimpleQueue[PlacedGroup | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_blocks, name="journal", daemon=True)

    def recover(self) -> Iterator[Block]:
        """Read what earlier runs left, in order; call before `start`, and use up. It may be read again.

        Raises:
            JournalDamaged: a block that had been durable cannot be read.
        """
        yield from self._reader.blocks()
        self.written = self.durable = self._reader.end.position

    def adopt(self) -> None:
        """Make durable what was read: it may be in the system's cache only. `start` does it, too."""
        if not self._old_files:
            self._old_files = self.supply.adopt(self._reader)

    def start(self, epoch: int) -> None:
        """Begin to accept entries; files of earlier runs become complete files at once.

        Args:
            epoch: not below that of any block.
        """
        self.adopt()
        self._epoch, self._writer.end = epoch, self._reader.end
        self.groups.start(self.durable + 1)
        self._thread.start()
        for file in self._old_files:
            self._on_file_full(file)
        self.supply.start()

    def append(self, entry: JournalEntry, *, waited: bool, synced: bool = True) -> int:
        """Add a change to the next commit.

        Args:
            waited: somebody waits for it, so commit as soon as the disk is free; otherwise within
                COMMIT_DELAY_SECONDS.
            synced: it has to survive a power cut; otherwise it is only written, unless something
                else in its block, or behind it, asks for a sync.

        Returns:
            Its position: compare it with `durable`, or with `written` when that is enough.

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

    def when_collected(self, done: Callable[[], None]) -> None:
        """Call `done` when what there is to `collect` is written; if there is nothing, with the next commit."""
        self._awaiting_collected.append(done)

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
        self._progress()

    def stop(self, cause: Exception) -> None:
        """Accept no more entries: the disk failed elsewhere."""
        self._failed(cause)

    def recycle(self, file: JournalFile) -> None:
        """Take back a complete file whose content is durable elsewhere."""
        if self.failure is None and not self._closed:
            self.supply.recycle(file)
        else:
            self._disk.close(file.file)

    async def drain(self) -> None:
        """Commit what is pending, as far as there is room."""
        while self.failure is None and self.groups.started:
            self._commit()
            if not self._committing and (self._is_hopeless() or not self.groups.first.count):
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
        if self._file is not None:
            self._disk.close(self._file.file)

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
        if self._committing or self._closed or self.failure is not None or self._has_no_room():
            return
        # What recovery woke it for waits for the first file.
        if not self.groups.started or self.groups.is_first_held:
            return
        self._uncollected = False
        try:
            self._collect()
        except Exception as error:  # a fault of ours: or whoever waits would wait for ever
            log.error("an error of the broker, while the journal gathered", exc_info=error)
            self._failed(error)
            return
        for done in self._awaiting_collected:
            self.waiters.wait(self.groups.last.position, done, durable=False)
        self._awaiting_collected.clear()
        group = self.groups.first
        if not (group.count or self._marking):
            return
        size = aligned(BLOCK_HEADER_BYTES + group.bytes)
        if not self._have_room(size):
            return
        file = self._file
        assert file is not None
        self.groups.take_first()
        self._committing = True
        self._marking = False
        group.synced |= not group.count  # an empty block stands behind a synced one
        file.first = file.first or group.position
        placed = PlacedGroup(file, file.at, self.durable, self._epoch, group)
        file.at += size
        if ends_turn and group.waited and size <= LOOP_COMMIT_BYTES_MAX and self._pace.is_quick():
            self._write_here(placed)
        else:
            self._jobs.put(placed)

    def _committed(self, group: JournalGroup) -> None:
        self._committing = False
        self.refused = False
        self.written = group.position
        self.groups.written(group)
        if group.synced:
            self.durable = group.position
        if self.groups.first.waited:
            self._commit()  # first: the disk works while the confirms go out
        elif self.groups.first.count or self._uncollected:
            self._wake_later()
        elif group.synced and group.count and self._mark_timer is None:
            self._mark_later()
        if group.synced:
            self._on_durable(group.position)
        else:
            self._on_written(group.position)
        self.waiters.reached(self.written, self.durable)
        self._progress()

    def _mark_later(self) -> None:
        self._mark_timer = self._loop.call_later(MARK_SECONDS, self._mark, self.written)

    def _mark(self, written: int) -> None:
        # An empty block calls the last commit durable: from then on its loss is no torn tail. Behind one
        # that was only written there is nothing to vouch for, and it vouches for those before it.
        self._mark_timer = None
        if self.written != written:
            self._mark_later()  # it was not idle so long
            return
        is_idle = not self._committing and not self.groups.first.count
        if is_idle and self.durable == self.written:
            self._marking = True
            self._commit()

    def _not_committed(self, placed: PlacedGroup, error: DiskFull) -> None:
        # Nothing of it was written: it goes first again, when `go_on` says so.
        self._committing = False
        self._held_back = placed.group
        self.groups.put_back(placed.group)
        placed.file.at = placed.at
        self._refuse(error)
        self._progress()

    def _refuse(self, error: DiskFull) -> None:
        if not self.refused:
            log.warning("no room for the journal: %s", error)
        self.refused = True
        self.on_disk_full()

    def _failed(self, error: Exception) -> None:
        if self.failure is None:
            failure = self.groups.failure = JournalFailed(error)
            log.critical("%s; this node accepts no more writes", failure)
            self._on_failure(failure)
        self._progress()

    def _progress(self) -> None:
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def _write_blocks(self) -> None:
        call = self._loop.call_soon_threadsafe
        try:
            while (placed := self._jobs.get()) is not None:
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
        self._pace.took(seconds, on_loop=False)
        self._committed(group)

    def _write_here(self, placed: PlacedGroup) -> None:
        started = self._clock.monotonic()
        try:
            self._writer.write(placed)
        except DiskFull as error:
            self._not_committed(placed, error)
        except Exception as error:
            self._failed(error)
        else:
            self._pace.took(self._clock.monotonic() - started, on_loop=True)
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
            self._on_file_full(file)
        self._file = self.supply.ready.popleft()
        self.supply.prepare()
        return True

    def _file_ready(self) -> None:
        self.refused = self._held_back is not None
        self._commit()
        self._progress()

    def _no_file(self, error: DiskFull) -> None:
        self._refuse(error)
        self._progress()
