"""Child processes of a measurement: forked, watched, and always ended."""

import gc
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Any, Self

from routelog.benchmarks.traffic.unexpected import BrokerRefused, RunFailed

Child = multiprocessing.process.BaseProcess
_FORK = multiprocessing.get_context("fork")


class Processes:
    """Runs functions in processes of their own; leaving the block ends those that still run."""

    def __init__(self) -> None:
        self._children: list[tuple[Child, Pipe]] = []

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

    def start(self, work: Callable[[], object]) -> Child:
        """Run `work`; its failure is raised by `check` or `join` in this process, as it was there."""
        here, there = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_reporting, args=(work, there), daemon=True)
        child.start()
        there.close()
        self._children.append((child, here))
        return child

    def check(self) -> None:
        """Raise the failure of a child that has ended with one; a refusal comes before what it caused."""
        ended = [(c, pipe) for c, pipe in self._children if not c.is_alive() and c.exitcode]
        failures = [_failure(child, pipe) for child, pipe in ended]
        if failures:
            raise max(failures, key=lambda failure: failure.exit_code)

    def sleep(self, seconds: float) -> None:
        """Sleep, but raise at once when a child fails."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.1))

    def join(self, some: Sequence[Child] | None = None) -> None:
        """Wait until some children have ended, or all; each gives up by itself when nothing moves.

        Raises:
            RunFailed: one of all failed.
        """
        waited_for = [child for child, _ in self._children] if some is None else some
        while any(child.is_alive() for child in waited_for):
            self.check()
            time.sleep(0.002)
        self.check()

    def results(self, children: Sequence[Child]) -> list[Any]:
        """What these children gave, which have ended; at most some kilobytes each."""
        return [pipe.recv() for child, pipe in self._children if child in children]


def _reporting(work: Callable[[], object], pipe: Pipe) -> None:
    # Only the parent tidies up; it ends this process with SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent's objects stay: to look at them, and so to copy their pages, stops a load for 60 ms.
    gc.freeze()
    try:
        pipe.send(work())
    except RunFailed as error:
        pipe.send(error)
    except OSError as error:
        pipe.send(BrokerRefused(f"{type(error).__name__}: {error}"))
    else:
        return
    raise SystemExit(1)


def _failure(child: Child, pipe: Pipe) -> RunFailed:
    try:
        if pipe.poll():
            failure = pipe.recv()
            if isinstance(failure, RunFailed):
                return failure
    except EOFError:
        pass
    return RunFailed(f"a process of the run ended with {child.exitcode}")
