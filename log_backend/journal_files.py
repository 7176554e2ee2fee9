"""The files of the journal: preallocated, filled with zeros, and used again under a new number."""

from pathlib import Path

from log_backend.disk import Disk, DiskFull, is_full

_SUFFIX = ".journal"
_UNFINISHED = ".new"


class JournalFile:
    """A preallocated file; `at` is where the next block goes."""

    __slots__ = ("at", "file", "number", "path", "size")

    def __init__(self, number: int, path: Path, file: int, size: int) -> None:
        self.number = number
        self.path = path
        self.file = file
        self.size = size
        self.at = 0


class JournalFiles:
    """The files of one journal; every call may block."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk

    def path(self, number: int) -> Path:
        """Where the file with a number lies."""
        return self._directory / f"{number:020d}{_SUFFIX}"

    def numbers(self) -> list[int]:
        """The numbers of all files, in order."""
        names = self._disk.list_directory(self._directory)
        return [int(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX)]

    def read(self, number: int) -> bytearray:
        """The whole content of a file."""
        file = self._disk.open(self.path(number))
        try:
            return self._disk.read(file, 0, self._disk.size(file))
        finally:
            self._disk.close(file)

    def open(self, number: int) -> JournalFile:
        """A file of an earlier run, made durable: what was read of it may be in a cache only."""
        path = self.path(number)
        file = self._disk.open(path)
        self._disk.sync(file)
        return JournalFile(number, path, file, self._disk.size(file))

    def remove_unfinished(self) -> None:
        """Remove what an earlier run has begun to make."""
        for name in self._disk.list_directory(self._directory):
            if name.endswith(_UNFINISHED):
                self._disk.remove(self._directory / name)

    def new(self, number: int, size: int) -> JournalFile:
        """A new file.

        Raises:
            DiskFull: nothing was made.
        """
        path = self.path(number)
        temporary = path.with_suffix(_UNFINISHED)
        file = self._open_with_room(temporary, size)
        self._disk.fill_with_zeros(file, size)
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self._directory)
        return JournalFile(number, path, file, size)

    def recycled(self, old: JournalFile, number: int) -> JournalFile:
        """The same file under another number, which its old blocks do not carry."""
        path = self.path(number)
        self._disk.rename(old.path, path)
        self._disk.sync_directory(self._directory)
        return JournalFile(number, path, old.file, max(old.size, old.at))

    def grow(self, file: int, size: int, wanted: int) -> None:
        """Allocate from `size`, which the file has, to `wanted`.

        Raises:
            DiskFull: the file is as it was.
        """
        try:
            self._disk.allocate(file, size, wanted - size)
        except OSError as error:
            if not is_full(error):
                raise
            self._disk.truncate(file, size)
            raise DiskFull(str(error)) from error

    def _open_with_room(self, path: Path, size: int) -> int:
        try:
            file = self._disk.open(path, create=True)
        except OSError as error:
            raise (DiskFull(str(error)) if is_full(error) else error) from None
        try:
            self.grow(file, 0, size)
        except DiskFull:
            self._disk.close(file)
            self._disk.remove(path)
            raise
        return file
