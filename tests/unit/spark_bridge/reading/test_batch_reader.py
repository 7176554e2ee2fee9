"""The reader as Spark uses it: planned here, pickled, read there."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType
from unit.spark_bridge.log_files import LogFiles

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.data_source import RouteLogDataSource
from routelog.spark_bridge.logs.errors import BadOption, BadSchema, RecordsLost
from routelog.spark_bridge.reading.batch_reader import BatchReader

OFFSET_ONLY = StructType([ENVELOPE["offset"]])


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def source(log: LogFiles, **options: str) -> RouteLogDataSource:
    return RouteLogDataSource({"path": str(log.data), "subscribe": "audit"} | options)


def read(log: LogFiles, **options: str) -> list[list[int]]:
    """Offsets, task by task."""
    reader = source(log, **options).reader(OFFSET_ONLY)
    tasks = reader.partitions()
    there, partitions = pickle.loads(pickle.dumps((reader, tasks)))
    return [
        [at for batch in there.read(partition) for at in batch.column(0).to_pylist()]
        for partition in partitions
    ]


def rows(batches: Iterator[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_tasks_read_what_was_planned(log: LogFiles) -> None:
    log.numbered_segment(0, 3, 4)
    log.numbered_segment(7, 2)
    assert read(log) == [list(range(9))]
    assert read(log, maxRecordsPerPartition="4") == [[0, 1, 2], [3, 4, 5, 6], [7, 8]]


def test_a_plan_is_a_list_and_may_be_empty(log: LogFiles) -> None:
    assert source(log).reader(OFFSET_ONLY).partitions() == []


@pytest.mark.parametrize("nothing", [None, InputPartition(None)])
def test_the_partition_that_spark_makes_up_for_an_empty_plan_has_no_records(
    log: LogFiles, nothing: InputPartition | None
) -> None:
    reader = source(log).reader(OFFSET_ONLY)
    assert isinstance(reader, BatchReader)
    assert list(reader.read(nothing)) == []


def test_records_that_come_after_the_plan_are_not_read(log: LogFiles) -> None:
    log.numbered_segment(0, 3)
    reader = source(log).reader(OFFSET_ONLY)
    (partition,) = reader.partitions()
    log.numbered_segment(0, 3, 5)
    assert rows(reader.read(partition)) == 3


def test_records_removed_after_the_plan_are_an_error_unless_allowed(log: LogFiles) -> None:
    segment = log.numbered_segment(0, 3)
    log.numbered_segment(3, 2)
    strict = source(log).reader(OFFSET_ONLY)
    lenient = source(log, failOnDataLoss="false").reader(OFFSET_ONLY)
    (partition,) = strict.partitions()
    segment.unlink()
    with pytest.raises(RecordsLost):
        list(strict.read(partition))
    assert rows(lenient.read(partition)) == 2


def test_mistakes_show_before_anything_is_read(log: LogFiles) -> None:
    with pytest.raises(BadOption):
        source(log, colour="red").schema()
    with pytest.raises(BadOption):
        source(log, colour="red").reader(OFFSET_ONLY)
    with pytest.raises(BadSchema):
        source(log).reader(StructType([StructField("value", StringType())]))


def test_the_source_can_be_imported_where_nothing_else_is_installed() -> None:
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'pamqp', 'google_crc32c', 'log_backend'):\n"
        "    sys.modules[name] = None\n"
        "import pyspark_routelog\n"
        "print(pyspark_routelog.DefaultSource.name())"
    )
    root = Path(__file__).parents[4]
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert found.stdout == "routelog\n"
