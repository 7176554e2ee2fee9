"""The journal's files: preallocated, recycled, and named so that each use of one is another file.

    journal/00000000000000000017-9f86d081884c7d65.journal
            number, 20 digits    salt, 16 hexadecimal digits, drawn anew with each use

A name is durable before anything is written under it, so the salt cannot be torn, and what a file held under
another name never parses.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from log_backend.disk import Disk, DiskFull, is_full
from log_backend.journal_block import BLOCK_ALIGNMENT, FileMark
from log_backend.randomness import random_number

_NAME = re.compile(r"([0-9]{20})-([0-9a-f]{16})\.journal")
UNFINISHED = ".new"  # suffix of a file that is not full of zeros yet


class JournalFile:
    """A preallocated file that is being filled.

    Attributes:
        at: where the next block goes.
        first: position of its first block; 0 before there is one.
    """

    __slots__ = ("at", "file", "first", "mark", "path", "size")

    def __init__(self, mark: FileMark, path: Path, file: int, size: int) -> None:
        self.mark = mark
        self.path = path
        self.file = file
        self.size = size
        self.at = 0
        self.first = 0


class JournalFiles:
    """The files of one journal; every call may block."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._recycling_failed = False

    def marks(self) -> list[FileMark]:
        """The files that are there, in the order of their numbers."""
        names = self._disk.list_directory(self._directory)
        found = (_NAME.fullmatch(name) for name in names)
        return [FileMark(int(each[1]), int(each[2], 16)) for each in found if each]

    def path(self, mark: FileMark) -> Path:
        """Where a file lies."""
        return self._directory / f"{mark.number:020d}-{mark.salt:016x}.journal"

    def read(self, mark: FileMark) -> bytearray:
        """The whole content of a file."""
        file = self._disk.open(self.path(mark))
        try:
            return self._disk.read(file, 0, self._disk.size(file))
        finally:
            self._disk.close(file)

    def erase(self, mark: FileMark, blocks: list[int]) -> None:
        """Make the blocks that begin at some places unreadable, for good."""
        file = self._disk.open(self.path(mark))
        try:
            for at in blocks:
                self._disk.write(file, at, [bytes(BLOCK_ALIGNMENT)])
            self._disk.sync(file)
        finally:
            self._disk.close(file)

    def open(self, mark: FileMark, doubtful: Sequence[tuple[int, int]] = ()) -> JournalFile:
        """Open a file that an earlier run left, and sync it.

        What recovery read may be in the system's cache only, and later blocks build on it.

        Args:
            doubtful: place and size of blocks whose sync may have failed: they are written again, as
                the cache takes them for written.
        """
        path = self.path(mark)
        file = self._disk.open(path)
        for at, size in doubtful:
            self._disk.write(file, at, [self._disk.read(file, at, size)])
        self._disk.sync(file)
        return JournalFile(mark, path, file, self._disk.size(file))

    def remove_unfinished(self) -> None:
        """Remove what an earlier run was preparing when it ended."""
        for name in self._disk.list_directory(self._directory):
            if name.endswith(UNFINISHED):
                self._disk.remove(self._directory / name)

    def new(self, number: int, size: int) -> JournalFile:
        """Make a file full of zeros.

        Raises:
            DiskFull: nothing was made.
        """
        mark = FileMark(number, random_number())
        path = self.path(mark)
        temporary = path.with_suffix(UNFINISHED)
        file = self._open_with_room(temporary, size)
        self._disk.fill_with_zeros(file, size)
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self._directory)
        return JournalFile(mark, path, file, size)

    def recycled(self, old: JournalFile, number: int) -> JournalFile:
        """Give a file whose content is not needed any more another name."""
        if self._recycling_failed:
            # An earlier file stays, so all behind it must: recovery reads on without a gap.
            raise OSError("an earlier journal file could not be recycled")
        mark = FileMark(number, random_number())
        path = self.path(mark)
        try:
            self._disk.rename(old.path, path)
            self._disk.sync_directory(self._directory)
        except OSError:
            self._recycling_failed = True
            raise
        return JournalFile(mark, path, old.file, max(old.size, old.at))

    def grow(self, file: int, size: int, wanted: int) -> None:
        """Allocate from `size`, which the file has, to `wanted`.

        Raises:
            DiskFull: the file is as it was.
        """
        try:
            self._disk.allocate(file, size, wanted - size)
        except OSError as error:
            if not is_full(error):
                raise
            self._disk.truncate(file, size)
            raise DiskFull(str(error)) from error

    def _open_with_room(self, path: Path, size: int) -> int:
        try:
            file = self._disk.open(path, create=True)
        except OSError as error:
            raise (DiskFull(str(error)) if is_full(error) else error) from None
        try:
            self.grow(file, 0, size)
        except DiskFull:
            self._disk.close(file)
            self._disk.remove(path)
            raise
        return file
