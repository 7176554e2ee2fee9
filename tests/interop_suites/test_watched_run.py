"""Runs of small suites with a real pytest, which end whatever their tests do."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from interop_suites.outcome import outcome
from interop_suites.watched_run import NotRun, WatchedRun
from support.waiting import wait_until

TEST_SECONDS = 5.0
SUITE = """
import os, threading, time
from pathlib import Path
import pytest

def test_passes(): ...
def test_fails(): assert False
def test_hangs(): threading.Event().wait()
@pytest.mark.parametrize("each", [1, 2])
def test_of_two(each): ...
def test_ends_the_process(): os._exit(3)
@pytest.mark.skip(reason="never")
def test_is_skipped(): ...
def test_passes_the_second_time():
    tried = Path("tried")
    assert tried.exists() or tried.touch()
"""
HANGING_FIXTURE = """
import threading
import pytest

@pytest.fixture(scope="session")
def worker():
    yield
    threading.Event().wait()

def test_first(worker): ...
def test_last(worker): ...
"""
RELYING = """
STARTED = []

def test_relies(): assert STARTED
def test_starts(): STARTED.append(1)
"""
FLAKY = """
import json, time

def test_hangs_a_while_and_is_run_again(request):
    record = request.config.getoption("record")
    for _ in range(20):
        time.sleep(1)
        with record.open("a") as file:
            for event in "ended", "begun":
                file.write(json.dumps({event: request.node.nodeid}) + "\\n")
"""
LEFT_THREAD = """
import threading, time

def test_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()
"""
LEFT_PROCESS = """
import subprocess, sys
from pathlib import Path

def test_leaves_a_process():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("child").write_text(str(child.pid))
"""


def watched(
    folder: Path, text: str, test_seconds: float = TEST_SECONDS, idle_seconds: float = 120
) -> WatchedRun:
    (folder / "test_it.py").write_text(text)
    return WatchedRun(
        python=Path(sys.executable),
        folder=folder,
        arguments=["-p", "no:xdist", "test_it.py"],
        variables={},
        log=folder / "log",
        record=folder / "first.jsonl",
        test_seconds=test_seconds,
        idle_seconds=idle_seconds,
    )


def is_over(process: int) -> bool:
    try:
        return not Path(f"/proc/{process}/cmdline").read_bytes()  # empty: nobody has waited for it
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_every_test_has_an_outcome_though_some_hang_or_end_their_process(tmp_path):
    run = watched(tmp_path, SUITE)
    first = run.all()
    assert {test.partition("::")[2]: kind for test, kind in first.outcomes.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_hangs": "failed",
        "test_of_two[1]": "passed",
        "test_of_two[2]": "passed",
        "test_ends_the_process": "failed",
        "test_is_skipped": "skipped",
        "test_passes_the_second_time": "failed",
    }
    assert list(first.outcomes) == first.tests
    second = replace(run, record=tmp_path / "second.jsonl").each(first.failed)
    assert list(second.outcomes) == first.failed
    result = outcome("of nobody", first, second)
    assert (result.passed, result.skipped, result.known) == (3, 1, {})
    assert result.unstable == ["test_it.py::test_passes_the_second_time"]
    assert result.failed == [
        f"test_it.py::test_{name}" for name in ("fails", "hangs", "ends_the_process")
    ]


@pytest.mark.long
def test_a_test_that_relies_on_another_is_run_behind_it(tmp_path):
    run = watched(tmp_path, RELYING)
    first = run.all()
    assert first.failed == ["test_it.py::test_relies"]
    alone = replace(run, record=tmp_path / "alone.jsonl").each(first.failed)
    assert alone.outcomes == {"test_it.py::test_relies": "failed"}
    behind = replace(run, record=tmp_path / "behind.jsonl").each(
        first.failed, ["test_it.py::test_starts"]
    )
    assert set(behind.outcomes.values()) == {"passed"}


@pytest.mark.long
def test_the_tries_of_a_flaky_test_take_no_longer_than_one_that_is_not(tmp_path):
    began = time.monotonic()
    record = watched(tmp_path, FLAKY).all()
    assert list(record.outcomes.values()) == ["failed"]
    assert time.monotonic() - began < 20


@pytest.mark.long
def test_a_tear_down_that_hangs_fails_the_test_before_it(tmp_path):
    record = watched(tmp_path, HANGING_FIXTURE).all()
    assert list(record.outcomes.values()) == ["passed", "failed"]


@pytest.mark.long
def test_a_process_that_does_not_end_behind_its_tests_is_ended(tmp_path):
    began = time.monotonic()
    record = watched(tmp_path, LEFT_THREAD, test_seconds=500, idle_seconds=10).all()
    assert list(record.outcomes.values()) == ["passed"]
    assert time.monotonic() - began < 300


def test_processes_that_tests_leave_are_ended(tmp_path):
    watched(tmp_path, LEFT_PROCESS).all()
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: is_over(child))


def test_a_run_goes_on_where_another_was_ended(tmp_path):
    run = watched(tmp_path, SUITE)
    run.record.write_text(
        '{"process": 1}\n'
        '{"collected": ["test_it.py::test_fails", "test_it.py::test_passes"]}\n'
        '{"begun": "test_it.py::test_fails"}\n'
        '{"test": "test_it.py::test_fails", "outcome": "pass'
    )
    record = run.all()
    assert list(record.outcomes.values()) == ["failed", "passed"]


@pytest.mark.parametrize("text", ["import nothing_of_this_name", "this is no Python", ""])
def test_a_suite_that_cannot_be_run_is_told_of(tmp_path, text):
    with pytest.raises(NotRun, match=r"pytest ended with [1-5]; see .*log"):
        watched(tmp_path, text).all()
