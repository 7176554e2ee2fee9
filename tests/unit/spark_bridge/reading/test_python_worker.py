"""What a Python worker of Spark need not look at when it collects garbage."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType
from unit.spark_bridge.log_files import LogFiles

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.reading.batch_reader import BatchReader
from routelog.spark_bridge.reading.python_worker import _exempt
from routelog.spark_bridge.reading.read_options import parse_read_options


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFiles]:
    _exempt.cache_clear()
    yield LogFiles(tmp_path)
    TaskContext._setTaskContext(None)
    gc.unfreeze()
    _exempt.cache_clear()


def read_all(log: LogFiles) -> int:
    options = parse_read_options({"path": str(log.data), "subscribe": "audit"})
    reader = BatchReader(options, StructType([ENVELOPE["offset"]]))
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def test_a_task_leaves_what_is_loaded_out_of_later_collections_once(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    TaskContext._setTaskContext(TaskContext())
    assert read_all(log) == 5
    exempt = gc.get_freeze_count()
    assert exempt > 10_000
    kept = [[number] for number in range(50_000)]
    assert read_all(log) == 5
    assert kept
    assert gc.get_freeze_count() <= exempt


def test_a_reader_outside_of_spark_leaves_the_process_as_it_is(log: LogFiles) -> None:
    log.numbered_segment(0, 5)
    before = gc.get_freeze_count()
    assert read_all(log) == 5
    assert gc.get_freeze_count() == before
