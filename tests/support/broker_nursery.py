"""Forks brokers from a process that has loaded one: most of a start is imports.

A broker that is forked is as one that is executed: it has its own arguments, environment, umask, folder and
output.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "routelog.__main__",
    "routelog.node_commands",
    "routelog.management.server.server",
)
_MESSAGE_BYTES_MAX = 128 * 1024


class ForkedBroker:
    """A broker's process, with what `subprocess.Popen` has for a child of one's own.

    Attributes:
        returncode: its status, once it is known to have ended.
    """

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its status; None: it runs."""
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Its status, as soon as it has one, or after some seconds at most.

        Raises:
            subprocess.TimeoutExpired: it runs still, after so many seconds.
        """
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired("a broker", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, seconds: float | None) -> bool:
        if self.returncode is None and select.select([self._end], [], [], seconds)[0]:
            self.returncode = self._nursery.reap(self.pid)
            os.close(self._end)
        return self.returncode is not None


class Nursery:
    """The process that forks them, from here; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", "support.broker_nursery", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes]
    ) -> ForkedBroker:
        """Start a broker.

        Args:
            arguments: behind `routelog`.
            environment: all of it.
            output: of both kinds.
        """
        asked = {"arguments": arguments, "environment": environment, "umask": _umask()}
        return ForkedBroker(self, self._ask(asked, output.fileno()))

    def reap(self, pid: int) -> int:
        """Status of a broker that has ended."""
        return self._ask({"reap": pid})

    def _ask(self, question: Mapping[str, object], *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(question).encode()], descriptors)
            return int(self._socket.recv(_MESSAGE_BYTES_MAX))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@cache
def nursery() -> Nursery:
    """The one of this process."""
    return Nursery()


def main() -> None:
    """Fork what is asked for, until nobody asks any more."""
    program: Any
    program, *_ = map(import_module, LOADED)
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        while True:
            question, descriptors, _, _ = socket.recv_fds(asked, _MESSAGE_BYTES_MAX, 1)
            if not question:
                return
            wanted = json.loads(question)
            if "reap" in wanted:
                _, status = os.waitpid(wanted["reap"], 0)
                asked.send(b"%d" % os.waitstatus_to_exitcode(status))
                continue
            pid = os.fork()
            if not pid:
                break
            asked.send(b"%d" % pid)
            os.close(*descriptors)
    output, arguments = *descriptors, wanted["arguments"]
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.umask(wanted["umask"])
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv[:] = ["routelog", *arguments]
    sys.orig_argv[:] = [sys.executable, "-m", "routelog", *arguments]
    program.main()


if __name__ == "__main__":
    main()
