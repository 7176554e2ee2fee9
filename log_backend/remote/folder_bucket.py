"""A bucket that is a folder, of this host or of storage that is shared: objects are files."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from routelog.log_backend.doors.disk import Buffer, Disk
from routelog.log_backend.remote.bucket import BucketFailed, NoObject

_SCRATCH = ".part"  # behind the name of an object that is being written


class FolderObject:
    """See `StoredObject`."""

    def __init__(self, disk: Disk, file: int) -> None:
        self._disk = disk
        self._file = file
        self.size = disk.size(file)

    def close(self) -> None:
        """See `StoredObject`."""
        self._disk.close(self._file)

    def read(self, position: int, size: int) -> bytearray:
        """See `StoredObject`."""
        try:
            return self._disk.read(self._file, position, size)
        except OSError as error:
            raise BucketFailed(str(error)) from error


class FolderBucket:
    """See `Bucket`. An object has its name when it is whole and synced.

    Until then its file has another one, which a crash may leave: it is listed, as an object of no use.
    """

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root

    def folders(self, folder: str) -> list[str]:
        """See `Bucket`."""
        path = self._root / folder
        try:
            return [name for name in self._disk.list_directory(path) if (path / name).is_dir()]
        except OSError as error:
            raise BucketFailed(str(error)) from error

    def objects(self, folder: str) -> Mapping[str, int]:
        """See `Bucket`."""
        found = {}
        path = self._root / folder
        try:
            for name in self._disk.list_directory(path):
                with suppress(FileNotFoundError):
                    if (path / name).is_file():
                        found[name] = (path / name).stat().st_size
        except OSError as error:
            raise BucketFailed(str(error)) from error
        return found

    def write(self, name: str, pieces: Iterable[Buffer], size: int) -> None:
        """See `Bucket`."""
        path = self._root / name
        scratch = path.with_name(path.name + _SCRATCH)
        try:
            self._disk.make_directory(path.parent)
            try:
                self._write_scratch(scratch, pieces, size)
                self._disk.rename(scratch, path)
            except BaseException:
                with suppress(OSError):
                    self._disk.remove(scratch)
                raise
            self._disk.sync_directory(path.parent)
        except OSError as error:
            raise BucketFailed(str(error)) from error

    def _write_scratch(self, scratch: Path, pieces: Iterable[Buffer], size: int) -> None:
        file = self._disk.open(scratch, create=True)
        try:
            self._disk.truncate(file, 0)
            self._disk.allocate(file, 0, size)
            position = 0
            for piece in pieces:
                position += self._disk.write(file, position, [piece])
            if position != size:
                raise BucketFailed(f"{scratch}: {position} bytes came, not {size}")
            self._disk.sync(file)
        finally:
            self._disk.close(file)

    def open(self, name: str) -> FolderObject:
        """See `Bucket`."""
        try:
            return FolderObject(self._disk, self._disk.open(self._root / name))
        except FileNotFoundError:
            raise NoObject(name) from None
        except OSError as error:
            raise BucketFailed(str(error)) from error

    def remove(self, name: str) -> None:
        """See `Bucket`."""
        try:
            with suppress(FileNotFoundError):
                self._disk.remove(self._root / name)
        except OSError as error:
            raise BucketFailed(str(error)) from error

    def remove_folder(self, folder: str) -> None:
        """See `Bucket`."""
        try:
            with suppress(FileNotFoundError):
                self._disk.remove_tree(self._root / folder)
        except OSError as error:
            raise BucketFailed(str(error)) from error
