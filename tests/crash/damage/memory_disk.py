"""Files in memory, to be damaged and read back many thousand times a second."""

from __future__ import annotations

from pathlib import Path

from routelog.log_backend.doors.disk import SystemDisk


class MemoryDisk(SystemDisk):
    """A disk that is only read, but for what recovery cuts off; files are not below any directory.

    Attributes:
        files: their content, which the test may change.
    """

    def __init__(self, paths: list[Path]) -> None:
        self.files = {path: bytearray(path.read_bytes()) for path in paths}
        self._open: dict[int, Path] = {}

    def list_directory(self, path: Path) -> list[str]:
        """See `Disk`."""
        return sorted(each.name for each in self.files if each.parent == path)

    def open(self, path: Path, *, create: bool = False) -> int:
        """See `Disk`."""
        if path not in self.files:
            raise FileNotFoundError(path)
        file = len(self._open) + 1
        self._open[file] = path
        return file

    def close(self, file: int) -> None:
        """See `Disk`."""
        del self._open[file]

    def size(self, file: int) -> int:
        """See `Disk`."""
        return len(self.files[self._open[file]])

    def read(self, file: int, position: int, size: int) -> bytearray:
        """See `Disk`."""
        return self.files[self._open[file]][position : position + size]

    def truncate(self, file: int, size: int) -> None:
        """See `Disk`."""
        del self.files[self._open[file]][size:]

    def sync(self, file: int) -> None:
        """See `Disk`."""
