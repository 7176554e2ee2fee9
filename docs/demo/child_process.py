"""A program that the demo starts, and never leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

STOP_SECONDS_MAX = 15.0
KILL_SECONDS_MAX = 3.0
_POLL_SECONDS = 0.005
_LOG_TAIL_CHARACTERS = 2_000


class ChildFailed(Exception):
    """A started program ended badly or did not do what it had to; carries the end of its log."""


class ChildProcess:
    """A program in a process group of its own, so that all it starts can be ended with it.

    Its own group also keeps the terminal's Ctrl-C away from it: the demo decides when it ends.
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                start_new_session=True,
            )

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as a crash does: SIGKILL, no goodbye."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ask its whole group to end (SIGTERM), wait, and end by force what is left of it."""
        ended = False
        self._signal_group(signal.SIGTERM)
        try:
            ended = self._group_ends(STOP_SECONDS_MAX)
        finally:  # also after a second, impatient Ctrl-C
            if not ended:
                self._signal_group(signal.SIGKILL)
                self._group_ends(KILL_SECONDS_MAX)

    def check(self) -> bool:
        """Whether it has ended well.

        Raises:
            ChildFailed: it has ended with another status than 0.
        """
        status = self._process.poll()
        if status is not None and status != 0:
            raise ChildFailed(f"{self.log.stem} ended with status {status}\n{self.log_tail()}")
        return status == 0

    def wait(self, seconds_max: float) -> None:
        """Wait until it has ended well.

        Raises:
            ChildFailed: it ended with another status than 0, or did not end in time.
        """
        deadline = time.monotonic() + seconds_max
        while not self.check():
            if time.monotonic() > deadline:
                raise ChildFailed(f"{self.log.stem}: no end after {seconds_max:.0f} s")
            time.sleep(_POLL_SECONDS)

    def log_tail(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]

    def _signal_group(self, number: int) -> bool:
        """Whether there was anybody to get the signal; 0 only asks."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _group_ends(self, seconds_max: float) -> bool:
        deadline = time.monotonic() + seconds_max
        while not self._group_has_ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _group_has_ended(self) -> bool:
        # The group's first process stays in it until its status is collected.
        return not self.alive and not self._signal_group(0)
