"""Makes a data directory of a backup."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from routelog.log_backend.copies.backup_target import (
    BACKUPS,
    MANIFEST,
    BackupDamaged,
    BackupTarget,
    Progress,
)
from routelog.log_backend.copies.data_writer import DataWriter, NotBelow
from routelog.log_backend.copies.manifest import Manifest
from routelog.log_backend.doors.disk import LOCK_FILE, Buffer, Disk

RESTORING = "RESTORING"  # in a data directory: what is restored there is not complete


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


class OnlyBackups(OSError):
    """A directory has backups, and no data of a broker."""


def refuse_backups(data: Path, disk: Disk) -> None:
    """See that what is to be a data directory is not the folder that backups are kept in.

    Raises:
        OnlyBackups: it is.
    """
    if "journal" in disk.list_directory(data):  # a broker has started there
        return
    with suppress(NotADirectoryError):  # a file of the operator's
        backups = data / BACKUPS
        if any(
            MANIFEST in disk.list_directory(backups / name) for name in disk.list_directory(backups)
        ):
            raise OnlyBackups("it has backups: 'routelog restore' makes a data directory of one")


class Restore:
    """The restore of one backup; every call blocks."""

    def __init__(self, target: BackupTarget, manifest: Manifest, data: Path, disk: Disk) -> None:
        self._target = target
        self._manifest = manifest
        self._data = data
        self._disk = disk
        self._writer = DataWriter(data, disk)

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
        except NotBelow as error:
            self._writer.remove_all()
            raise BackupDamaged(str(error)) from None
        except BaseException:
            self._writer.remove_all()
            raise

    def _write_all(self, progress: Progress) -> None:
        writer = self._writer
        writer.write(RESTORING, ())  # the first, so it is removed last
        writer.write(LOCK_FILE, ())
        writer.sync_directories()
        for stored in self._manifest.objects:
            for file, pieces in self._target.files(stored):
                writer.write(file.path, _told(pieces, progress), file.padded)
        writer.complete()
        self._disk.remove(self._data / RESTORING)
        self._disk.sync_directory(self._data)


def _told(pieces: Iterable[Buffer], progress: Progress) -> Iterable[Buffer]:
    for piece in pieces:
        yield piece
        progress(len(piece))
