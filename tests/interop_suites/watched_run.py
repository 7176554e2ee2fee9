"""Tests of a suite in processes that are ended when they hang, so that a run comes to an end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interop_suites.run_record import RunRecord, read_record

PLUGIN = Path(__file__).with_name("plugin")
TEST_SECONDS_MAX = 360.0  # celery gives a try of a test 300: a hang tells first where it is
# Before the first test, and behind the last: threads of the client may be left
IDLE_SECONDS_MAX = 120.0
_WATCH_SECONDS = 0.5


class NotRun(Exception):
    """The tests of a suite could not be run; the message says where to look."""


@dataclass(frozen=True)
class WatchedRun:
    """How to run pytest on a suite.

    Attributes:
        python: of the environment that the suite needs.
        folder: in which the tests run.
        log: what pytest says is appended to it.
        record: what becomes of the tests is appended to it: `RunRecord`.
        test_seconds: how long a test may take, with its set-up and tear-down; then its process is ended,
            it has failed, and another process goes on behind it.
        idle_seconds: how long a process may take when no test runs.
    """

    python: Path
    folder: Path
    arguments: Sequence[str]
    variables: Mapping[str, str]
    log: Path
    record: Path
    test_seconds: float = TEST_SECONDS_MAX
    idle_seconds: float = IDLE_SECONDS_MAX

    def all(self) -> RunRecord:
        """Run all tests; what the record has of them counts as run.

        Raises:
            NotRun: pytest did not come to the tests, or did not go on with them.
        """
        record = read_record(self.record)
        while not record.tests or record.left:
            before = len(record.outcomes)
            code = self._process(record.left)
            record = read_record(self.record)
            if len(record.outcomes) == before:
                raise NotRun(f"pytest ended with {code}; see {self.log}")
        return record

    def each(self, tests: Sequence[str], opening: Sequence[str] = ()) -> RunRecord:
        """Run these tests, each in a process of its own.

        Args:
            opening: tests that go before each of them: they start what all tests of a process share.
        """
        for test in tests:
            self._process([*opening, test])
        record = read_record(self.record)
        record.tests = list(tests)
        return record

    def _process(self, only: Sequence[str]) -> int:
        command = [str(self.python), "-m", "pytest", "-q", "-W", "ignore", "-p", "progress"]
        command.append(f"--record={self.record}")
        if only:
            chosen = self.record.with_suffix(".only")
            chosen.write_text("\n".join(only))
            command.append(f"--only={chosen}")
        with self.record.open("a") as record:
            record.write("\n")  # the process before this one may have been ended within a line
        environment = {**os.environ, **self.variables, "PYTHONPATH": str(PLUGIN)}
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, *self.arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                self._watch(process)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with the workers that it has left
            return process.wait()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        running = test = None
        changed = began = time.monotonic()
        while process.poll() is None:
            record, now = read_record(self.record), time.monotonic()
            if record.running != running:
                running, changed = record.running, now
            if running not in (None, test):  # a flaky test that is run again has begun once
                test, began = running, now
            idle = running is None
            if now - (changed if idle else began) > (
                self.idle_seconds if idle else self.test_seconds
            ):
                return
            time.sleep(_WATCH_SECONDS)
