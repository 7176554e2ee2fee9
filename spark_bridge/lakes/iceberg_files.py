"""Iceberg's files on a disk that makes them durable: pyiceberg itself syncs nothing but its catalog."""

import io
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from routelog.log_backend import Disk

BUFFER_BYTES = 1024 * 1024  # manifests are written in pieces of some bytes


class DurableCatalog(SqlCatalog):
    """A catalog whose tables have durable files.

    Guarantees:
        A file is durable, and its name, before another file or the catalog refers to it: each is closed before.
    """

    def __init__(self, name: str, disk: Disk, **properties: str) -> None:
        self._disk = disk
        super().__init__(name, **properties)

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> PyArrowFileIO:
        return _DurableFiles({**self.properties, **properties}, self._disk)


class _DurableFiles(PyArrowFileIO):
    def __init__(self, properties: Properties, disk: Disk) -> None:
        super().__init__(properties)
        self._disk = disk

    def new_output(self, location: str) -> PyArrowFile:
        _, _, path = self.parse_location(location, self.properties)
        return _DurableFile(location, path, self._disk)


class _DurableFile(PyArrowFile):
    def __init__(self, location: str, path: str, disk: Disk) -> None:
        super().__init__(location, path, LocalFileSystem())
        self._disk = disk

    def create(self, overwrite: bool = False) -> io.BufferedWriter:
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} is there already")
        return io.BufferedWriter(_DiskStream(Path(self._path), self._disk), BUFFER_BYTES)


class _DiskStream(io.RawIOBase):
    """Writes a file from its beginning; to close it is to make it durable."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._size = 0
        disk.make_directory(path.parent)
        self._file = disk.open(path, create=True)
        disk.truncate(self._file, 0)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        written = self._disk.write(self._file, self._size, [memoryview(data)])
        self._size += written
        return written

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._disk.sync(self._file)
        finally:
            self._disk.close(self._file)
        self._disk.sync_directory(self._path.parent)
