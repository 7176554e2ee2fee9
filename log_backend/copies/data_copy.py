"""A copy of a store: the files of a data directory as they were at one moment, to be read at leisure.

Whoever starts a broker on these files finds what a power cut at that moment would have left. The files have
second names in a folder of their own, so it is no matter what the broker removes or compresses meanwhile. Only
what it writes over is copied there: files of the journal.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from routelog.log_backend.doors.disk import Disk, SystemDisk, opened
from routelog.log_backend.journal.journal_chain import START


class CopyFailed(Exception):
    """There is no copy, or it is there no more; the text says why."""


class CopiedFile(NamedTuple):
    """One file of a copy.

    Attributes:
        path: below the data directory, with slashes.
        size: bytes that belong to the copy; there may be more.
        held: where they are.
        is_sealed: of a segment that is not written any more: later copies have the same.
        padded: of a file of the journal, its size with the zeros and the end mark that follow; else 0.
    """

    path: str
    size: int
    held: Path
    is_sealed: bool = False
    padded: int = 0


class DataCopy:
    """The files of a copy; `end` lets go of them.

    Attributes:
        taken: resolves when the copy is complete; raises `CopyFailed`.
        last: the last block of the journal in it: all up to there is in the copy.
        files: all of them.
        failure: why it ended before its owner wanted; empty: it has not.
        on_end: called once when it ends behind `taken`.
    """

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        self.taken: asyncio.Future[None] = loop.create_future()
        self.last = START
        self.files: list[CopiedFile] = []
        self.failure = ""
        self.on_end: Callable[[], None] = lambda: None
        self._disk = disk

    @property
    def position(self) -> int:
        """Journal position of its last block."""
        return self.last.position

    def end(self) -> None:
        """Let go of the files: on the event loop, as often as one likes."""
        self.fail("the copy was ended")

    def fail(self, reason: str) -> None:
        """Let go of the files, although somebody may read them; on the event loop."""
        if self.failure:
            return
        self.failure = reason
        if self.taken.done():
            self.on_end()
        else:
            self.taken.set_exception(CopyFailed(reason))
            self.taken.exception()  # who waits hears of it; nobody need

    def check(self) -> None:
        """See whether it is still there.

        Raises:
            CopyFailed: it is not.
        """
        if self.failure:
            raise CopyFailed(self.failure)

    def read(self, file: CopiedFile, at: int, size: int) -> bytearray:
        """Read a range of a file, cut off at its end; this blocks.

        Raises:
            CopyFailed: the copy has ended, or the disk does not give the bytes.
        """
        wanted = max(0, min(size, file.size - at))
        try:
            with opened(self._disk, file.held) as held:
                content = self._disk.read(held, at, wanted)
        except OSError as error:
            raise CopyFailed(self.failure or f"{file.path} cannot be read: {error}") from None
        if len(content) < wanted:
            raise CopyFailed(f"{file.path} has {at + len(content)} bytes, not {file.size}")
        return content


COPY = Path("copy")  # the data directory


class CopiedDisk(SystemDisk):
    """Reads files below `COPY`; nothing there may be changed.

    Args:
        files: of the copy. What they have behind their size is not seen.
    """

    def __init__(self, files: Iterable[CopiedFile]) -> None:
        self._files = {COPY / each.path: each for each in files}
        self._names: dict[Path, set[str]] = defaultdict(set)
        for path in self._files:
            for folder in path.parents:
                self._names[folder].add(path.name)
                path = folder
        self._sizes: dict[int, int] = {}  # of open files

    def list_directory(self, path: Path) -> list[str]:
        """Sorted names in a directory; empty when there is none."""
        return sorted(self._names.get(path, ()))

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; `create` makes an empty file when there is none."""
        copied = self._files.get(path)
        if copied is None:
            raise FileNotFoundError(path)
        file = super().open(copied.held)
        self._sizes[file] = copied.size
        return file

    def size(self, file: int) -> int:
        """Size in bytes."""
        return self._sizes[file]

    def read(self, file: int, position: int, size: int) -> bytearray:
        """Read up to `size` bytes; fewer only at the end of the file."""
        return super().read(file, position, max(0, min(size, self._sizes[file] - position)))
