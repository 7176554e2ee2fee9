"""The journal's files: preallocated, recycled, and named so that each use of one is another file.

    journal/00000000000000000017-9f86d081884c7d65.journal
            number, 20 digits    salt, 16 hexadecimal digits, drawn anew with each use

A name is durable before anything is written under it, so the salt cannot be torn, and what a file held under
another name never parses::

    page by page   blocks (journal_block.py), then zeros or what the file held before it was recycled
    last page      0 magic b"RLJE" | 4 crc u32, CRC-32C of [8:16] | 8 size of the file u64 | zeros

A torn write never shortens a file, so one without the mark in its last page is damaged. A file that grows for
a large block gets the mark of its new size, synced, before the block is written over the old one; when it is
recycled, it is as small as the others again.
"""

import logging
import re
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

from routelog.log_backend.doors.disk import Disk, DiskFull, is_full, opened, read_file
from routelog.log_backend.doors.randomness import random_number
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT, FileMark, aligned
from routelog.log_backend.journal.journal_chain import START
from routelog.log_backend.records.record_batch import crc32c

log = logging.getLogger(__name__)

END_MAGIC = b"RLJE"
END_BYTES = 16

SUFFIX = ".journal"
UNFINISHED = ".new"  # suffix of a file that is not full of zeros yet
REPAIRED = ".repaired"  # suffix of what a repair wrote before it was interrupted

_NAME = re.compile(r"([0-9]{20})-([0-9a-f]{16})\.journal")
_SIZE = struct.Struct("<Q")


class JournalFile:
    """A preallocated file that is being filled.

    Attributes:
        at: where the next block goes.
        places: where its blocks begin.
        size: where its last page begins.
        first: position of its first block; 0 before there is one.
        end: its last block; where it has none, the last one before it.
    """

    __slots__ = ("at", "end", "file", "first", "mark", "path", "places", "size")

    def __init__(self, mark: FileMark, path: Path, file: int, size: int) -> None:
        self.mark = mark
        self.path = path
        self.file = file
        self.size = size
        self.at = self.first = 0
        self.places = array("Q")
        self.end = START


class JournalFiles:
    """The files of one journal; every call may block."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._not_recycled: OSError | None = None  # why an earlier file is still there

    def marks(self) -> list[FileMark]:
        """The files that are there, in the order of their numbers."""
        names = self._disk.list_directory(self._directory)
        found = (_NAME.fullmatch(name) for name in names)
        return [FileMark(int(each[1]), int(each[2], 16)) for each in found if each]

    def half_repaired(self) -> list[Path]:
        """What a repair wrote before it was interrupted."""
        names = self._disk.list_directory(self._directory)
        return [self._directory / name for name in names if name.endswith(REPAIRED)]

    def path(self, mark: FileMark) -> Path:
        """Where a file lies."""
        return self._directory / f"{mark.number:020d}-{mark.salt:016x}.journal"

    def any_path(self, number: int) -> Path:
        """The path of the file of a number, whatever salt it had."""
        return self._directory / f"{number:020d}-*{SUFFIX}"

    def read(self, mark: FileMark) -> bytearray:
        """The whole content of a file."""
        return read_file(self._disk, self.path(mark))

    def read_begin(self, mark: FileMark, size: int) -> bytearray:
        """The first bytes of a file."""
        with opened(self._disk, self.path(mark)) as file:
            return self._disk.read(file, 0, size)

    def erase(self, mark: FileMark, blocks: list[int]) -> None:
        """Make the blocks that begin at some places unreadable, for good."""
        with opened(self._disk, self.path(mark)) as file:
            for at in blocks:
                self._disk.write(file, at, [bytes(BLOCK_ALIGNMENT)])
            self._disk.sync(file)

    def open(
        self, mark: FileMark, last_page: int, doubtful: Sequence[tuple[int, int]] = ()
    ) -> JournalFile:
        """Open a file that an earlier run left, and sync it.

        What recovery read may be in the system's cache only, and later blocks build on it.

        Args:
            last_page: where it begins; what a crash left behind it is cut off.
            doubtful: place and size of blocks whose sync may have failed: they are written again, as
                the cache takes them for written.
        """
        path = self.path(mark)
        file = self._disk.open(path)
        if self._disk.size(file) != last_page + BLOCK_ALIGNMENT:
            self._disk.truncate(file, last_page + BLOCK_ALIGNMENT)
        for at, size in doubtful:
            self._disk.write(file, at, [self._disk.read(file, at, size)])
        self._disk.sync(file)
        return JournalFile(mark, path, file, last_page)

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
        write_end(self._disk, file, size)
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self._directory)
        return JournalFile(mark, path, file, size - BLOCK_ALIGNMENT)

    def recycled(self, number: int, old: JournalFile, size: int) -> JournalFile:
        """Give a file whose content is not needed any more another name.

        Args:
            size: it is cut to this when it has grown for a large block.
        """
        if self._not_recycled is not None:
            # An earlier file stays, so all behind it must: recovery reads on without a gap.
            reason = f"an earlier journal file could not be recycled: {self._not_recycled}"
            raise OSError(reason) from self._not_recycled
        mark = FileMark(number, random_number())
        path = self.path(mark)
        try:
            self._disk.rename(old.path, path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            self._not_recycled = error
            raise
        file = JournalFile(mark, path, old.file, old.size)
        if file.size + BLOCK_ALIGNMENT > size:
            self._cut(file, size)
        return file

    def remove(self, old: JournalFile) -> None:
        """Remove a file whose content is not needed any more; if that fails, no later one is recycled."""
        try:
            self._disk.close(old.file)
        except OSError as error:  # it goes nevertheless: one that stayed would need all behind it
            log.error("%s could not be closed: %s", old.path, error)
        if self._not_recycled is not None:
            return
        try:
            self._disk.remove(old.path)
            # It must not come back when a later one has gone
            self._disk.sync_directory(self._directory)
        except OSError as error:
            self._not_recycled = error
            log.error("%s could not be removed: %s", old.path, error)

    def _cut(self, file: JournalFile, size: int) -> None:
        # Under its new name, where nothing parses: the end is marked within the file before the rest goes. A
        # crash between leaves two marks, and the last one counts.
        try:
            write_end(self._disk, file.file, size)
        except OSError as error:
            if not is_full(error):
                raise
            return  # of a file system that writes nothing in place
        self._disk.truncate(file.file, size)
        file.size = size - BLOCK_ALIGNMENT

    def grow(self, file: JournalFile, wanted: int) -> None:
        """Make room for a block that ends at a place, and mark the new end.

        Raises:
            DiskFull: the file is as it was.
        """
        size = aligned(wanted) + BLOCK_ALIGNMENT
        self._allocate(file.file, file.size + BLOCK_ALIGNMENT, size)
        write_end(self._disk, file.file, size)
        file.size = size - BLOCK_ALIGNMENT

    def _allocate(self, file: int, size: int, wanted: int) -> None:
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
            self._allocate(file, 0, size)
        except DiskFull:
            self._disk.close(file)
            self._disk.remove(path)
            raise
        return file


def encode_end(size: int) -> bytes:
    """The last page of a file of a size."""
    body = _SIZE.pack(size)
    mark = END_MAGIC + struct.pack("<I", crc32c(body)) + body
    return mark + bytes(BLOCK_ALIGNMENT - len(mark))


def write_end(disk: Disk, file: int, size: int) -> None:
    """Mark the last page of a file that has a size, and sync it."""
    disk.write(file, size - BLOCK_ALIGNMENT, [encode_end(size)])
    disk.sync(file)


def find_end(content: bytes | bytearray | memoryview) -> int | None:
    """Where a file's last page begins: at its mark, behind which a crash may have left more."""
    last = len(content) - len(content) % BLOCK_ALIGNMENT - BLOCK_ALIGNMENT
    for at in range(last, -1, -BLOCK_ALIGNMENT):
        mark = bytes(content[at : at + END_BYTES])
        if mark[:4] != END_MAGIC or crc32c(mark[8:]) != int.from_bytes(mark[4:8], "little"):
            continue
        if _SIZE.unpack_from(mark, 8)[0] == at + BLOCK_ALIGNMENT:
            return at
    return None
