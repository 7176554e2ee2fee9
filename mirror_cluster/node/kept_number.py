"""A number in a small file of its own: decimal digits and a line feed, replaced as a whole."""

from pathlib import Path

from routelog.log_backend import Disk, read_file, replace_file


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
        return int(read_file(self._disk, self._path))

    def write(self, number: int) -> None:
        """Keep another number; durable when this returns."""
        unfinished = self._path.with_name(f"{self._path.name}.new")
        replace_file(self._disk, self._path, unfinished, b"%d\n" % number)
