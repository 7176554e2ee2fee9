"""Writes the rows of one transaction to Parquet files, one for each day and queue, seldom more."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from routelog.log_backend import Disk, opened

ROW_GROUP_BYTES = 32 * 1024 * 1024  # the least that a reader skips at once
OPEN_PARTS_MAX = 128  # each has a file descriptor, and a process 1,024 by default
ZSTD_LEVEL = 1  # higher levels take twice the time to save some percent
# These columns have few different values; a dictionary of any other column would have nearly all of them.
DICTIONARY_COLUMNS = ("partition", "timestamp", "exchange", "routing_key")


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is complete and synced.

    Attributes:
        path: relative to the table.
        first_offset, last_offset: smallest and largest, of all partitions in it.
    """

    path: str
    size: int
    queue: str
    date: date
    rows: int
    first_offset: int
    last_offset: int

    def stats(self) -> str:
        """Statistics for Delta's log, by which readers skip files."""
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {"offset": self.first_offset},
                "maxValues": {"offset": self.last_offset},
            }
        )


@dataclass(slots=True)
class _OpenPart:
    path: str
    writer: pq.ParquetWriter
    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    first_offset: int = 2**63 - 1
    last_offset: int = -1


def sync_folders(disk: Disk, table: Path, files: Iterable[str]) -> None:
    """Make the names of files durable, which are given relative to the table."""
    folders = {folder for file in files for folder in Path(file).parents}
    for folder in sorted(folders, reverse=True):  # those inside of others first
        disk.sync_directory(table / folder)


class ParquetParts:
    """The files of one transaction.

    Args:
        token: a unique part of all file names.
        directory_of: directory for the files of a queue and day, relative to the table.
    """

    def __init__(
        self,
        table: Path,
        schema: pa.Schema,
        token: str,
        disk: Disk,
        directory_of: Callable[[str, date], str],
    ) -> None:
        self._table = table
        self._schema = schema
        self._token = token
        self._disk = disk
        self._directory_of = directory_of
        self._open_parts: dict[tuple[str, date], _OpenPart] = {}  # the last one was used last
        self._finished_parts: list[Part] = []
        self._begun_count = 0

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue; they are written when there are enough for a row group."""
        days = rows.column("timestamp").cast(pa.date32())
        for day in pc.unique(days).to_pylist():
            of_day = pc.equal(days, pa.scalar(day))
            self._take(queue, day, rows if pc.all(of_day).as_py() else rows.filter(of_day))

    def close(self) -> list[Part]:
        """Complete and sync the files, and the folders that have their names."""
        while self._open_parts:
            self._finish_oldest()
        sync_folders(self._disk, self._table, (part.path for part in self._finished_parts))
        return self._finished_parts

    def _take(self, queue: str, day: date, rows: pa.RecordBatch) -> None:
        part = self._open_parts.pop((queue, day), None)
        if part is None:
            if len(self._open_parts) == OPEN_PARTS_MAX:
                self._finish_oldest()
            part = self._begun(queue, day)
        self._open_parts[queue, day] = part
        part.batches.append(rows)
        part.bytes += rows.nbytes
        part.rows += rows.num_rows
        bounds = pc.min_max(rows.column("offset"))
        part.first_offset = min(part.first_offset, bounds["min"].as_py())
        part.last_offset = max(part.last_offset, bounds["max"].as_py())
        if part.bytes >= ROW_GROUP_BYTES:
            self._write(part)

    def _begun(self, queue: str, day: date) -> _OpenPart:
        directory = self._directory_of(queue, day)
        (self._table / directory).mkdir(parents=True, exist_ok=True)
        path = f"{directory}/part-{self._token}-{self._begun_count}.zstd.parquet"
        self._begun_count += 1
        names = [name for name in self._schema.names if name in DICTIONARY_COLUMNS]
        writer = pq.ParquetWriter(
            self._table / path,
            self._schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=names,
            write_statistics=["partition", "offset", "timestamp"],
        )
        return _OpenPart(path, writer)

    def _write(self, part: _OpenPart) -> None:
        table = pa.Table.from_batches(part.batches, self._schema)
        part.writer.write_table(table, row_group_size=max(table.num_rows, 1))
        part.batches, part.bytes = [], 0

    def _finish_oldest(self) -> None:
        queue, day = next(iter(self._open_parts))
        part = self._open_parts.pop((queue, day))
        self._finished_parts.append(self._finished(queue, day, part))

    def _finished(self, queue: str, day: date, part: _OpenPart) -> Part:
        if part.batches:
            self._write(part)
        part.writer.close()
        with opened(self._disk, self._table / part.path) as file:
            self._disk.sync(file)
            size = self._disk.size(file)
        return Part(part.path, size, queue, day, part.rows, part.first_offset, part.last_offset)
