"""The target of an export: a table that stores how far each log is exported, and its lock."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from routelog.log_backend import DirectoryLocked, Disk
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.stored_offsets import NumberedOffsets, Offsets

DELTA_LOG = "_delta_log"
NUMBER = "/number"  # behind the key of a partition's next offset: the key of its number
# What a table of a format has in its folder from its beginning.
MARKS = {"delta": DELTA_LOG, "parquet": "batch=*", "iceberg": "catalog.db"}


class TableUnusable(Exception):
    """The table is missing, belongs to another exporter, or has other columns."""


class LakeTable(Protocol):
    """A table in a lake. The progress of the export is stored only in its own transactions."""

    def position(self, partitions: Collection[LogPartition]) -> NumberedOffsets:
        """The next offset to export, and the partition's number, for each partition in the table.

        What earlier versions have exported has no number.
        """

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue to the open transaction.

        Raises:
            TableUnusable: another process writes under the same name.
        """

    def commit(self, ends: Offsets) -> None:
        """Commit the added rows, together with the next offset of each partition, and its number.

        Guarantees:
            After a crash at any point the table has all of the transaction or nothing of it.

        Raises:
            TableUnusable: another process has exported the same records.
        """


class WriterLock:
    """Held while a table has uncommitted files, and while files left by a crash are removed.

    A `with` block takes it, if it is not held already, and releases it. It ends with the process.

    Args:
        path: of a file that stays; it and its folder are made when they are not there.
        exporter: the name under which the process exports.
        disk: has that file.
    """

    def __init__(self, path: Path, exporter: str, disk: Disk) -> None:
        self._path = path
        self._exporter = exporter
        self._disk = disk
        self._file: int | None = None

    def take(self) -> None:
        """Take the lock, if it is not held already.

        Raises:
            TableUnusable: another process holds it.
        """
        if self._file is not None:
            return
        self._disk.make_directory(self._path.parent)
        try:
            self._file = self._disk.lock(self._path)
        except DirectoryLocked:
            raise TableUnusable(
                f"{self._path.parent}: somebody else exports as '{self._exporter}' at this moment"
            ) from None

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._disk.close(self._file)
            self._file = None
