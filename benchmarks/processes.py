"""Child processes of a measurement: forked, watched, and always ended."""

import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Self

from benchmarks.unexpected import RunFailed

_FORK = multiprocessing.get_context("fork")
END_SECONDS = 60  # a backlog of 200,000 messages drains in far less, at 10,000 a second even


class Processes:
    """Runs functions in processes of their own; leaving the block ends those that still run."""

    def __init__(self) -> None:
        self._children: list[tuple[multiprocessing.process.BaseProcess, Pipe]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child, _ in self._children:
            if child.is_alive():
                child.terminate()
            child.join()

    def start(self, work: Callable[[], None]) -> None:
        """Run `work`; its failure is raised by `check` or `join` in this process."""
        here, there = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_reporting, args=(work, there), daemon=True)
        child.start()
        there.close()
        self._children.append((child, here))

    def check(self) -> None:
        """Raise the failure of a child that has ended with one."""
        for child, pipe in self._children:
            if not child.is_alive() and child.exitcode:
                raise RunFailed(_failure(pipe) or f"a process ended with {child.exitcode}")

    def sleep(self, seconds: float) -> None:
        """Sleep, but raise at once when a child fails."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.1))

    def join(self) -> None:
        """Wait until all children have ended.

        Raises:
            RunFailed: one failed, or did not end in time.
        """
        deadline = time.monotonic() + END_SECONDS
        while any(child.is_alive() for child, _ in self._children):
            if time.monotonic() > deadline:
                raise RunFailed(f"the run did not end within {END_SECONDS} s")
            self.check()
            time.sleep(0.01)
        self.check()


def _reporting(work: Callable[[], None], pipe: Pipe) -> None:
    # Only the parent tidies up; it ends this process with SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work()
    except (RunFailed, OSError) as error:
        pipe.send(f"{type(error).__name__}: {error}")
        raise SystemExit(1) from None


def _failure(pipe: Pipe) -> str:
    try:
        return str(pipe.recv()) if pipe.poll() else ""
    except EOFError:
        return ""
