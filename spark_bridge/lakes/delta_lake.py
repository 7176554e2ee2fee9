"""A Delta table as the target of an export: its transaction log is the checkpoint.

Each commit has an application transaction for each log: the application is
`routelog/<exporter>/<vhost>/<queue>/<partition>`, the version is the next offset to export. Another one, with
`/number` behind it, has the partition's number on its broker as the version: a queue that is declared again has
another number. Delta keeps the newest version of each application for ever, and refuses a commit if another one
has changed it meanwhile.
"""

import json
import re
from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from routelog.log_backend import Clock, Disk, opened, random_name, replace_file
from routelog.spark_bridge.columns.record_table import PARTITION_COLUMNS, TableLayout
from routelog.spark_bridge.lakes.delta_log import sync_delta_log
from routelog.spark_bridge.lakes.lake_table import DELTA_LOG, NUMBER, TableUnusable, WriterLock
from routelog.spark_bridge.lakes.parquet_parts import ZSTD_LEVEL, ParquetParts, Part, sync_folders
from routelog.spark_bridge.logs.readable_logs import LogPartition
from routelog.spark_bridge.reading.stored_offsets import NumberedOffsets, Offsets, numbers_of

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
INTENTS = "_routelog"  # a folder in the table; readers ignore names that begin with _


class DeltaLake:
    """A Delta table, written by one exporter.

    Args:
        exporter: its name; an exporter with another name exports the same records again.

    Raises:
        TableUnusable: the table is not of this kind, or another process writes under this name.
    """

    def __init__(
        self, path: Path, layout: TableLayout, exporter: str, disk: Disk, clock: Clock
    ) -> None:
        self._path = path
        self._layout = layout
        self._exporter = exporter
        self._disk = disk
        self._clock = clock
        self._intent = path / INTENTS / f"{_safe(exporter)}.writing"
        self._lock = WriterLock(self._intent.with_suffix(".lock"), exporter, disk)
        self._table = self._opened()
        self._remove_orphans()
        self._parts: ParquetParts | None = None

    def position(self, partitions: Collection[LogPartition]) -> NumberedOffsets:
        """The next offset to export, and the partition's number, for each partition in the table."""
        position = NumberedOffsets()
        for each in partitions:
            application = self._application(each)
            offset = self._table.transaction_version(application)
            if offset is None:
                continue
            position[each] = offset
            number = self._table.transaction_version(application + NUMBER)
            if number is not None:
                position.numbers[each] = number
        return position

    def add(self, queue: str, rows: pa.RecordBatch) -> None:
        """Add rows of one queue to the open transaction."""
        if self._parts is None:
            self._lock.take()
            token = random_name()
            self._intend(token)
            self._parts = ParquetParts(
                self._path, self._layout.stored, token, self._disk, _directory_of
            )
        self._parts.add(queue, rows)

    def commit(self, ends: Offsets) -> None:
        """Commit the added rows, together with the next offset of each partition, and its number."""
        with self._lock:
            self._commit(ends)

    def _commit(self, ends: Offsets) -> None:
        parts = self._parts.close() if self._parts is not None else []
        self._parts = None
        now = self._clock.now() // 1_000
        transactions = [
            Transaction(self._application(each), end, now) for each, end in sorted(ends.items())
        ]
        transactions += [
            Transaction(self._application(each) + NUMBER, number, now)
            for each, number in sorted(numbers_of(ends).items())
        ]
        next_version = self._table.version() + 1
        try:
            self._table.create_write_transaction(
                [_action(part, now) for part in parts],
                "append",
                self._table.schema(),
                list(PARTITION_COLUMNS),
                commit_properties=CommitProperties(
                    custom_metadata={"routelog": self._exporter}, app_transactions=transactions
                ),
            )
            self._table.update_incremental()
        except CommitFailedError as error:
            raise TableUnusable(
                f"{self._path}: somebody else exports as '{self._exporter}': {error}"
            ) from None
        sync_delta_log(self._disk, self._path, next_version)
        self._intend("")

    def _opened(self) -> DeltaTable:
        try:
            table = DeltaTable(self._path)
        except TableNotFoundError:
            table = DeltaTable.create(
                self._path, self._layout.schema, partition_by=list(PARTITION_COLUMNS)
            )
            sync_delta_log(self._disk, self._path, 0)
            self._disk.sync_directory(self._path)
            return table
        except DeltaError as error:
            raise TableUnusable(f"{self._path}: {error}") from None
        found, wanted = table.schema(), Schema.from_arrow(self._layout.schema)
        if found != wanted:
            columns = ", ".join(f"{each.name} {each.type}" for each in found.fields)
            raise TableUnusable(f"{self._path}: the table has other columns: {columns}")
        return table

    def _intend(self, token: str) -> None:
        """Store the token of files that are not committed yet, before the first of them is written."""
        content = json.dumps({"token": token}).encode()
        replace_file(self._disk, self._intent, self._intent.with_suffix(".draft"), content)

    def _remove_orphans(self) -> None:
        """Remove the files of a transaction that was not committed before a crash."""
        if not self._intent.exists():
            return
        with self._lock:
            self._remove_unnamed()

    def _remove_unnamed(self) -> None:
        with self._intent.open("rb") as file:
            token = json.loads(file.read())["token"]
        if not token:
            return
        known = _file_names(self._table)
        left = [
            each for each in self._path.rglob(f"part-{token}-*.parquet") if each.name not in known
        ]
        # Files that were committed, and compacted since, are not listed either; they must not be removed.
        if left and not self._is_committed(token):
            for path in left:
                self._disk.remove(path)
        self._intend("")

    def _is_committed(self, token: str) -> bool:
        needle = f"part-{token}-".encode()
        log = self._path / DELTA_LOG
        for commit in sorted(log.glob("*.json"), reverse=True):
            with commit.open("rb") as file:
                if needle in file.read():
                    return True
        return False

    def _application(self, partition: LogPartition) -> str:
        names = (self._exporter, partition.vhost, partition.queue, str(partition.partition))
        return "/".join(("routelog", *(quote(name, safe="") for name in names)))


def _file_names(table: DeltaTable) -> set[str]:
    return {Path(uri).name for uri in table.file_uris()}


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


def _directory_of(queue: str, day: date) -> str:
    # For people only: readers take the values from the transaction log, and file names are unique.
    return f"date={day.isoformat()}/queue={_safe(queue)}"


def _action(part: Part, now: int) -> AddAction:
    values = {"date": part.date.isoformat(), "queue": part.queue}
    return AddAction(part.path, part.size, values, now, True, part.stats())


def compact_table(path: Path, target_bytes: int, before: int | None, disk: Disk) -> dict[str, int]:
    """Merge small files, day by day and queue by queue.

    Args:
        before: only files of days before this time (us since 1970); None: of all days.

    Returns:
        How many files were removed and added.

    Raises:
        TableUnusable: there is no table, or another process has changed the same files.
    """
    filters = None
    if before is not None:
        today = datetime.fromtimestamp(before / 1_000_000, UTC).date()
        filters = [("date", "<", today.isoformat())]
    _check_there(path)
    try:
        table = DeltaTable(path)
        version, known = table.version(), _file_names(table)
        done = table.optimize.compact(
            partition_filters=filters,
            target_size=target_bytes,
            writer_properties=WriterProperties(compression="ZSTD", compression_level=ZSTD_LEVEL),
        )
    except DeltaError as error:
        raise TableUnusable(f"{path}: {error}") from None
    # deltalake has committed them unsynced; the files before are there until a vacuum.
    added = _file_names(DeltaTable(path)) - known
    files = [each for each in path.rglob("*.parquet") if each.name in added]
    for each in files:
        with opened(disk, each) as file:
            disk.sync(file)
    sync_folders(disk, path, (str(each.relative_to(path)) for each in files))
    sync_delta_log(disk, path, version + 1)
    return {"files_removed": done["numFilesRemoved"], "files_added": done["numFilesAdded"]}


def vacuum_table(path: Path, hours: int, *, dry_run: bool) -> list[str]:
    """Remove files that left the table some hours ago; returns their names.

    Raises:
        TableUnusable: there is no table.
    """
    _check_there(path)
    try:
        return DeltaTable(path).vacuum(
            hours,
            dry_run=dry_run,
            enforce_retention_duration=False,
            # Checkpoints forget removed files, which only a look at the folder finds then. With 0 it would
            # take the files of an export that runs.
            full=hours > 0,
        )
    except DeltaError as error:
        raise TableUnusable(f"{path}: {error}") from None


def _check_there(path: Path) -> None:
    if not (path / DELTA_LOG).is_dir():
        raise TableUnusable(f"{path}: there is no Delta table")
