"""A number in a small file of its own: decimal digits and a line feed, replaced as a whole."""

from pathlib import Path

from routelog.log_backend import Disk, read_file, replace_file

SHOWN_BYTES_MAX = 40  # of what is no number, in an error


class NumberUnreadable(OSError):
    """A file holds no number: it is damaged, or somebody has edited it."""


class KeptNumber:
    """See the module. Every call blocks; one at a time."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> int | None:
        """The number; None when there is no file.

        Raises:
            NumberUnreadable: the file holds something else.
        """
        if self._path.name not in self._disk.list_directory(self._path.parent):
            return None
        content = bytes(read_file(self._disk, self._path))
        try:
            return int(content)
        except ValueError:
            shown = content[:SHOWN_BYTES_MAX]
            raise NumberUnreadable(f"{self._path}: expected a number, found {shown!r}") from None

    def write(self, number: int) -> None:
        """Keep another number; durable when this returns."""
        unfinished = self._path.with_name(f"{self._path.name}.new")
        replace_file(self._disk, self._path, unfinished, b"%d\n" % number)
