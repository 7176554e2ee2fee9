"""A child process that may outlive the `execv` of its parent: a node that starts again goes on with it.

The parent keeps its number, so that the child stays its child, and ends with it as before. What changes is the
program that watches it: a variable of the environment tells the next one which process it is, and where what
it writes can be read.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence

import msgspec

KEPT_VARIABLE = "ROUTELOG_KEPT_CHILD"
_PR_SET_PDEATHSIG = 1
LINE_BYTES_MAX = 1 << 20  # of a line that a child writes


class _Kept(msgspec.Struct):
    pid: int
    errors: int  # file descriptor of the pipe that its standard error goes to
    command: list[str]


class ChildProcess:
    """Runs a child, or goes on with the one that an earlier program of this process has started.

    Attributes:
        errors: what it writes to its standard error.
        command: it was started with this.
        status: its exit status, negative for a signal; None: nobody has seen its end yet.
    """

    def __init__(self, pid: int, pipe: int, command: Sequence[str]) -> None:
        self.pid = pid
        self.command = [*command]
        self.errors = asyncio.StreamReader(LINE_BYTES_MAX)
        self.status: int | None = None
        self._ended = asyncio.Event()
        self._pipe = pipe
        self._popen: subprocess.Popen[bytes] | None = None

    @classmethod
    async def spawn(cls, command: Sequence[str]) -> "ChildProcess":
        """Start it.

        Raises:
            OSError: there is no such program, or no room for it.
        """
        popen, pipe = _started(command)
        child = cls(popen.pid, pipe, command)
        child._popen = popen
        await child._watch()
        return child

    @classmethod
    async def kept(cls) -> "ChildProcess | None":
        """The one that the program before this one has kept for it, if there is one."""
        told = os.environ.pop(KEPT_VARIABLE, "")
        if not told:
            return None
        kept = msgspec.json.decode(told, type=_Kept)
        os.set_inheritable(kept.errors, False)
        child = cls(kept.pid, kept.errors, kept.command)
        await child._watch()
        return child

    def keep(self) -> None:
        """Have it outlive the `execv` that comes next."""
        errors = os.dup(self._pipe)
        os.set_inheritable(errors, True)
        told = _Kept(self.pid, errors, self.command)
        os.environ[KEPT_VARIABLE] = msgspec.json.encode(told).decode()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing when it has ended."""
        # Nobody else waits for it, so its number is its own until its end has been seen here.
        if self.status is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Returns its exit status, when it has ended."""
        await self._ended.wait()
        assert self.status is not None
        return self.status

    def close(self) -> None:
        """Read nothing more of it."""
        self._transport.close()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        handle = os.pidfd_open(self.pid)
        loop.add_reader(handle, self._see_end, handle)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.errors), os.fdopen(self._pipe, "rb", 0)
        )

    def _see_end(self, handle: int) -> None:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        if self._popen is not None:
            self._popen.returncode = self.status
        self._ended.set()


def _started(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and where its standard error is read."""
    pipe, written = os.pipe()
    try:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=written,
            preexec_fn=_end_with_parent,
        )
    except BaseException:
        os.close(pipe)
        raise
    finally:
        os.close(written)
    return popen, pipe


def _end_with_parent() -> None:
    """In the child: the system ends it when the broker's main thread is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
