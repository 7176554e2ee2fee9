"""A sink for streams: a Delta table that gets each record exactly once."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import DataFrame

    from routelog.log_backend import Clock, Disk

_APPLICATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUERY_ID = "sql.streaming.queryId"  # of Spark's StreamExecution
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def delta_batches(directory: str, application: str = "") -> "Callable[[DataFrame, int], None]":
    """Return a function for `writeStream.foreachBatch`: each micro-batch is one commit to a Delta table.

    Spark writes the files, and deltalake commits them, without a jar. The commit names the application and the
    micro-batch. When a micro-batch runs again after a crash, it is skipped if it was committed; otherwise its
    commit replaces what it left. Each run has a folder of its own, so that a driver which stood still, and was
    replaced, does no harm to files that are committed.

    Args:
        directory: of the table, on storage that driver and executors share; the first micro-batch creates it.
        application: the id of the stream in the table. Empty: the query's id, which lasts as long as its
            checkpoint; with Spark Connect this id is unknown. A new checkpoint counts from 0 again, so it
            needs a new application. Letters, digits and any of `._-`, because it names a folder.

    Raises:
        ValueError: the application's name has other characters.
    """
    if application and not _APPLICATION.fullmatch(application):
        raise ValueError(f"application: expected letters, digits and ._-, not '{application}'")

    def write(frame: "DataFrame", batch: int) -> None:
        # Spark's workers import the package for its data source, and may lack what storage needs.
        from routelog.log_backend import SystemClock, SystemDisk

        _write(frame, batch, Path(directory), application, SystemDisk(), SystemClock())

    return write


def _write(
    frame: "DataFrame", batch: int, table_path: Path, given: str, disk: "Disk", clock: "Clock"
) -> None:
    # deltalake is an optional extra: executors do not need it.
    from deltalake.transaction import CommitProperties, Transaction

    from routelog.log_backend import random_name
    from routelog.spark_bridge.lakes.delta_log import sync_delta_log

    application = given or _query_id(frame)
    table = _opened(table_path, frame)
    done = table.transaction_version(application)
    if done is not None and batch <= done:
        return
    folder = table_path / application / f"batch={batch}-{random_name()}"
    # No table format takes the timestamps that Spark writes by default.
    frame.sparkSession.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    frame.write.option("compression", "zstd").parquet(str(folder))
    now = clock.now() // 1_000
    files = sorted(folder.glob("*.parquet"))
    synced = [_action(path, table_path, now, disk) for path in files]
    for each in (folder, folder.parent, table_path):
        disk.sync_directory(each)
    next_version = table.version() + 1
    table.create_write_transaction(
        [*synced],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(application, batch, now)],
        ),
    )
    sync_delta_log(disk, table_path, next_version)
    # Nobody else can commit this micro-batch any more, but a driver may still write: vacuum removes what stays.
    # Earlier versions left folders without a random name.
    for left in folder.parent.glob(f"batch={batch}*"):
        if left != folder and left.name.partition("-")[0] == f"batch={batch}":
            with suppress(OSError):
                for each in sorted([left, *left.rglob("*/")], reverse=True):  # the deepest first
                    disk.remove_tree(each)


def _query_id(frame: "DataFrame") -> str:
    from pyspark.errors import PySparkAttributeError

    try:
        found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    except PySparkAttributeError:  # over Spark Connect
        found = None
    if not found:
        raise ValueError(
            "Spark does not tell which query this is: give delta_batches an application"
        )
    return found


def _opened(path: Path, frame: "DataFrame") -> "DeltaTable":
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import TableNotFoundError

    from routelog.spark_bridge.lakes.lake_table import TableUnusable

    schema = Schema.from_json(frame.schema.json())  # Delta and Spark write it in the same way
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        table = DeltaTable.create(path, schema, mode="ignore")
    if table.schema() != schema:
        columns = ", ".join(f"{each.name} {each.type}" for each in table.schema().fields)
        raise TableUnusable(f"{path}: the table has other columns: {columns}")
    return table


def _action(path: Path, table: Path, now: int, disk: "Disk") -> "AddAction":
    import pyarrow.parquet as pq
    from deltalake.transaction import AddAction

    from routelog.log_backend import opened

    # A file that a commit names must survive a power cut.
    with opened(disk, path) as file:
        disk.sync(file)
        size = disk.size(file)
    stats = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
    return AddAction(str(path.relative_to(table)), size, {}, now, True, stats)
