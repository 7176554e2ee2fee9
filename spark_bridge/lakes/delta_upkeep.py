"""Compaction and vacuum of a Delta table."""

from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import DeltaError

from routelog.spark_bridge.lakes.lake_table import DELTA_LOG, TableUnusable
from routelog.spark_bridge.lakes.parquet_parts import ZSTD_LEVEL


def compact_table(path: Path, target_bytes: int, before: int | None) -> dict[str, int]:
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
        done = DeltaTable(path).optimize.compact(
            partition_filters=filters,
            target_size=target_bytes,
            writer_properties=WriterProperties(compression="ZSTD", compression_level=ZSTD_LEVEL),
        )
    except DeltaError as error:
        raise TableUnusable(f"{path}: {error}") from None
    return {"files_removed": done["numFilesRemoved"], "files_added": done["numFilesAdded"]}


def vacuum_table(path: Path, hours: int, *, dry_run: bool) -> list[str]:
    """Remove files that left the table some hours ago; returns their names.

    Raises:
        TableUnusable: there is no table.
    """
    _check_there(path)
    try:
        return DeltaTable(path).vacuum(hours, dry_run=dry_run, enforce_retention_duration=False)
    except DeltaError as error:
        raise TableUnusable(f"{path}: {error}") from None


def _check_there(path: Path) -> None:
    if not (path / DELTA_LOG).is_dir():
        raise TableUnusable(f"{path}: there is no Delta table")
