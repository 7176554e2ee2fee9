"""The journal's supply of files: one is made ahead, and those that a checkpoint gives back come again."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull
from routelog.log_backend.journal.journal_extent import JournalExtent
from routelog.log_backend.journal.journal_files import JournalFile, JournalFiles
from routelog.log_backend.journal.journal_reader import JournalReader

log = logging.getLogger(__name__)

FILES_MIN = 2  # one is written while one is checkpointed: so many are made also when space is low


class JournalSupply:
    """Makes, recycles and numbers the files of one journal, in an executor.

    Attributes:
        files: as they lie in the directory.
        file_bytes: size of a file.
        ready: files to write next, in order.
        making: files that are being made or recycled.
        frugal: space is low: more than FILES_MIN files are not made.
        held: files that are complete and wait for nothing but that a deletion is durable, or that they are
            copied, or committed. They do not count: when no other has room, the deletion needs another one, and
            so does the block that a new leader begins with.
        on_ready, on_refused, on_failed: set by the owner; called when a file is ready, when there was no
            room for another one, and when the disk has failed.

    Args:
        extent: told of each file before something is written there; None: nobody misses one.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        *,
        file_bytes: int,
        files_max: int,
        extent: JournalExtent | None = None,
    ) -> None:
        self.files = JournalFiles(directory, disk)
        self.file_bytes = file_bytes
        self.ready: deque[JournalFile] = deque()
        self.making: set[asyncio.Future[JournalFile]] = set()
        self.frugal = False
        self.held = 0
        self.on_ready: Callable[[], None] = lambda: None
        self.on_refused: Callable[[DiskFull], None] = lambda error: None
        self.on_failed: Callable[[Exception], None] = lambda error: None
        self._disk = disk
        self._loop = loop
        self._executor = executor
        self._files_max = files_max
        self._extent = extent
        self._count = 0
        self._next_number = 0  # behind the start only touched in the executor
        # The one of `making` that is no recycled one
        self._new: asyncio.Future[JournalFile] | None = None

    def reader(self) -> JournalReader:
        """Reads what earlier runs left."""
        return JournalReader(self.files, self._extent)

    def adopt(self, reader: JournalReader) -> list[JournalFile]:
        """Open and sync the files that an earlier run left and the reader has read."""
        for mark, blocks in reader.behind.items():
            path = self.files.path(mark)
            log.warning("%s: dropped %d commits behind lost ones, none synced", path, len(blocks))
            self.files.erase(mark, blocks)
        adopted: list[JournalFile] = []
        for mark in self.files.marks():
            doubtful = reader.doubtful.get(mark, [])
            file = self.files.open(mark, reader.last_pages[mark], doubtful)
            file.at, file.places = reader.filled[mark], reader.places[mark]
            file.end = reader.ends[mark]
            file.first = file.end.position + 1 - len(file.places) if file.places else 0
            adopted.append(file)
        self._next_number = adopted[-1].mark.number if adopted else 0
        self._count = len(adopted)
        return adopted

    def reused(self, adopted: Sequence[JournalFile]) -> Sequence[JournalFile]:
        """Write next those that were made ahead: what has no blocks, and none behind it.

        Returns:
            The others.
        """
        count = len(adopted)
        while count and not adopted[count - 1].places:
            count -= 1
        for old in adopted[count:]:
            # Under another name: what a crash may have left in it is no block then.
            self.ready.append(self.files.recycled(old.mark.number, old, self.file_bytes))
            self._name(self.ready[-1])  # that run may not have come to it
        return adopted[:count]

    def start(self) -> None:
        """Make the first file, if none is ready; those of earlier runs are adopted."""
        self.files.remove_unfinished()
        if self._extent is not None:
            self._next_number = max(self._next_number, self._extent.last)
        self._next_number += 1
        self.prepare()

    def prepare(self) -> None:
        """Make one file ahead: it takes as long to fill with zeros as to fill with entries."""
        if not self.ready and self._new is None and self._count < self._limit():
            self._count += 1
            self._new = self._in_executor(self.files.new, self.file_bytes)

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """There may be twice as many files meanwhile, and one more than there are: for what is waited for."""
        spare = max(self._files_max, self._count + 1 - self._limit())
        self.held += spare
        self.prepare()
        try:
            yield
        finally:
            self.held -= spare

    def recycle(self, file: JournalFile) -> None:
        """Take back a complete file whose content is durable elsewhere; one too many is removed."""
        if self._count <= self._limit():
            self._in_executor(self.files.recycled, file, self.file_bytes)
        else:
            self._count -= 1
            self._executor.submit(self.files.remove, file)

    @property
    def makes_more(self) -> bool:
        """Another file is being made, or may be."""
        return self._new is not None or self._count < self._files_max

    async def aclose(self) -> None:
        """Wait until nothing is renamed any more, and close the files that are ready."""
        while self.making:
            await asyncio.wait(self.making)
        for file in self.ready:
            self._disk.close(file.file)

    def _limit(self) -> int:
        return self.held + (FILES_MIN if self.frugal else self._files_max)

    def _in_executor(
        self, make: Callable[..., JournalFile], *arguments: object
    ) -> asyncio.Future[JournalFile]:
        future = self._loop.run_in_executor(self._executor, self._next_file, make, *arguments)
        self.making.add(future)
        future.add_done_callback(self._made)
        return future

    def _next_file(self, make: Callable[..., JournalFile], *arguments: object) -> JournalFile:
        # One after the other, and what is refused takes no number: there are no gaps.
        file = make(self._next_number, *arguments)
        self._next_number += 1
        self._name(file)
        return file

    def _name(self, file: JournalFile) -> None:
        if self._extent is not None:
            self._extent.named(file.mark.number)

    def _made(self, future: asyncio.Future[JournalFile]) -> None:
        if future is self._new:
            self._new = None
        self.making.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, DiskFull):
            self._count -= 1
            self.on_refused(error)
        elif isinstance(error, Exception):
            self.on_failed(error)
        elif error is None:
            self.ready.append(future.result())
            self.on_ready()
