"""A driver of Spark as a process of its own, which a test follows and may kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

ROOT = Path(__file__).parents[3]
# A JVM starts in 10 s, or in a minute and more beside others; so does a query, and before Spark 4.2 each
# micro-batch of `availableNow` is one.
WAIT_SECONDS = 600
ENDED = "the program has ended"


class SparkDriver:
    """One process of a program beside this file; it gets its orders as JSON and says where it is.

    Args:
        environment: beside what all drivers have.
    """

    def __init__(self, program: str, given: dict[str, object], **environment: str) -> None:
        self._lines: Queue[str] = Queue()
        self._heard: list[str] = []
        paths = [str(ROOT / "src"), str(ROOT / "tests"), os.getenv("PYTHONPATH")]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(program)), json.dumps(given)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that one signal ends its JVM too
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def heard(self) -> str:
        """What it has printed so far."""
        while not self._lines.empty():
            self._heard.append(self._lines.get())
        return "\n".join(self._heard)

    def wait_for(self, beginning: str) -> str:
        """Wait for a line that begins so; returns its rest."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            except Empty:
                raise AssertionError(f"no line {beginning!r} in\n{self.heard}") from None
            if line.startswith(beginning):
                return line.removeprefix(beginning)
            self._heard.append(line)
            assert line != ENDED, self.heard

    def wait_for_marks(self, directory: Path, names: set[str]) -> None:
        """Wait until its tasks, who have no line to us, have made files of these names."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not names <= {path.name for path in directory.iterdir()}:
            assert self.is_alive, self.heard
            assert time.monotonic() < deadline, (sorted(directory.iterdir()), self.heard)
            time.sleep(0.02)

    def kill(self) -> None:
        """End all of it at once."""
        if self.is_alive:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def finish(self) -> None:
        """Let it end by itself, and well."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(WAIT_SECONDS) == 0, self.heard

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(ENDED)
