"""A real broker process under a test's control, and a foreign broker that is only talked to."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from support.broker_nursery import ForkedBroker, nursery
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_LINE = re.compile(r"^routelog ready (amqp://\S+:(\d+)) data=(.*) pid=(\d+)\n", re.M)
# For one that hangs; a start takes a second or two, of a processor of its own
READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0  # for one that hangs; what is left to write is on a busy disk in seconds
COMMAND_VARIABLE = "ROUTELOG_TEST_COMMAND"  # an installed program to test instead of the sources
# With one of these in its environment a broker is executed, not forked.
EXECUTED = {COMMAND_VARIABLE, "ROUTELOG_TEST_EXECUTED", "ROUTELOG_PURE", "LD_PRELOAD"}
TEST_LIMITS = {
    "ROUTELOG_HANDSHAKE_SECONDS": "10",  # in which clients of a busy machine log in
    "ROUTELOG_JOURNAL_FILE_BYTES": "16777216",  # each new broker fills two files with zeros
    "ROUTELOG_MANAGEMENT_PORT": "0",
    "ROUTELOG_MANAGEMENT_TLS_PORT": "0",
    "ROUTELOG_PROMETHEUS_PORT": "0",
}


class BrokerFailed(Exception):
    """The process ended, or stayed silent, where it had to be ready or stopped."""


class ForeignBroker:
    """A broker somebody else runs: it has an address and nothing to be controlled by."""

    foreign = True

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 5672

    def log_text(self) -> str:
        """Nothing: its log is elsewhere."""
        return ""


def is_there(process: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class BrokerProcess:
    """One `serve` process on a free port, with its own data directory.

    After `kill` or `terminate`, `start` runs it again on the same data and the same port.

    Args:
        within: what to put before its command.
    """

    foreign = False

    def __init__(
        self,
        data_dir: Path,
        environment: dict[str, str] | None = None,
        *,
        host: str = "127.0.0.1",
        within: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.host = host
        self._within = within
        self.port = free_port()
        self.pid = 0
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | ForkedBroker | None = None
        # A file, not a pipe: what the broker wrote before it answered a client is there for the test.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        weakref.finalize(self, self._output.close)

    @property
    def url(self) -> str:
        """Address for clients, with the default user and the default virtual host."""
        return f"amqp://guest:guest@{self.host}:{self.port}/"

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def processor_seconds(self) -> float:
        """What the process has taken of processors so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def children(self) -> list[int]:
        """The processes that it has started."""
        file = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(child) for child in file.read_text().split()] if file.exists() else []

    @property
    def sockets(self) -> int:
        """How many sockets the process has; other files come and go by themselves."""
        links = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(entry))
        return sum(link.startswith("socket:") for link in links)

    def start(self) -> BrokerProcess:
        """Start the process and wait for its ready line.

        Raises:
            BrokerFailed: it ended or printed no ready line within `READY_SECONDS_MAX`.
        """
        begin = len(self.log_text())
        environment = self._process_environment()
        if self._may_be_forked:
            self._process = nursery().fork(self._arguments(), environment, self._output)
        else:
            self._process = subprocess.Popen(
                self._command(),
                cwd=ROOT,
                env=environment,
                stdout=self._output,
                stderr=subprocess.STDOUT,
            )
        self._wait_until_ready(begin)
        return self

    @property
    def _may_be_forked(self) -> bool:
        # Not where an interpreter, or a library, looks at a variable when it is loaded.
        is_plain = all(name.startswith("ROUTELOG_") for name in self._environment)
        return is_plain and not self._within and not EXECUTED & {*os.environ, *self._environment}

    def kill(self) -> None:
        """End the process as a crash does: SIGKILL, no goodbye."""
        self.signal(signal.SIGKILL)
        self._wait_until_stopped()

    def terminate(self) -> int:
        """Ask the process to stop (SIGTERM) and wait.

        Returns:
            Its exit status.

        Raises:
            BrokerFailed: it was still there after `STOP_SECONDS_MAX`; it has been killed then.
        """
        self.signal(signal.SIGTERM)
        return self._wait_until_stopped()

    def terminate_group(self) -> int:
        """The same, of all processes of its group at once, as systemd does; it leads the group."""
        os.killpg(self.pid, signal.SIGTERM)
        return self._wait_until_stopped()

    def restart(self) -> None:
        """Stop gracefully and start again on the same data and port."""
        self.terminate()
        self.start()

    def stop(self) -> None:
        """End the process at once if it runs: for the end of a test, whatever happened in it."""
        if self.alive:
            self.kill()

    def log_text(self) -> str:
        """Everything printed so far, all runs together, standard output and error mixed."""
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def _command(self) -> list[str]:
        program = shlex.split(os.environ.get(COMMAND_VARIABLE, ""))
        return [
            *self._within,
            *(program or [sys.executable, "-m", "routelog"]),
            *self._arguments(),
        ]

    def _arguments(self) -> list[str]:
        return [
            "serve",
            *("--host", self.host),
            *("--port", str(self.port)),
            *("--data-dir", str(self.data_dir)),
        ]

    def _process_environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": path, **TEST_LIMITS, **self._environment}

    def _wait_until_ready(self, begin: int) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (ready := READY_LINE.search(self.log_text(), begin)):
            if not self.alive or time.monotonic() > deadline:
                state = "was not ready in time" if self.alive else "ended before it was ready"
                self.signal(signal.SIGKILL)
                self._wait_until_stopped()
                raise BrokerFailed(f"the broker {state}; it printed:\n{self.log_text()}")
            time.sleep(0.02)
        self.port = int(ready[2])
        self.pid = int(ready[4])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self.alive:
            self._process.send_signal(number)

    def _wait_until_stopped(self) -> int:
        if self._process is None:
            return 0
        try:
            status = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise BrokerFailed(f"no end after SIGTERM; it printed:\n{self.log_text()}") from None
        return status
