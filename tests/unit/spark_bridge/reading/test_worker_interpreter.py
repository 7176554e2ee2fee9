"""Which interpreter Spark's Python workers run, and what a wrong one is answered with."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from routelog.spark_bridge.logs.errors import WorkersLackRouteLog
from routelog.spark_bridge.reading.worker_interpreter import choose_worker_interpreter


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
