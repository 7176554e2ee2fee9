"""The files of a copy under the names that they have in a data directory."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from routelog.log_backend.copies.data_copy import CopiedFile
from routelog.log_backend.doors.disk import SystemDisk

COPY = Path("copy")  # the data directory


class CopiedDisk(SystemDisk):
    """Reads files below `COPY`; nothing there may be changed.

    Args:
        files: of the copy. What they have behind their size is not seen.
    """

    def __init__(self, files: Iterable[CopiedFile]) -> None:
        self._files = {COPY / each.path: each for each in files}
        self._names: dict[Path, set[str]] = defaultdict(set)
        for path in self._files:
            for folder in path.parents:
                self._names[folder].add(path.name)
                path = folder
        self._sizes: dict[int, int] = {}  # of open files

    def list_directory(self, path: Path) -> list[str]:
        """Sorted names in a directory; empty when there is none."""
        return sorted(self._names.get(path, ()))

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; `create` makes an empty file when there is none."""
        copied = self._files.get(path)
        if copied is None:
            raise FileNotFoundError(path)
        file = super().open(copied.held)
        self._sizes[file] = copied.size
        return file

    def size(self, file: int) -> int:
        """Size in bytes."""
        return self._sizes[file]

    def read(self, file: int, position: int, size: int) -> bytearray:
        """Read up to `size` bytes; fewer only at the end of the file."""
        return super().read(file, position, max(0, min(size, self._sizes[file] - position)))
