"""What a Python worker of Spark need not look at when it collects garbage."""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType
from unit.spark_bridge.log_files import LogFiles

from routelog.spark_bridge.columns.envelope import ENVELOPE
from routelog.spark_bridge.logs.errors import WorkersLackRouteLog
from routelog.spark_bridge.reading.batch_reader import BatchReader
from routelog.spark_bridge.reading.python_worker import _exempt, choose_worker_interpreter
from routelog.spark_bridge.reading.read_options import parse_read_options


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFiles]:
    _exempt.cache_clear()
    gc.unfreeze()  # of what the tests exempt themselves
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


@dataclass
class Context:
    """What is looked at of a SparkContext."""

    master: str
    pythonExec: str = "python3"  # noqa: N815  # PySpark's name


def interpreter(folder: Path, script: str) -> str:
    """A program that stands in for an interpreter."""
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,1024]"])
def test_workers_of_a_local_session_are_the_driver_s_interpreter(master: str) -> None:
    context = Context(master)
    choose_worker_interpreter(context)
    assert context.pythonExec == sys.executable


def test_a_cluster_s_workers_need_an_interpreter_with_routelog(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = interpreter(tmp_path, f'exec {sys.executable} -I -S "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    context = Context("spark://master:7077")
    with pytest.raises(WorkersLackRouteLog) as caught:
        choose_worker_interpreter(context)
    message = str(caught.value)
    assert "'python3'" in message
    assert sys.executable in message
    assert "PYSPARK_PYTHON" in message
    assert "spark.pyspark.python" in message
    assert "\n" not in message
    assert (context.pythonExec, bare) == ("python3", str(tmp_path / "python3"))


@pytest.mark.parametrize("script", ["exit 1", "exec no-such-program"])
def test_a_choice_that_does_not_work_is_refused_in_a_local_session_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    chosen = interpreter(tmp_path, script)
    monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    with pytest.raises(WorkersLackRouteLog, match=chosen):
        choose_worker_interpreter(Context("local[2]", chosen))


@pytest.mark.parametrize("chosen", ["/no/such/python3", "no-such-python3"])
def test_an_interpreter_that_is_not_there_is_named(chosen: str) -> None:
    with pytest.raises(WorkersLackRouteLog, match=chosen):
        choose_worker_interpreter(Context("yarn", chosen))


def test_another_interpreter_that_has_routelog_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = interpreter(tmp_path, f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    monkeypatch.chdir(tmp_path)  # where no source tree is
    for master in ("local[2]", "spark://master:7077"):
        context = Context(master, chosen)
        choose_worker_interpreter(context)
        assert context.pythonExec == chosen


def test_the_driver_s_own_interpreter_needs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it was started"))
    choose_worker_interpreter(Context("yarn", sys.executable))
