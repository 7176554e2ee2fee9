"""Writes the files of a copied data directory, from whatever source: a backup, or another node."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from routelog.log_backend.doors.disk import Buffer, Disk, opened
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_files import write_end

_ZEROS = bytes(1024 * 1024)


class NotBelow(Exception):
    """A path leads out of the data directory, or is there twice."""


class DataWriter:
    """Writes files below one directory; every call blocks."""

    def __init__(self, data: Path, disk: Disk) -> None:
        self._data = data
        self._disk = disk
        self._made: dict[Path, None] = {}  # files; both in the order in which they were made
        self._directories: dict[Path, None] = {}

    def write(self, path: str, pieces: Iterable[Buffer], padded: int = 0) -> None:
        """Write a file, and sync its content.

        Args:
            path, padded: see `CopiedFile`.

        Raises:
            NotBelow: nothing was written.
        """
        file_path = self._file_path(path)
        self._make_directory(file_path.parent)
        self._made[file_path] = None
        with opened(self._disk, file_path, create=True) as file:
            at = 0
            for piece in pieces:
                at += self._disk.write(file, at, [piece])
            if padded:
                # As the journal makes its files: they are written over, and recycled.
                while at < padded - BLOCK_ALIGNMENT:
                    zeros = _ZEROS[: padded - BLOCK_ALIGNMENT - at]
                    at += self._disk.write(file, at, [zeros])
                write_end(self._disk, file, padded)
            self._disk.sync(file)

    def complete(self) -> None:
        """All files are written: make what an empty store lacks, and everything durable."""
        for name in ("journal", "logs"):
            self._make_directory(self._data / name)
        self.sync_directories()

    def sync_directories(self) -> None:
        """Make the names of what was written durable."""
        for path in self._directories:
            self._disk.sync_directory(path)

    def remove_all(self) -> None:
        """Remove what was written, the first file last; what cannot be removed stays."""
        for file in reversed(self._made):
            with suppress(OSError):
                self._disk.remove(file)
        for directory in reversed(self._directories):
            with suppress(OSError):
                self._disk.remove_tree(directory)

    def _file_path(self, path: str) -> Path:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path:
            raise NotBelow(f"{path!r} is no path below a data directory")
        file_path = self._data / PurePosixPath(path)
        if file_path in self._made:
            raise NotBelow(f"{path} is there twice")
        return file_path

    def _make_directory(self, path: Path) -> None:
        if path not in self._directories:
            if path != self._data:
                self._make_directory(path.parent)
            self._disk.make_directory(path)
            self._directories[path] = None
