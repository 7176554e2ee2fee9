"""The demo's own broker: started, killed, started again on the same data, stopped."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from types import TracebackType

from child_process import ChildFailed, ChildProcess

READY_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.005  # also the resolution of the recovery time
_READY_LINE = re.compile(r"^routelog ready amqp://[^:\s]+:(\d+) .*\n", re.MULTILINE)


class BrokerProcess:
    """One `serve` process on a free loopback port; every run of it has a log of its own."""

    def __init__(self, data: Path, logs: Path) -> None:
        self._data = data
        self._logs = logs
        self._runs = 0
        self._port = 0
        self._process: ChildProcess | None = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Address for clients, with the default user and virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}/"

    def start(self) -> float:
        """Start the broker and wait until it is ready; the port may differ from the last run's.

        Returns:
            Seconds from the start of the program to its ready line.

        Raises:
            ChildFailed: it ended, or was not ready in time.
        """
        self._runs += 1
        started = time.monotonic()
        self._process = ChildProcess(
            self._command(),
            self._logs / f"broker-{self._runs}.log",
            {"ROUTELOG_MANAGEMENT_PORT": "0", "ROUTELOG_PROMETHEUS_PORT": "0"},
        )
        try:
            self._port = self._wait_until_ready(self._process, started + READY_SECONDS_MAX)
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - started

    def kill(self) -> None:
        """SIGKILL: what has not reached the disk's cache by now is gone."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """Stop gracefully; nothing happens when it does not run."""
        if self._process is not None:
            self._process.stop()

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "routelog", "serve"),
            *("--host", "127.0.0.1", "--port", "0"),
            *("--data-dir", str(self._data)),
        ]

    def _wait_until_ready(self, process: ChildProcess, deadline: float) -> int:
        while True:
            ready = _READY_LINE.search(process.log.read_text(errors="replace"))
            if ready:
                return int(ready[1])
            if not process.alive or time.monotonic() > deadline:
                state = "is not ready" if process.alive else "ended before it was ready"
                raise ChildFailed(f"the broker {state}\n{process.log_tail()}")
            time.sleep(_POLL_SECONDS)
