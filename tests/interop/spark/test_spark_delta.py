"""A stream into a Delta table: each micro-batch is a commit, and runs again without harm."""

from __future__ import annotations

import importlib
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from interop.spark.spark_stream import run_to_its_end
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from unit.spark_bridge.log_files import TIME, LogFiles

from routelog.spark_bridge import delta_batches

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.long]


def run(spark: SparkSession, root: Path, *columns: str, checkpoint: str = "checkpoint") -> None:
    """Read what there is."""
    source = spark.readStream.format("routelog").options(path=str(root), subscribe="audit")
    writer = source.load().select(*columns).writeStream
    writer.foreachBatch(delta_batches(str(root / "table")))
    writer.option("checkpointLocation", str(root / checkpoint)).trigger(availableNow=True)
    run_to_its_end(writer, root / checkpoint)


def offsets(table: DeltaTable) -> list[int]:
    return [row[0] for row in duckdb.read_parquet(table.file_uris()).order("1").fetchall()]


def test_a_micro_batch_that_runs_again_is_in_the_table_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, path = LogFiles(tmp_path), tmp_path / "table"
    checkpoint = tmp_path / "checkpoint"
    log.numbered_segment(0, 10)
    run(spark, tmp_path, "offset", "timestamp")
    table = DeltaTable(path)
    when = duckdb.read_parquet(table.file_uris()).aggregate("min(timestamp)").fetchall()[0][0]
    assert when.astimezone(UTC) == datetime.fromtimestamp(TIME / 1_000_000, UTC)
    # As a crash leaves it between our commit and Spark's.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    version, files = table.version(), set(path.rglob("*.parquet"))
    run(spark, tmp_path, "offset", "timestamp")
    table.update_incremental()
    assert (table.version(), offsets(table)) == (version, list(range(10)))
    assert set(path.rglob("*.parquet")) == files

    # As a crash leaves it before our commit: files of the micro-batch that is to come.
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    for name in ("batch=1", "batch=1-0123456789abcdef"):  # of an earlier version, and of this one
        left = path / query / name
        (left / "_temporary" / "0").mkdir(parents=True)
        shutil.copy(next(iter(files)), left / "_temporary" / "0" / "part.parquet")
        shutil.copy(next(iter(files)), left / "part-of-a-killed-task.parquet")
    log.numbered_segment(10, 5)
    run(spark, tmp_path, "offset", "timestamp")
    table.update_incremental()
    assert offsets(table) == list(range(15))
    assert {path / uri for uri in table.file_uris()} == set(path.rglob("*.parquet"))


def test_a_driver_that_stood_still_leaves_committed_files_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("routelog.spark_bridge.lakes.delta_batches")
    opened, path = module._opened, tmp_path / "table"
    write, frame = delta_batches(str(path), "app"), spark.range(5).withColumnRenamed("id", "offset")

    def replaced_meanwhile(path: Path, frame: DataFrame) -> DeltaTable:
        table: DeltaTable = opened(path, frame)
        monkeypatch.setattr(module, "_opened", opened)
        write(frame, 0)
        return table

    monkeypatch.setattr(module, "_opened", replaced_meanwhile)
    with pytest.raises(CommitFailedError):
        write(frame, 0)
    assert offsets(DeltaTable(path)) == list(range(5))


def test_another_query_is_no_replay_and_other_columns_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    LogFiles(tmp_path).numbered_segment(0, 10)
    run(spark, tmp_path, "offset")
    run(spark, tmp_path, "offset", checkpoint="another")
    assert offsets(DeltaTable(tmp_path / "table")) == sorted([*range(10), *range(10)])
    with pytest.raises(StreamingQueryException, match="the table has other columns: offset"):
        run(spark, tmp_path, "offset", "queue", checkpoint="third")


def test_a_name_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    for name in ("../elsewhere", "a/b", "_hidden", "a b"):
        with pytest.raises(ValueError, match="application: expected letters, digits"):
            delta_batches(str(tmp_path / "table"), name)
    assert list(tmp_path.iterdir()) == []
