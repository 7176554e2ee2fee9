"""A bucket that is a folder, on a local disk or on a network file system: objects are files."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from routelog.log_backend.doors.disk import Buffer, Disk, opened
from routelog.log_backend.remote.bucket import BucketFailed, NoObject

_SCRATCH = ".part"  # suffix of an object that is being written


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn errors of the disk into those of a bucket."""
    try:
        yield
    except OSError as error:
        raise BucketFailed(str(error)) from error


class FolderObject:
    """Reads an object that is a file."""

    def __init__(self, disk: Disk, file: int) -> None:
        self._disk = disk
        self._file = file
        self.size = disk.size(file)

    def close(self) -> None:
        """Close it."""
        self._disk.close(self._file)

    @_disk_errors()
    def read(self, position: int, size: int) -> bytearray:
        """Up to `size` bytes; fewer only at the end."""
        return self._disk.read(self._file, position, size)


class FolderBucket:
    """Keeps objects as files below a folder.

    A file gets the object's name when it is complete and synced. Until then it has a scratch name. A crash may
    leave such a file: it is listed, and the caller ignores it.
    """

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root

    @_disk_errors()
    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted; empty if there is no such folder."""
        path = self._root / folder
        return [name for name in self._disk.list_directory(path) if (path / name).is_dir()]

    @_disk_errors()
    def objects(self, folder: str) -> Mapping[str, int]:
        """Names of the objects directly in a folder, and their sizes."""
        found = {}
        path = self._root / folder
        for name in self._disk.list_directory(path):
            with suppress(FileNotFoundError):
                if (path / name).is_file():
                    found[name] = (path / name).stat().st_size
        return found

    @_disk_errors()
    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """Create or replace an object; it is complete and durable when this returns."""
        path = self._root / name
        scratch = path.with_name(path.name + _SCRATCH)
        self._disk.make_directory(path.parent)
        try:
            self._write_scratch(scratch, pieces, size)
            self._disk.rename(scratch, path)
        except BaseException:
            with suppress(OSError):
                self._disk.remove(scratch)
            raise
        self._disk.sync_directory(path.parent)

    def _write_scratch(self, scratch: Path, pieces: Iterable[Buffer], size: int) -> None:
        with opened(self._disk, scratch, create=True) as file:
            self._disk.truncate(file, 0)
            self._disk.allocate(file, 0, size)
            position = 0
            for piece in pieces:
                position += self._disk.write(file, position, [piece])
            if position != size:
                raise BucketFailed(f"{scratch}: {position} bytes came, not {size}")
            self._disk.sync(file)

    def open(self, name: str) -> FolderObject:
        """Open an object for reading."""
        try:
            return FolderObject(self._disk, self._disk.open(self._root / name))
        except FileNotFoundError:
            raise NoObject(name) from None
        except OSError as error:
            raise BucketFailed(str(error)) from error

    @_disk_errors()
    def remove(self, name: str) -> None:
        """Delete an object; one that is not there is no error."""
        with suppress(FileNotFoundError):
            self._disk.remove(self._root / name)

    @_disk_errors()
    def remove_folder(self, folder: str) -> None:
        """Delete a folder and the objects in it; there are no folders in it."""
        with suppress(FileNotFoundError):
            self._disk.remove_tree(self._root / folder)
