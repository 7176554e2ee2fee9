"""A stream into a Delta table: each micro-batch is a commit, and runs again without harm."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from interop.spark.spark_stream import run_to_its_end
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
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
    left = path / query / "batch=1"
    left.mkdir()
    shutil.copy(next(iter(files)), left / "part-of-a-killed-task.parquet")
    log.numbered_segment(10, 5)
    run(spark, tmp_path, "offset", "timestamp")
    table.update_incremental()
    assert offsets(table) == list(range(15))
    assert {path / uri for uri in table.file_uris()} == set(path.rglob("*.parquet"))


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
