"""Partner of spark_bridge/lakes/exporter.py, and of the tables that it fills."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from unit.spark_bridge.log_files import LogFiles, numbered, records

from routelog.log_backend import Disk, SystemClock, SystemDisk
from routelog.log_backend.segments.log_directory import segment_path
from routelog.spark_bridge.columns.declared_columns import parse_declared_columns
from routelog.spark_bridge.columns.record_table import RecordRows, TableLayout, parse_layout
from routelog.spark_bridge.lakes import export_commands
from routelog.spark_bridge.lakes.delta_lake import DeltaLake, compact_table, vacuum_table
from routelog.spark_bridge.lakes.exporter import Exported, Exporter
from routelog.spark_bridge.lakes.iceberg_lake import IcebergLake
from routelog.spark_bridge.lakes.lake_table import LakeTable, TableUnusable
from routelog.spark_bridge.lakes.parquet_lake import ParquetLake
from routelog.spark_bridge.logs.errors import BadOption, DamagedSegment, DeclaredAgain, RecordsLost
from routelog.spark_bridge.logs.log_directory import LogDirectory
from routelog.spark_bridge.logs.queue_selection import parse_selection
from routelog.spark_bridge.logs.readable_logs import LogPartition, OffsetRange

PLAIN = TableLayout()
FORMATS = ("delta", "parquet", "iceberg")
DAY = 86_400_000_000
FIRST_DAY = 20_000 * DAY


class BrokerLogs(LogDirectory):
    """Knows of records that are not stored, as a broker does."""

    def next_offset(self, partition: LogPartition) -> int:
        return 5


def open_table(
    kind: str, path: Path, layout: TableLayout = PLAIN, name: str = "e", disk: Disk | None = None
) -> LakeTable:
    path.mkdir(exist_ok=True)
    disk = disk or SystemDisk()
    if kind == "delta":
        return DeltaLake(path, layout, name, disk, SystemClock())
    if kind == "iceberg":
        return IcebergLake(path, layout, name, disk, SystemClock())
    return ParquetLake(path, layout, name, disk)


def export(
    kind: str,
    data: Path,
    path: Path,
    layout: TableLayout = PLAIN,
    pattern: str = ".*",
    logs: type[LogDirectory] = LogDirectory,
    disk: Disk | None = None,
    **options: Any,
) -> Exported:
    exporter = Exporter(
        logs(data),
        "/",
        parse_selection({"subscribePattern": pattern}),
        RecordRows(layout),
        open_table(kind, path, layout, disk=disk),
        **options,
    )
    return run(exporter)


def run(exporter: Exporter) -> Exported:
    done = exporter.run(exporter.backlog(), lambda: False)
    for error in exporter.failures.values():
        raise error
    return done


def rows(kind: str, path: Path) -> list[dict[str, Any]]:
    """What a reader of the table finds, in the order of queues and offsets."""
    if kind == "delta":
        table = DeltaTable(path).to_pyarrow_dataset().to_table()
    elif kind == "iceberg":
        catalog = SqlCatalog("routelog", uri=f"sqlite:///{path}/catalog.db")
        table = catalog.load_table("routelog.records").scan().to_arrow()
    else:
        hive = ds.partitioning(
            flavor="hive",
            schema=pa.schema(
                [("batch", pa.int64()), ("date", pa.date32()), ("queue", pa.string())]
            ),
        )
        table = ds.dataset(path, partitioning=hive).to_table()
    return sorted(
        table.to_pylist(), key=lambda row: (row["queue"], row["partition"], row["offset"])
    )


def places(kind: str, path: Path) -> list[tuple[str, int, int]]:
    return [(row["queue"], row["partition"], row["offset"]) for row in rows(kind, path)]


def compacted(path: Path, before: int | None = None) -> dict[str, int]:
    return compact_table(path, 10**9, before, SystemDisk())


@pytest.mark.parametrize("kind", FORMATS)
def test_each_record_is_exported_once_however_often_it_runs(kind: str, tmp_path: Path) -> None:
    audit = LogFiles(tmp_path, "audit", 0)
    audit.segment(0, (0, records([b"a", b"b"], routing_key=b"x.y", time=FIRST_DAY)))
    audit.segment(5, (5, records([b"c"], time=FIRST_DAY + DAY)))
    LogFiles(tmp_path, "a queue/é", 1).numbered_segment(0, 2)
    table = tmp_path / "table"
    assert export(kind, tmp_path, table) == Exported(5, 5, 1)
    expected = [("a queue/é", 1, 0), ("a queue/é", 1, 1)] + [("audit", 0, n) for n in (0, 1, 5)]
    assert places(kind, table) == expected
    found = rows(kind, table)
    assert [row["body"] for row in found[2:]] == [b"a", b"b", b"c"]
    assert [row["routing_key"] for row in found[2:]] == ["x.y", "x.y", "key"]
    assert [str(row["date"]) for row in found[2:]] == ["2024-10-04", "2024-10-04", "2024-10-05"]
    assert export(kind, tmp_path, table) == Exported(0, 0, 0)
    audit.segment(6, (6, numbered(6, 2)))
    LogFiles(tmp_path, "new", 0).numbered_segment(0, 1)
    assert export(kind, tmp_path, table).records == 3
    assert places(kind, table) == [*expected, ("audit", 0, 6), ("audit", 0, 7), ("new", 0, 0)]


@pytest.mark.parametrize("kind", FORMATS)
def test_transactions_end_where_they_are_large_enough(kind: str, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.segment(0, *((n, records([b"x" * 100_000])) for n in range(60)))
    table = tmp_path / "table"
    done = export(kind, tmp_path, table, transaction_bytes=3_000_000)
    assert done == Exported(60, 6_000_000, done.transactions)
    assert done.transactions > 1
    assert places(kind, table) == [("audit", 0, n) for n in range(60)]


def test_a_transaction_of_empty_bodies_ends_too(tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.segment(0, *((n * 5_000, records([b""] * 5_000)) for n in range(20)))
    done = export("delta", tmp_path, tmp_path / "table", transaction_bytes=1_000_000)
    assert (done.records, done.body_bytes) == (100_000, 0)
    assert done.transactions > 2


@pytest.mark.parametrize("kind", FORMATS)
def test_columns_are_declared_and_bad_bodies_are_kept(kind: str, tmp_path: Path) -> None:
    bodies = [b'{"id": 1, "lines": [{"n": 2}]}', b"none", b'{"id": "x"}', b"{}"]
    keys = [b"eu.order", b"us", b"", b"a.b.c"]
    LogFiles(tmp_path).segment(0, (0, records(bodies, routing_keys=keys)))
    declared = (
        "id long, lines array<struct<n: int>>, area string from key 1, kind string from key 2"
    )
    layout = TableLayout(parse_declared_columns(declared), "json", False, False)
    export(kind, tmp_path, tmp_path / "table", layout)
    found = rows(kind, tmp_path / "table")
    assert "body" not in found[0]
    assert "properties" not in found[0]
    names = ("id", "lines", "area", "kind", "_corrupt")
    # pyiceberg reads a list that is null as an empty one.
    assert [tuple(row[name] or None for name in names) for row in found] == [
        (1, [{"n": 2}], "eu", "order", None),
        (None, None, "us", None, b"none"),
        (None, None, None, None, b'{"id": "x"}'),
        (None, None, "a", "b", None),
    ]


def test_columns_come_from_headers(tmp_path: Path) -> None:
    table = b"\x02hiS\x00\x00\x00\x05there"
    properties = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    LogFiles(tmp_path).segment(0, (0, records([b"a", b"b"], properties=[properties, b"\x00\x00"])))
    layout = TableLayout(parse_declared_columns("h string from header hi"), "json", False, True)
    export("delta", tmp_path, tmp_path / "table", layout)
    assert [row["h"] for row in rows("delta", tmp_path / "table")] == ["there", None]


@pytest.mark.parametrize("kind", FORMATS)
def test_what_retention_took_before_it_was_exported_is_named(kind: str, tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    first = log.numbered_segment(0, 5)
    log.numbered_segment(5, 5)
    export(kind, tmp_path, tmp_path / "table")
    log.numbered_segment(10, 5)
    log.numbered_segment(15, 5)
    for base in (0, 5, 10):
        segment_path(log.directory, base).unlink()
    assert not first.exists()
    with pytest.raises(RecordsLost, match=r"offsets 10 to 14 of partition 0"):
        export(kind, tmp_path, tmp_path / "table")
    assert export(kind, tmp_path, tmp_path / "table", lost_is_error=False).records == 5


@pytest.mark.parametrize("kind", FORMATS)
def test_a_log_that_fails_stops_no_other(kind: str, tmp_path: Path) -> None:
    path, queues = tmp_path / "table", ("a", "damaged", "lost", "z")
    logs = {queue: LogFiles(tmp_path, queue) for queue in queues}
    for log in logs.values():
        log.numbered_segment(0, 5)
    export(kind, tmp_path, path)
    for log in logs.values():
        for base in (5, 10, 15):
            log.numbered_segment(base, 5)
    for base in (0, 5):
        segment_path(logs["lost"].directory, base).unlink()
    damaged = segment_path(logs["damaged"].directory, 10)
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)

    exporter = Exporter(
        LogDirectory(tmp_path),
        "/",
        parse_selection({"subscribePattern": ".*"}),
        RecordRows(PLAIN),
        open_table(kind, path),
    )
    for records_expected in (35, 0):  # "damaged" up to the damage; the second time there is nothing
        done = exporter.run(exporter.backlog(), lambda: False)
        assert done.records == records_expected
        names = {each.queue: type(error) for each, error in exporter.failures.items()}
        assert names == {"lost": RecordsLost, "damaged": DamagedSegment}
    ends = {"a": 20, "damaged": 10, "lost": 5, "z": 20}
    assert places(kind, path) == [(queue, 0, n) for queue in queues for n in range(ends[queue])]
    assert export(kind, tmp_path, path, pattern="lost", lost_is_error=False).records == 10


def test_a_queue_that_began_anew_is_noticed(tmp_path: Path) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 5)
    export("delta", tmp_path, tmp_path / "table")
    shutil.rmtree(log.directory)
    LogFiles(tmp_path).numbered_segment(0, 2)
    with pytest.raises(RecordsLost, match="offsets 2 to 4"):
        export("delta", tmp_path, tmp_path / "table")
    # Unless the broker has given all offsets up to there: nothing is lost then.
    assert export("delta", tmp_path, tmp_path / "table", logs=BrokerLogs).records == 0


PARTITION = LogPartition("/", "audit", 0)


def declared_again(log: LogFiles, number: int | None, count: int) -> LogFiles:
    """The queue in the place of another one, with some records."""
    shutil.rmtree(log.directory)
    other = LogFiles(log.data, number=number)
    other.numbered_segment(0, count)
    return other


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("count", [2, 10])  # fewer and more than of the earlier queue
def test_a_queue_declared_again_is_noticed_by_its_number(
    kind: str, count: int, tmp_path: Path
) -> None:
    log, table = LogFiles(tmp_path, number=7), tmp_path / "table"
    log.numbered_segment(0, 3)
    assert export(kind, tmp_path, table).records == 3
    log.numbered_segment(3, 2)
    assert export(kind, tmp_path, table).records == 2
    again = declared_again(log, 8, count)
    with pytest.raises(DeclaredAgain, match="has read the earlier one to offset 5"):
        export(kind, tmp_path, table)
    assert export(kind, tmp_path, table, lost_is_error=False).records == count
    assert [row[2] for row in places(kind, table)] == sorted([*range(5), *range(count)])
    assert export(kind, tmp_path, table) == Exported(0, 0, 0)
    again.numbered_segment(count, 2)
    assert export(kind, tmp_path, table).records == 2
    position = open_table(kind, table).position([PARTITION])
    assert (position, position.numbers) == ({PARTITION: count + 2}, {PARTITION: 8})


@pytest.mark.parametrize("kind", FORMATS)
def test_a_position_of_earlier_versions_gets_a_number(kind: str, tmp_path: Path) -> None:
    log, table = LogFiles(tmp_path, number=8), tmp_path / "table"
    log.numbered_segment(0, 5)
    open_table(kind, table).commit({PARTITION: 5})
    assert open_table(kind, table).position([PARTITION]).numbers == {}
    assert export(kind, tmp_path, table) == Exported(0, 0, 1)
    assert open_table(kind, table).position([PARTITION]).numbers == {PARTITION: 8}
    assert export(kind, tmp_path, table) == Exported(0, 0, 0)
    declared_again(log, 9, 10)
    with pytest.raises(DeclaredAgain):
        export(kind, tmp_path, table)


def test_a_position_without_number_behind_the_log_is_of_an_earlier_queue(tmp_path: Path) -> None:
    log, table = LogFiles(tmp_path, number=8), tmp_path / "table"
    log.numbered_segment(0, 3)
    open_table("delta", table).commit({PARTITION: 5})
    with pytest.raises(RecordsLost, match="offsets 3 to 4"):
        export("delta", tmp_path, table)
    assert export("delta", tmp_path, table, lost_is_error=False).records == 3
    # The same queue with fewer records is none that was declared again.
    declared_again(log, 8, 2)
    for lost_is_error in (True, False):
        with pytest.raises(RecordsLost, match="offsets 2 to 2"):
            export("delta", tmp_path, table, lost_is_error=lost_is_error)


def test_a_queue_declared_again_before_it_is_read_is_noticed(tmp_path: Path) -> None:
    log, table = LogFiles(tmp_path, number=7), tmp_path / "table"
    log.numbered_segment(0, 5)
    exporter = Exporter(
        LogDirectory(tmp_path),
        "/",
        parse_selection({"subscribe": "audit"}),
        RecordRows(PLAIN),
        open_table("delta", table),
        lost_is_error=False,
    )
    backlog = exporter.backlog()
    declared_again(log, 8, 10)
    assert exporter.run(backlog, lambda: False).records == 0
    with pytest.raises(DeclaredAgain):
        export("delta", tmp_path, table)
    assert run(exporter).records == 10


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_with_other_columns_is_refused(kind: str, tmp_path: Path) -> None:
    open_table(kind, tmp_path / "table")
    with pytest.raises(TableUnusable, match="other columns"):
        open_table(kind, tmp_path / "table", TableLayout(with_body=False))


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 5)
    export("parquet", tmp_path, tmp_path / "table")
    with pytest.raises(TableUnusable, match="belongs to the exporter 'e'"):
        open_table("parquet", tmp_path / "table", name="other")
    (tmp_path / "strange" / "batch=000000000007").mkdir(parents=True)
    with pytest.raises(TableUnusable, match="no export has made it"):
        open_table("parquet", tmp_path / "strange")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_has_tables_of_one_format(kind: str, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 5)
    path = tmp_path / "table"
    export(kind, tmp_path, path)
    for other in set(FORMATS) - {kind}:
        with pytest.raises(TableUnusable, match=f"table of format {kind} already"):
            export_commands.open_table(path, export_commands.TableFormat(other), PLAIN, "e")
    export_commands.open_table(path, export_commands.TableFormat(kind), PLAIN, "e")
    assert len(places(kind, path)) == 5


def test_only_a_delta_table_is_looked_after(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TableUnusable, match="there is no Delta table"):
            compacted(path)
        with pytest.raises(TableUnusable, match="there is no Delta table"):
            vacuum_table(path, 0, dry_run=True)


@pytest.mark.parametrize("kind", FORMATS)
def test_two_exporters_of_one_name_do_not_export_twice(kind: str, tmp_path: Path) -> None:
    LogFiles(tmp_path).numbered_segment(0, 5)
    path, layout = tmp_path / "table", TableLayout()
    exporters = [
        Exporter(
            LogDirectory(tmp_path),
            "/",
            parse_selection({"subscribe": "audit"}),
            RecordRows(layout),
            open_table(kind, path),
        )
        for _ in range(2)
    ]
    backlogs = [each.backlog() for each in exporters]
    exporters[0].run(backlogs[0], lambda: False)
    with pytest.raises(TableUnusable, match="somebody else exports as 'e'"):
        exporters[1].run(backlogs[1], lambda: False)
    open_table(kind, path)  # which removes what the other one left
    assert len(places(kind, path)) == 5
    assert len(list(path.rglob("*.parquet"))) == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_what_an_exporter_writes_is_not_removed_by_another_one_of_its_name(
    kind: str, tmp_path: Path
) -> None:
    LogFiles(tmp_path).numbered_segment(0, 5)
    path, layout = tmp_path / "table", TableLayout()
    selection = parse_selection({"subscribe": "audit"})
    first, second = (
        Exporter(LogDirectory(tmp_path), "/", selection, RecordRows(layout), open_table(kind, path))
        for _ in range(2)
    )

    def others_begin(size: int) -> None:
        if kind != "iceberg":  # where opening removes nothing
            with pytest.raises(TableUnusable, match="somebody else exports as 'e' at this moment"):
                open_table(kind, path)
        with pytest.raises(TableUnusable, match="somebody else exports as 'e' at this moment"):
            second.run(second.backlog(), lambda: False)

    first._progress = others_begin
    first.run(first.backlog(), lambda: False)
    assert len(places(kind, path)) == 5
    with pytest.raises(TableUnusable, match="somebody else exports as 'e'"):
        second.run([OffsetRange(LogPartition("/", "audit", 0), 0, 5, 0)], lambda: False)
    open_table(kind, path)
    assert len(places(kind, path)) == 5


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_exporters_of_other_names_commit_beside_each_other(kind: str, tmp_path: Path) -> None:
    log, path = LogFiles(tmp_path), tmp_path / "table"
    selection = parse_selection({"subscribe": "audit"})
    exporters = [
        Exporter(
            LogDirectory(tmp_path),
            "/",
            selection,
            RecordRows(PLAIN),
            open_table(kind, path, name=name),
        )
        for name in ("e", "e/é")
    ]
    for base in (0, 5):
        log.numbered_segment(base, 5)
        backlogs = [each.backlog() for each in exporters]
        for each, backlog in zip(exporters, backlogs, strict=True):
            assert each.run(backlog, lambda: False).records == 5
    assert len(places(kind, path)) == 20
    for name in ("e", "e/é"):
        assert open_table(kind, path, name=name).position([PARTITION]) == {PARTITION: 10}


def test_a_compacted_table_goes_on_where_it_was(tmp_path: Path) -> None:
    log, path = LogFiles(tmp_path), tmp_path / "table"
    for base in range(0, 12, 3):
        log.numbered_segment(base, 3)
        export("delta", tmp_path, path)
    assert compacted(path, DAY) == {"files_removed": 0, "files_added": 0}
    assert compacted(path) == {"files_removed": 4, "files_added": 1}
    assert len(vacuum_table(path, 0, dry_run=True)) == 4
    assert len(list(path.rglob("*.parquet"))) == 5
    assert len(vacuum_table(path, 0, dry_run=False)) == 4
    log.numbered_segment(12, 3)
    assert export("delta", tmp_path, path).records == 3
    assert [offset for _, _, offset in places("delta", path)] == list(range(15))
    with pytest.raises(TableUnusable):
        compacted(tmp_path / "none")


def test_a_vacuum_finds_files_that_a_checkpoint_has_forgotten(tmp_path: Path) -> None:
    """A checkpoint leaves out removed files that are older than the table keeps them, a week by default."""
    log, path = LogFiles(tmp_path), tmp_path / "table"
    for base in range(0, 12, 3):
        log.numbered_segment(base, 3)
        export("delta", tmp_path, path)
    two_hours_ago = time.time() - 7_200
    for file in path.rglob("*.parquet"):
        os.utime(file, (two_hours_ago, two_hours_ago))
    compacted(path)
    assert vacuum_table(path, 1, dry_run=True) == []  # they left the table a moment ago
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    uncommitted = path / "part-of-an-export-that-runs.parquet"
    uncommitted.write_bytes(b"")
    assert len(vacuum_table(path, 1, dry_run=False)) == 4
    assert uncommitted.exists()
    assert len(list(path.glob("date=*/queue=*/*.parquet"))) == 1
    log.numbered_segment(12, 3)
    assert export("delta", tmp_path, path).records == 3
    assert [offset for _, _, offset in places("delta", path)] == list(range(15))


def test_declared_names_that_every_table_has_are_refused() -> None:
    for name in ("offset", "queue", "date", "body", "_corrupt"):
        with pytest.raises(BadOption, match=f"every table has a column {name}"):
            parse_layout(f"{name} string", "json", envelope=True, body=True)
