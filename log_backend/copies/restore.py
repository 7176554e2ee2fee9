"""Makes a data directory of a backup."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from routelog.log_backend.copies.backup_target import (
    PIECE_BYTES,
    BackupDamaged,
    BackupTarget,
    Progress,
)
from routelog.log_backend.copies.manifest import BackupFile, Manifest
from routelog.log_backend.doors.disk import LOCK_FILE, Buffer, Disk, opened
from routelog.log_backend.journal.journal_block import BLOCK_ALIGNMENT
from routelog.log_backend.journal.journal_files import write_end

RESTORING = "RESTORING"  # in a data directory: what is restored there is not complete

_ZEROS = bytes(PIECE_BYTES)


class NotEmpty(Exception):
    """There is something where a data directory is to be made."""


class RestoreUnfinished(OSError):
    """A data directory is not complete: its restore was interrupted, or is under way."""


def refuse_unfinished(data: Path, disk: Disk) -> None:
    """See whether a data directory is complete.

    Raises:
        RestoreUnfinished: it is not.
    """
    if RESTORING in disk.list_directory(data):
        raise RestoreUnfinished("its restore was not finished: remove it, and restore again")


class Restore:
    """The restore of one backup; every call blocks."""

    def __init__(self, target: BackupTarget, manifest: Manifest, data: Path, disk: Disk) -> None:
        self._target = target
        self._manifest = manifest
        self._data = data
        self._disk = disk
        self._made: list[Path] = []  # files
        self._directories: dict[Path, None] = {}  # in the order in which they were made

    def run(self, progress: Progress = lambda size: None) -> None:
        """Write all files, durably; each is checked on the way.

        Raises:
            NotEmpty: there is something in the data directory; nothing was changed.
            BackupDamaged, BucketFailed, OSError: nothing is there.
        """
        if self._disk.list_directory(self._data):
            raise NotEmpty(f"{self._data} is not empty")
        try:
            self._write_all(progress)
        except BaseException:
            self._remove_all()
            raise

    def _write_all(self, progress: Progress) -> None:
        marker = self._data / RESTORING
        self._write(marker, ())
        self._write(self._data / LOCK_FILE, ())
        self._sync_directories()
        for stored in self._manifest.objects:
            for file, pieces in self._target.files(stored):
                self._write(self._path(file), _told(pieces, progress), file.padded)
        for name in ("journal", "logs"):
            self._make_directory(self._data / name)
        self._sync_directories()
        self._disk.remove(marker)
        self._disk.sync_directory(self._data)

    def _path(self, file: BackupFile) -> Path:
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts:
            raise BackupDamaged(f"{file.path} is no path below a data directory")
        return self._data / path

    def _write(self, path: Path, pieces: Iterable[Buffer], padded: int = 0) -> None:
        self._make_directory(path.parent)
        self._made.append(path)
        with opened(self._disk, path, create=True) as file:
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

    def _make_directory(self, path: Path) -> None:
        if path not in self._directories:
            if path != self._data:
                self._make_directory(path.parent)
            self._disk.make_directory(path)
            self._directories[path] = None

    def _sync_directories(self) -> None:
        for path in self._directories:
            self._disk.sync_directory(path)

    def _remove_all(self) -> None:
        for file in reversed(self._made):  # the marker last
            with suppress(OSError):
                self._disk.remove(file)
        for directory in reversed(self._directories):
            with suppress(OSError):
                self._disk.remove_tree(directory)


def _told(pieces: Iterable[Buffer], progress: Progress) -> Iterable[Buffer]:
    for piece in pieces:
        yield piece
        progress(len(piece))
