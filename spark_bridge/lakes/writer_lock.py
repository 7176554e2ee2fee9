"""The lock of a table: only one process exports under one name at a time."""

from pathlib import Path

from routelog.log_backend import DirectoryLocked, Disk
from routelog.spark_bridge.lakes.lake_table import TableUnusable


class WriterLock:
    """Held while a table has uncommitted files, and while files left by a crash are removed.

    A `with` block takes it, if it is not held already, and releases it. It ends with the process.

    Args:
        path: of a file that stays; it and its folder are made when they are not there.
        exporter: the name under which the process exports.
        disk: has that file.
    """

    def __init__(self, path: Path, exporter: str, disk: Disk) -> None:
        self._path = path
        self._exporter = exporter
        self._disk = disk
        self._file: int | None = None

    def take(self) -> None:
        """Take the lock, if it is not held already.

        Raises:
            TableUnusable: another process holds it.
        """
        if self._file is not None:
            return
        self._disk.make_directory(self._path.parent)
        try:
            self._file = self._disk.lock(self._path)
        except DirectoryLocked:
            raise TableUnusable(
                f"{self._path.parent}: somebody else exports as '{self._exporter}' at this moment"
            ) from None

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._disk.close(self._file)
            self._file = None
