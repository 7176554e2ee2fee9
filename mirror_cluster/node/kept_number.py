"""A number in a small file of its own: decimal digits and a line feed, replaced as a whole."""

from pathlib import Path

from routelog.log_backend import Disk

_BYTES_MAX = 32


class KeptNumber:
    """See the module. Every call blocks; one at a time."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> int | None:
        """The number; None when there is no file.

        Raises:
            ValueError: the file holds something else.
        """
        if self._path.name not in self._disk.list_directory(self._path.parent):
            return None
        file = self._disk.open(self._path)
        try:
            return int(self._disk.read(file, 0, _BYTES_MAX))
        finally:
            self._disk.close(file)

    def write(self, number: int) -> None:
        """Keep another number; durable when this returns."""
        begun = self._path.with_name(self._path.name + ".new")
        file = self._disk.open(begun, create=True)
        try:
            self._disk.truncate(file, 0)
            self._disk.write(file, 0, (b"%d\n" % number,))
            self._disk.sync(file)
        finally:
            self._disk.close(file)
        self._disk.rename(begun, self._path)
        self._disk.sync_directory(self._path.parent)
