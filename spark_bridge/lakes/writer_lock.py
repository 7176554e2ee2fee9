"""Who is writing a transaction into a table: one of those that export under one name, and no other."""

from pathlib import Path

from routelog.log_backend import DirectoryLocked, Disk
from routelog.spark_bridge.lakes.lake_table import TableUnusable


class WriterLock:
    """Held while files lie in a table that no commit names yet, and while what a crash left is removed.

    It ends with the process.

    Args:
        path: of a file, made when it is not there, that stays.
        disk: has the folder of that file.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._file: int | None = None

    def take(self, exporter: str) -> None:
        """Hold it from now on, if it is not held yet.

        Raises:
            TableUnusable: somebody else holds it.
        """
        if self._file is not None:
            return
        try:
            self._file = self._disk.lock(self._path)
        except DirectoryLocked:
            raise TableUnusable(
                f"{self._path.parent}: somebody else exports as '{exporter}' at this moment"
            ) from None

    def release(self) -> None:
        """Let it go, if it is held."""
        if self._file is not None:
            self._disk.close(self._file)
            self._file = None
