"""A Celery application: its workers are processes of their own, its broker is ours."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from celery import Celery, Signature, chain, chord, group
from support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.interop

TESTS = Path(__file__).parents[2]


class Application:
    """The publishing side of the application of `celery_tasks`, and its workers, with one process each."""

    def __init__(self, url: str, queue: str, results: str, folder: Path) -> None:
        self.celery = Celery("client", broker=url, backend=results)
        self.celery.conf.update(task_default_queue=queue, task_queue_max_priority=10)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "CELERY_TEST_BROKER": url,
            "CELERY_TEST_QUEUE": queue,
            "CELERY_TEST_RESULTS": results,
        }
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []

    def task(self, name: str, *arguments: object) -> Signature:
        """A call of a task."""
        return self.celery.signature(f"interop.libraries.celery_tasks.{name}", arguments)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start another worker; `end` ends it."""
        number = len(self._workers)
        command = [sys.executable, "-m", "celery", "-A", "interop.libraries.celery_tasks", "worker"]
        options = ["--concurrency=1", "--loglevel=info", f"--hostname=worker{number}@localhost"]
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            worker = subprocess.Popen(
                [*command, *options],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(worker)
        return worker

    def end(self) -> None:
        """Leave nothing behind."""
        for worker in self._workers:
            kill(worker)
        self.celery.close()


@pytest.fixture
def application(broker, name: str, tmp_path: Path, request) -> Iterator[Application]:
    """Results come by the broker, unless a test asks for files."""
    url = broker.url.replace("amqp://", "pyamqp://") + "/"
    results = "rpc://"
    if request.node.get_closest_marker("file_results"):
        results = (tmp_path / "results").as_uri()
        (tmp_path / "results").mkdir()
    started = Application(url, name, results, tmp_path)
    try:
        yield started
    finally:
        started.end()


def kill(worker: subprocess.Popen[bytes]) -> None:
    """End a worker and its processes as a crash does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def test_results_come_back_through_the_broker(application: Application) -> None:
    application.start_worker()
    task = application.task
    results = [task("add", number, 1).delay() for number in range(20)]
    assert [result.get(timeout=WAIT_SECONDS) for result in results] == list(range(1, 21))
    several = group(task("double", number) for number in range(5))()
    assert several.get(timeout=WAIT_SECONDS) == [0, 2, 4, 6, 8]
    links = chain(task("add", 1, 2), task("double"), task("double"))()
    assert links.get(timeout=WAIT_SECONDS) == 12


def test_tasks_are_not_run_before_their_time(application: Application) -> None:
    application.start_worker()
    assert application.task("add", 1, 1).delay().get(timeout=WAIT_SECONDS) == 2
    now = time.time()
    eta = datetime.fromtimestamp(now + 2, UTC)
    at_eta = application.task("started_at").apply_async(eta=eta)
    later = [application.task("started_at").apply_async(countdown=1.5) for _ in range(5)]
    assert at_eta.get(timeout=WAIT_SECONDS) >= now + 2
    assert all(each.get(timeout=WAIT_SECONDS) >= now + 1.5 for each in later)


def test_a_task_that_fails_is_run_again(application: Application) -> None:
    application.start_worker()
    assert application.task("third_time").delay().get(timeout=WAIT_SECONDS) == 2


def test_what_is_urgent_is_run_first(application: Application, tmp_path: Path) -> None:
    lines = tmp_path / "order"
    for priority in (0, 5, 9, 5, 0):
        application.task("note", str(lines), str(priority)).apply_async(priority=priority)
    application.start_worker()
    wait_until(lambda: lines.exists() and len(lines.read_text().split()) == 5, seconds=WAIT_SECONDS)
    assert lines.read_text().split() == ["9", "5", "5", "0", "0"]


@pytest.mark.file_results
def test_a_chord_ends_when_its_tasks_have(application: Application) -> None:
    application.start_worker()
    task = application.task
    result = chord([task("double", number) for number in range(6)])(task("total"))
    assert result.get(timeout=WAIT_SECONDS) == 30


def test_a_task_whose_worker_was_killed_is_run_by_another(
    application: Application, tmp_path: Path
) -> None:
    hanging = tmp_path / "hanging"
    first = application.start_worker()
    result = application.task("hangs_once", str(hanging)).delay()
    wait_until(hanging.exists, seconds=WAIT_SECONDS)
    kill(first)
    application.start_worker()
    assert result.get(timeout=WAIT_SECONDS) is True
