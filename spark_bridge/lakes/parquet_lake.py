"""A folder of Parquet files as the target of an export.

    <table>/batch=000000000012/date=2026-01-02/queue=audit/part-....parquet
    <table>/batch=000000000012/_offsets.json     of each log, up to this transaction: the next offset, and the
                                                 partition's number on its broker
    <table>/_writing/                            the open transaction
    <table>/_lock                                locked by the process that writes it

A commit renames the folder, so a reader of `batch=*` sees all of a transaction, or nothing.
"""

import json
from collections.abc import Collection
from datetime import date
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from routelog.log_backend import Disk, opened
from routelog.spark_bridge.columns.record_table import TableLayout
from routelog.spark_bridge.lakes.lake_table import TableUnusable, WriterLock
from routelog.spark_bridge.lakes.parquet_parts import ParquetParts
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.stored_offsets import NumberedOffsets, Offsets, numbers_of

OFFSETS = "_offsets.json"
WRITING = "_writing"
LOCK = "_lock"


class ParquetLake:
    """A folder of Parquet files, written by one exporter.

    Raises:
        TableUnusable: the folder is no such table, belongs to another exporter, or another process writes it.
    """

    def __init__(self, path: Path, layout: TableLayout, exporter: str, disk: Disk) -> None:
        self._path = path
        self._layout = layout
        self._exporter = exporter
        self._disk = disk
        self._lock = WriterLock(path / LOCK, exporter, disk)
        batches = sorted(path.glob("batch=*"))
        self._next_batch = int(batches[-1].name.removeprefix("batch=")) + 1 if batches else 0
        self._offsets, self._numbers = self._read_offsets(batches[-1]) if batches else ({}, {})
        self._remove_unfinished()
        self._parts: ParquetParts | None = None

    def position(self, partitions: Collection[LogPartition]) -> NumberedOffsets:
        """The next offset to export, and the partition's number, for each partition in the table."""
        keys = {each: _key(each) for each in partitions}
        return NumberedOffsets(
            {each: self._offsets[key] for each, key in keys.items() if key in self._offsets},
            {each: self._numbers[key] for each, key in keys.items() if key in self._numbers},
        )

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue to the open transaction."""
        if self._parts is None:
            self._lock.take()
            self._parts = ParquetParts(
                self._path / WRITING,
                self._layout.stored,
                f"{self._next_batch:012}",
                self._disk,
                _directory_of,
            )
        self._parts.add(queue, rows)

    def commit(self, ends: Offsets) -> None:
        """Commit the added rows, together with the next offset of each partition, and its number."""
        with self._lock:
            self._commit(ends)

    def _commit(self, ends: Offsets) -> None:
        if (self._path / f"batch={self._next_batch:012}").exists():
            raise TableUnusable(f"{self._path}: somebody else exports as '{self._exporter}'")
        writing = self._path / WRITING
        writing.mkdir(exist_ok=True)
        if self._parts is not None:
            self._parts.close()
            self._parts = None
        self._offsets = self._offsets | {_key(each): end for each, end in ends.items()}
        self._numbers |= {_key(each): number for each, number in numbers_of(ends).items()}
        stored = {"exporter": self._exporter, "offsets": self._offsets, "numbers": self._numbers}
        content = json.dumps(stored, indent=1)
        with opened(self._disk, writing / OFFSETS, create=True) as file:
            self._disk.write(file, 0, [content.encode()])
            self._disk.sync(file)
        self._disk.sync_directory(writing)
        self._disk.rename(writing, self._path / f"batch={self._next_batch:012}")
        self._disk.sync_directory(self._path)
        self._next_batch += 1

    def _read_offsets(self, batch: Path) -> tuple[dict[str, int], dict[str, int]]:
        try:
            with (batch / OFFSETS).open("rb") as file:
                found = json.loads(file.read())
            exporter, offsets = found["exporter"], dict(found["offsets"])
            numbers = dict(found.get("numbers", {}))  # earlier versions have stored none
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            raise TableUnusable(f"{batch} has no {OFFSETS}: no export has made it") from None
        if exporter != self._exporter:
            raise TableUnusable(f"{self._path} belongs to the exporter '{exporter}'")
        return offsets, numbers

    def _remove_unfinished(self) -> None:
        writing = self._path / WRITING
        if not writing.exists():
            return
        with self._lock:
            for path in sorted(writing.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            writing.rmdir()


def _key(partition: LogPartition) -> str:
    names = (partition.vhost, partition.queue, str(partition.partition))
    return "/".join(quote(name, safe="") for name in names)


def _directory_of(queue: str, day: date) -> str:
    # In the spelling that Hive, Spark, DuckDB and pyarrow write and decode.
    return f"date={day.isoformat()}/queue={quote(queue, safe='')}"
