"""A copy of another node's store, which takes the place of what a data directory holds.

    data/copy.new/...        a copy that arrives, file by file
    data/copied/...          one that is whole: the next start takes it
    data/copied/replaced/    what it takes the place of, meanwhile
    data/aside/<number>/...  what the last copy has taken the place of: kept until the next one

A store without a block and a segment is not kept aside: a node that gave up its data began it, to take a copy.

A running store cannot change its data under itself, so it ends when a copy is whole and starts again. What else
lies in the directory stays: it is the same directory of the same node.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from routelog.log_backend.copies.data_writer import DataWriter
from routelog.log_backend.doors.disk import Buffer, Disk
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_files import JournalFiles

log = logging.getLogger(__name__)

NEW, COPIED, ASIDE = "copy.new", "copied", "aside"

_REPLACED = "replaced"
_PARTS = ("metadata", "journal", "logs")


class ArrivingCopy:
    """One copy that is written beside the data; every call blocks.

    Attributes:
        path: its directory, until `keep`.
    """

    def __init__(self, data: Path, disk: Disk) -> None:
        self.path = data / NEW
        self._data = data
        self._disk = disk
        self._writer = DataWriter(self.path, disk)

    def begin(self) -> None:
        """Remove what an earlier one left."""
        _remove_folder(self._disk, self.path)

    def write(self, path: str, pieces: Iterable[Buffer], padded: int = 0) -> None:
        """Write a file, and sync its content."""
        self._writer.write(path, pieces, padded)

    def complete(self) -> None:
        """All files are written: make it durable."""
        self._writer.complete()

    def complete_empty(self) -> None:
        """There is nothing in it: the next start begins as that of a new node."""
        self.begin()
        self._disk.make_directory(self.path / "metadata")
        self.complete()

    def keep(self) -> None:
        """The next start takes it, which is durable: from here on nothing may be added to the data."""
        _move(self._disk, self.path, self._data / COPIED)

    def abandon(self) -> None:
        """Remove it; what cannot be removed is removed at the next start."""
        with suppress(OSError):
            _remove_folder(self._disk, self.path)


def has_copy(data: Path, disk: Disk) -> bool:
    """Whether a whole copy waits in a data directory for the start that takes it."""
    return COPIED in disk.list_directory(data)


def take_copied(data: Path, disk: Disk) -> bool:
    """Put a whole copy in the place of the data, before anything of them is opened; call at each start.

    What it takes the place of is kept aside. A crash at any moment is no matter: the next call goes on.

    Returns:
        Whether there was one.
    """
    _remove_folder(disk, data / NEW)
    copied, aside = data / COPIED, data / ASIDE
    if COPIED not in disk.list_directory(data):
        return False
    replaced = copied / _REPLACED
    # A part that is still in `copied` has not been taken; what is in its place then is the old one. Each move
    # is durable before the next one begins.
    for part in _PARTS:
        if part in disk.list_directory(copied):
            if part in disk.list_directory(data):
                disk.make_directory(replaced)
                _move(disk, data / part, replaced / part)
            _move(disk, copied / part, data / part)
    if _has_data(replaced, disk):
        place = aside / str(1 + max(_numbers(disk, aside), default=0))
        disk.make_directory(aside)
        _move(disk, replaced, place)
        log.warning("other data take the place of those that were here, which are in %s", place)
    for number in sorted(_numbers(disk, aside))[:-1]:
        _remove_folder(disk, aside / str(number))
    _remove_folder(disk, copied)
    disk.sync_directory(data)
    return True


def _has_data(folder: Path, disk: Disk) -> bool:
    """Whether a store has a segment, or anything where a journal file begins: perhaps a damaged block."""
    if disk.list_directory(folder / "logs"):
        return True
    files = JournalFiles(folder / "journal", disk)
    try:
        return any(files.read_begin(mark, BLOCK_ALIGNMENT).strip(b"\0") for mark in files.marks())
    except OSError:  # something is where the disk fails
        return True


def _numbers(disk: Disk, aside: Path) -> list[int]:
    return [int(name) for name in disk.list_directory(aside) if name.isdecimal()]


def _move(disk: Disk, source: Path, target: Path) -> None:
    disk.rename(source, target)
    for directory in {target.parent: None, source.parent: None}:
        disk.sync_directory(directory)


def _remove_folder(disk: Disk, path: Path) -> None:
    for name in disk.list_directory(path):
        try:
            disk.remove(path / name)
        except IsADirectoryError:
            _remove_folder(disk, path / name)
    disk.remove_tree(path)
