"""A replica's promise in the file `promise` of its data directory: a JSON object, replaced as a whole."""

from pathlib import Path

import msgspec

from routelog.log_backend import Disk, read_file, replace_file
from routelog.mirror_cluster.protocol.promise import NOTHING, Promise

PROMISE_FILE = "promise"
SHOWN_BYTES_MAX = 200  # of what is no promise, in an error


class PromiseUnreadable(OSError):
    """The file holds no promise: it is damaged, or somebody has edited it."""


class KeptPromise:
    """Reads and writes a promise. Every call blocks; one at a time."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / PROMISE_FILE
        self._disk = disk

    def read(self) -> Promise:
        """The promise; one of nothing when there is no file.

        Raises:
            PromiseUnreadable: the file holds something else.
        """
        if self._path.name not in self._disk.list_directory(self._path.parent):
            return NOTHING
        content = bytes(read_file(self._disk, self._path))
        try:
            return msgspec.json.decode(content, type=Promise)
        except msgspec.DecodeError as error:
            shown = content[:SHOWN_BYTES_MAX]
            raise PromiseUnreadable(f"{self._path}: {error}: found {shown!r}") from None

    def write(self, promise: Promise) -> None:
        """Keep another promise; durable when this returns."""
        unfinished = self._path.with_name(f"{self._path.name}.new")
        replace_file(self._disk, self._path, unfinished, msgspec.json.encode(promise) + b"\n")
