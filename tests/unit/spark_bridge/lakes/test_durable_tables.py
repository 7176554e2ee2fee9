"""What a table refers to is durable before: a power cut after a commit takes nothing of it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from unit.spark_bridge.lakes.test_exporter import (
    DAY,
    FIRST_DAY,
    FORMATS,
    PARTITION,
    export,
    open_table,
)
from unit.spark_bridge.log_files import LogFiles, records

from routelog.log_backend import SystemDisk
from routelog.spark_bridge.lakes.delta_lake import compact_table

UNSYNCED = (".lock", "_lock", "catalog.db")  # a lock has no content, and SQLite syncs its own


class WatchedDisk(SystemDisk):
    """Remembers the sizes at which files were synced, and the names in synced folders, by inode."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.names: dict[int, set[str]] = {}
        self.order: list[str] = []

    def sync(self, file: int) -> None:
        super().sync(file)
        found = os.fstat(file)
        self.sizes[found.st_ino] = found.st_size
        self.order.append(os.readlink(f"/proc/self/fd/{file}"))

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.names[path.stat().st_ino] = set(os.listdir(path))

    def unsynced(self, table: Path) -> list[str]:
        """The files whose end is not durable, and those without a durable name."""
        found = []
        for path in sorted(table.rglob("*")):
            if path.name.endswith(UNSYNCED):
                continue
            if path.is_file() and self.sizes.get(path.stat().st_ino) != path.stat().st_size:
                found.append(f"content of {path.relative_to(table)}")
            if path.name not in self.names.get(path.parent.stat().st_ino, set()):
                found.append(f"name of {path.relative_to(table)}")
        return found


class CatalogReader(WatchedDisk):
    """Remembers, too, to which metadata the catalog pointed when a file was synced."""

    def __init__(self, catalog: Path) -> None:
        super().__init__()
        self._catalog = catalog
        self.pointed: dict[str, str] = {}

    def sync(self, file: int) -> None:
        super().sync(file)
        with sqlite3.connect(self._catalog) as database:
            found = database.execute("select metadata_location from iceberg_tables").fetchone()
        self.pointed[self.order[-1]] = found[0] if found else ""


def two_queues(data: Path) -> None:
    for queue in ("audit", "a queue/é"):
        days = [(n, records([b"x"], time=FIRST_DAY + n * DAY)) for n in range(2)]
        LogFiles(data, queue).segment(0, *days)


@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_ends_with_a_durable_table(kind: str, tmp_path: Path) -> None:
    two_queues(tmp_path)
    table, disk = tmp_path / "table", WatchedDisk()
    assert export(kind, tmp_path, table, disk=disk).records == 4
    assert disk.unsynced(table) == []


def test_a_delta_table_is_durable_behind_a_checkpoint(tmp_path: Path) -> None:
    disk, table = WatchedDisk(), tmp_path / "table"
    lake = open_table("delta", table, disk=disk)
    for end in range(1, 102):  # deltalake writes a checkpoint each 100 commits
        lake.commit({PARTITION: end})
    assert (table / "_delta_log" / "_last_checkpoint").exists()
    assert disk.unsynced(table) == []


def test_a_compaction_ends_with_a_durable_table(tmp_path: Path) -> None:
    log, table, disk = LogFiles(tmp_path, "a queue/é"), tmp_path / "table", WatchedDisk()
    for base in range(2):
        log.segment(base, (base, records([b"x"])))
        export("delta", tmp_path, table, disk=disk)
    done = compact_table(table, 10**9, None, disk)
    assert done == {"files_removed": 2, "files_added": 1}
    assert disk.unsynced(table) == []


def test_iceberg_files_are_durable_before_the_catalog_points_to_them(tmp_path: Path) -> None:
    two_queues(tmp_path)
    table = tmp_path / "table"
    disk = CatalogReader(table / "catalog.db")
    export("iceberg", tmp_path, table, disk=disk)
    kinds = [_kind_of(path) for path in disk.order]
    assert kinds == ["metadata", *["data"] * 4, "manifest", "manifest list", "metadata"]
    newest = disk.order[-1]
    assert disk.pointed[newest] == f"file://{disk.order[0]}"  # of the empty table
    with sqlite3.connect(table / "catalog.db") as database:
        found = database.execute("select metadata_location from iceberg_tables").fetchone()
    assert found == (f"file://{newest}",)


def _kind_of(path: str) -> str:
    if path.endswith(".parquet"):
        return "data"
    if path.endswith(".avro"):
        return "manifest list" if "/snap-" in path else "manifest"
    return "metadata"
