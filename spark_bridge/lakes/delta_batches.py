"""A Delta table that holds each record of a stream once, whoever reads it."""

import json
import re
from collections.abc import Callable
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
    """A function for `writeStream.foreachBatch`: each micro-batch is one commit to a Delta table.

    Spark writes the files, deltalake commits them, without a jar. The commit says which micro-batch of which
    application it is, so one that runs again after a crash is passed over when it is in the table, and
    replaces the files that it left when it is not.

    Args:
        directory: of the table, on storage that driver and executors share; made by the first micro-batch.
        application: whose micro-batches these are. The query's id, which lasts as long as its checkpoint, when
            it is empty; Spark Connect does not tell it. With a new checkpoint, which counts from 0 again,
            a given one must be new, too. Letters, digits and any of `._-`, as it names a folder.

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
    # An extra; where executors only read and write, it is not needed.
    from deltalake.transaction import CommitProperties, Transaction

    application = given or _query_id(frame)
    table = _opened(table_path, frame)
    done = table.transaction_version(application)
    if done is not None and batch <= done:
        return
    folder = table_path / application / f"batch={batch}"
    # Spark's default is a form of timestamps that no table format takes.
    frame.sparkSession.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    frame.write.mode("overwrite").option("compression", "zstd").parquet(str(folder))
    now = clock.now() // 1_000
    files = sorted(folder.glob("*.parquet"))
    synced = [_action(path, table_path, now, disk) for path in files]
    for each in (folder, folder.parent, table_path):
        disk.sync_directory(each)
    table.create_write_transaction(
        [*synced],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(application, batch, now)],
        ),
    )


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

    # What the table says it has must survive a power cut.
    file = disk.open(path)
    try:
        disk.sync(file)
        size = disk.size(file)
    finally:
        disk.close(file)
    stats = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
    return AddAction(str(path.relative_to(table)), size, {}, now, True, stats)
