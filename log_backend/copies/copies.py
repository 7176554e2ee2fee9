"""Takes copies of a running store, without stopping it.

What a start needs is in three places: segments, the metadata store and the journal. A copy takes them in this
order, so that each is at least as new as what the one before was built from:

1. A checkpoint, which makes the journal short.
2. Sealed segments get second names (links), between flushes: what one has planned is not written yet.
3. No flush and no checkpoint from here to step 4: no segment grows, no snapshot is stored. The newest segments,
   and those sealed since, get second names; their size is what is written. So do those that another leader may
   still need: of partitions whose deletion is not committed, and segments whose settlement is not.
4. A checkpoint of RocksDB, in the thread that names files of the journal: it knows the last file that can have
   blocks up to what is committed when this is done. That is the copy's position.
5. The blocks up to there are copied; until that is done, no file of the journal is written over. Older files
   that are there come, too: a checkpoint has no snapshot of a queue whose deletion is not committed.

So the journal reaches at least as far as the metadata store says, each segment as far as the snapshots say, and
what was removed meanwhile is there all the same: recovery removes it again, as after a crash.

Nothing of that waits for what is not committed yet. A leader that commits nothing, as too few others have what
it has, can bring them back.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from routelog.log_backend.copies.data_copy import CopiedFile, CopyFailed, DataCopy
from routelog.log_backend.doors.disk import Disk, DiskFull, is_full, opened
from routelog.log_backend.journal.journal_block import aligned
from routelog.log_backend.journal.journal_chain import START, Mark
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_reader import whole_blocks
from routelog.log_backend.metadata.metadata import MetadataUnavailable
from routelog.log_backend.partitions.partition_log import PartitionLog
from routelog.log_backend.segments.log_directory import compressed_path
from routelog.log_backend.segments.partition_file import PARTITION_FILE
from routelog.log_backend.segments.segment import Segment
from routelog.log_backend.upkeep.checkpoints import Checkpoints
from routelog.log_backend.upkeep.shard import Shard

Given = ParamSpec("Given")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

FOLDER = "copies"  # in the data directory
LOGS_MAX = 256  # partitions whose files are linked in one go: some ms of the flusher's thread
CALLS_MAX = 32  # of the system, before the thread rests: it takes Python's lock behind each
REST_SECONDS = 0.0005
UNKNOWN = -1  # size of a file: all that there is


class _Log(NamedTuple):
    # A partition's segments at one moment; `size`: what is written of the newest, or UNKNOWN.
    directory: Path
    segments: tuple[Segment, ...]
    size: int


class _Journal(NamedTuple):
    # What was copied of it, up to a block.
    last: Mark
    files: list[CopiedFile]


class _Links:
    """Second names of segments; used in the flusher's thread, which removes and replaces segments."""

    def __init__(self, data: Path, folder: Path, disk: Disk, rest: Callable[[], None]) -> None:
        self.data = data
        self._folder = folder
        self._disk = disk
        self._rest = rest
        self._count = 0
        # By segment: another queue of the name may have one of the same path.
        self._sealed: dict[Segment, list[CopiedFile]] = {}

    def sealed(self, logs: Sequence[_Log]) -> list[CopiedFile]:
        """Link those of the sealed segments that were not there before, for `all`; returns none."""
        for _, segments, _ in logs:
            for segment in segments[:-1]:
                if segment not in self._sealed:
                    self._sealed[segment] = self._link_sealed(segment.path)
        return []

    def all(self, logs: Sequence[_Log]) -> list[CopiedFile]:
        """Link what is not linked yet, and list all files."""
        self.sealed(logs)
        linked: list[CopiedFile] = []
        for directory, segments, size in logs:
            linked += self._link(directory / PARTITION_FILE)
            for segment in segments[:-1]:
                linked += self._sealed[segment]
            if size != 0:
                newest = segments[-1].path
                linked += self._link(newest, size) or self._link(compressed_path(newest))
        return linked

    def _link_sealed(self, path: Path) -> list[CopiedFile]:
        linked = self._link(path, is_sealed=True)
        linked = linked or self._link(compressed_path(path), is_sealed=True)
        for suffix in (".index", ".timeindex"):
            linked += self._link(path.with_suffix(suffix), is_sealed=True)
        return linked

    def _link(
        self, path: Path, size: int = UNKNOWN, *, is_sealed: bool = False
    ) -> list[CopiedFile]:
        self._rest()
        self._count += 1
        held = self._folder / str(self._count)
        try:
            self._disk.link(path, held)
        except FileNotFoundError:
            return []
        name = path.relative_to(self.data).as_posix()
        return [CopiedFile(name, size, held, is_sealed)]


class Copies:
    """The copies of one store; each is there until its owner, or a full disk, ends it.

    Attributes:
        data: the store's directory.

    Args:
        partitions: those that a start with the committed journal would open.
        journal_files: names the files of the journal.
    """

    def __init__(
        self,
        shard: Shard,
        checkpoints: Checkpoints,
        partitions: Callable[[], Sequence[PartitionLog]],
        journal_files: Executor,
    ) -> None:
        self.data = shard.data
        self._folder = shard.data / FOLDER
        self._shard = shard
        self._checkpoints = checkpoints
        self._partitions = partitions
        self._journal_files = journal_files
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="copies")
        self._lock = asyncio.Lock()
        self._copies: set[DataCopy] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._calls = 0  # since a thread rested; a wrong count does no harm
        self._closed = False

    def remove_leftovers(self) -> None:
        """Remove what a run that was killed had copied."""
        for name in self._shard.disk.list_directory(self._folder):
            self._shard.disk.remove_tree(self._folder / name)

    def begin(self) -> DataCopy:
        """Begin to copy the store; the copy is of a moment between now and when it is `taken`.

        It fails where the disk is low or full, where its file system knows no links, and when the log fails.
        """
        copy = DataCopy(self._shard.disk, self._shard.loop)
        self._count += 1
        self._copies.add(copy)
        task = self._shard.loop.create_task(self._run(copy, str(self._count)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return copy

    def keeping_journal(self) -> AbstractContextManager[None]:
        """Meanwhile a replica that goes on behind a copy finds the blocks there; not when the disk is low."""
        return self._checkpoints.keeping_files()

    @property
    def is_short(self) -> bool:
        """The disk is low: there are no copies, and nothing may be kept for them."""
        return self._shard.space.low

    def looked(self) -> None:
        """There was another look at the disk's space: where it is low, files that only copies need go."""
        if self.is_short:
            self._fail("the disk is low, and what is published needs the room")

    async def aclose(self) -> None:
        """End all copies; take no more."""
        self._closed = True
        self._fail("the broker stops")
        await asyncio.gather(*self._tasks)
        await self._shard.loop.run_in_executor(None, self._executor.shutdown)

    def _fail(self, reason: str) -> None:
        for copy in list(self._copies):
            copy.fail(reason)

    # -- taking one

    async def _run(self, copy: DataCopy, name: str) -> None:
        try:
            async with self._lock:
                self.looked()
                if self._closed:
                    copy.fail("the broker stops")
                copy.check()
                await self._take(copy, name)
        except CopyFailed as error:
            copy.fail(str(error))
        except (OSError, MetadataUnavailable) as error:
            log.error("the data directory cannot be copied: %s", error)
            copy.fail(str(error))
        except Exception as error:
            log.error("an error of the broker, while it copied the data directory", exc_info=error)
            copy.fail("the broker failed; see its log")
        # No thread is at work for it any more.
        copy.on_end = partial(self._forget, copy, name)
        if copy.failure:
            copy.on_end()
        else:
            copy.taken.set_result(None)

    async def _take(self, copy: DataCopy, name: str) -> None:
        files, metadata = self._folder / name, self._folder / f"{name}-metadata"
        await self._in_thread(self._shard.disk.make_directory, files)
        await self._checkpoints.take()
        copy.check()
        if self._checkpoints.refused or self._shard.journal.failure is not None:
            raise CopyFailed("the log cannot be written")
        links = _Links(self.data, files, self._shard.disk, self._rest)
        await self._link(copy, links.sealed, self._checkpoints.lock)
        with self._checkpoints.keeping_files():
            async with self._checkpoints.lock:
                await self._link(copy, links.all, nullcontext())
                await self._in_thread(self._shard.metadata.flush)
                copy.check()
                last = await self._shard.loop.run_in_executor(
                    self._journal_files, self._copy_metadata, metadata
                )
                # No await since: no file that is named behind this has a block yet.
                committed = self._shard.journal.committed
            copied = await self._in_thread(self._copy_journal, files, last, committed)
        copy.check()
        copy.last = copied.last
        copy.files += copied.files
        copy.files += await self._in_thread(self._listed, metadata)
        copy.files = await self._in_thread(self._with_sizes, copy.files)
        copy.check()

    # -- segments

    async def _link(
        self,
        copy: DataCopy,
        link: Callable[[list[_Log]], list[CopiedFile]],
        lock: AbstractAsyncContextManager[None],
    ) -> None:
        partitions = iter(self._partitions())
        while some := list(islice(partitions, LOGS_MAX)):
            async with lock:  # or a flush has planned segments that are not written yet
                # In this turn: what removes or replaces a file from here on does so behind this.
                logs = [
                    _log(each) for each in some if each.durable and (each.leaving or each.segments)
                ]
                linked = await self._shard.loop.run_in_executor(self._shard.flusher, link, logs)
            copy.files += linked
            copy.check()

    # -- metadata and journal

    def _copy_metadata(self, path: Path) -> int:
        self._shard.metadata.copy(path)
        return JournalExtent(self._shard.metadata).last

    def _listed(self, folder: Path) -> list[CopiedFile]:
        names = self._shard.disk.list_directory(folder)
        return [CopiedFile(f"metadata/{name}", UNKNOWN, folder / name) for name in names]

    def _copy_journal(self, folder: Path, last: int, committed: int) -> _Journal:
        files, copied, end_block = self._shard.journal.supply.files, list[CopiedFile](), START
        for mark in files.marks():
            if mark.number > last:
                break
            content = files.read(mark)
            end = 0
            for at, block in whole_blocks(content, mark):
                if block.position > committed:
                    break
                end, end_block = at + aligned(block.length), block.mark
            path = files.path(mark)
            held = folder / path.name
            self._write(held, memoryview(content)[:end])
            copied.append(CopiedFile(f"journal/{path.name}", end, held, padded=len(content)))
        return _Journal(end_block, copied)

    def _write(self, path: Path, content: memoryview) -> None:
        self._shard.space.check_segment(len(content))
        try:
            with opened(self._shard.disk, path, create=True) as file:
                self._shard.disk.allocate(file, 0, len(content))
                self._shard.disk.write(file, 0, [content])
        except OSError as error:
            raise (DiskFull(str(error)) if is_full(error) else error) from error

    def _with_sizes(self, files: Sequence[CopiedFile]) -> list[CopiedFile]:
        return [self._with_size(each) if each.size == UNKNOWN else each for each in files]

    def _with_size(self, copied: CopiedFile) -> CopiedFile:
        self._rest()
        with opened(self._shard.disk, copied.held) as file:
            return copied._replace(size=self._shard.disk.size(file))

    # -- the end

    def _forget(self, copy: DataCopy, name: str) -> None:
        self._copies.discard(copy)
        for each in (name, f"{name}-metadata"):
            removed = self._executor.submit(self._remove, self._folder / each)
            removed.add_done_callback(_report)

    def _remove(self, folder: Path) -> None:
        for name in self._shard.disk.list_directory(folder):
            self._rest()
            with suppress(FileNotFoundError):
                self._shard.disk.remove(folder / name)
        self._shard.disk.remove_tree(folder)

    def _rest(self) -> None:
        self._calls += 1
        if self._calls >= CALLS_MAX:
            self._calls = 0
            self._shard.clock.pause(REST_SECONDS)

    def _in_thread(
        self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> asyncio.Future[Result]:
        return self._shard.loop.run_in_executor(self._executor, partial(work, *args, **kwargs))


def _log(partition: PartitionLog) -> _Log:
    segments = (*partition.leaving, *partition.segments)
    newest = segments[-1]
    is_whole = newest.damaged or newest.compressed_bytes is not None
    return _Log(partition.directory, segments, UNKNOWN if is_whole else newest.written_size)


def _report(future: Future[None]) -> None:
    if (error := future.exception()) is not None:
        log.error("files of a copy stay until the next start: %s", error)
