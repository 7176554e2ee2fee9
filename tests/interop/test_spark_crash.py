"""SIGKILL of a streaming driver, its JVM included: what it wrote holds each record once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pyarrow.dataset
import pytest
from unit.spark_bridge.log_files import LogFiles

PROGRAM = Path(__file__).with_name("spark_stream_program.py")
ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 240  # a JVM starts in 10 s, or in a minute and more beside others
ENDED = "the program has ended"

pytestmark = [pytest.mark.interop, pytest.mark.spark]


class Driver:
    """One process of the streaming program."""

    def __init__(self, given: dict[str, object]) -> None:
        self._lines: Queue[str] = Queue()
        self._heard: list[str] = []
        paths = [str(ROOT), str(ROOT / "tests"), os.getenv("PYTHONPATH")]
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(given)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that one signal ends its JVM too
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, place: str) -> None:
        """Wait until the program says that it is there."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (line := self._lines.get(timeout=deadline - time.monotonic())) != place:
            self._heard.append(line)
            assert line != ENDED, "\n".join(self._heard)

    def kill(self) -> None:
        """End all of it at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self) -> None:
        """Let it stop by itself."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(WAIT_SECONDS) == 0

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put(ENDED)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    """Starts the program anew on the same checkpoint; it waits to be killed at a place."""
    drivers: list[Driver] = []
    options = {
        "path": str(tmp_path),
        "subscribe": "audit",
        "startingOffsets": "latest",
        "maxOffsetsPerTrigger": "300",
    }

    def start(wait_at: str) -> Driver:
        given = {
            "options": options,
            "checkpoint": str(tmp_path / "checkpoint"),
            "directory": str(tmp_path / "table"),
            "wait_at": wait_at,
        }
        drivers.append(Driver(given))
        return drivers[-1]

    try:
        yield start
    finally:
        for driver in drivers:
            driver.kill()


def test_a_killed_driver_loses_and_repeats_nothing(
    tmp_path: Path, drive: Callable[[str], Driver]
) -> None:
    log = LogFiles(tmp_path)
    log.numbered_segment(0, 1_000)
    first = drive("begins 0")
    first.wait_for("begins 0")
    first.kill()
    # Behind the start, and before batch 0 was ever done.
    log.numbered_segment(0, 1_000, 700)

    # In the table, and not in the checkpoint.
    second = drive("written 2")
    second.wait_for("written 2")
    second.kill()

    last = drive("")
    last.wait_for("caught up")
    last.finish()
    rows = pyarrow.dataset.dataset(tmp_path / "table", format="parquet").to_table(
        columns=["offset"]
    )
    assert sorted(rows["offset"].to_pylist()) == list(range(1_000, 1_700))
