"""The parent of several processes of one node: starts, starts again what has died, and ends in order.

    parent ─┬─ process 1: a broker on its own, with the data
            ├─ process 2 ─┐
            └─ process … ─┴ fronts: they serve clients by way of process 1

They inherit the listening sockets. The parent has no event loop and no threads: it waits for signals. Terminals
and service managers may send one to all processes: the parent alone heeds it, and tells the others by its own,
at the same time. Process 1 closes its clients, and waits for the fronts to close theirs.
"""

import ctypes
import gc
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from routelog.broker.listeners.listening_sockets import ListeningSockets
from routelog.broker.listeners.shared_page import SharedPage
from routelog.log_backend import Clock

log = logging.getLogger(__name__)

LEADER = 1  # number of the process that has the data

RESTART_SECONDS_MIN = 1.0  # between two starts of a process
# For fronts to end, as the one that has the data waits for them; that one takes as long as it takes.
END_SECONDS_MAX = 15.0
LOOK_SECONDS = 0.02  # at what starts
IDLE_SECONDS = 3600.0

CANNOT_START = 1, 2  # statuses of a process that another start would not help: see the command line
FAILED = 3  # of one that an error of ours has ended

TOLD_TO_END = signal.SIGUSR1  # by the parent

_PR_SET_PDEATHSIG = 1
_TO_END = signal.SIGTERM, signal.SIGINT
_SIGNALS = {*_TO_END, signal.SIGHUP, signal.SIGCHLD}


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """One of several processes of a node.

    Attributes:
        number: from 1.
        sockets: where all of them accept clients of AMQP.
    """

    number: int
    page: SharedPage
    sockets: ListeningSockets

    @property
    def leads(self) -> bool:
        """Whether it has the data."""
        return self.number == LEADER

    def name(self, node: str, number: int = 0) -> str:
        """What the processes of a node call each other: this one, or another one."""
        return f"{node}/{number or self.number}"


@dataclass(slots=True)
class _Child:
    number: int
    process: int = 0  # 0: it does not run
    started_at: float = 0.0


class Processes:
    """Runs the processes of a node until SIGTERM or SIGINT.

    Args:
        serve: is one of them, in it; returns its exit status.
        on_ready: called once, when all of them take clients.
        on_stop: called when the end begins.
    """

    def __init__(
        self,
        page: SharedPage,
        sockets: ListeningSockets,
        serve: Callable[[ProcessPlace], int],
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._page = page
        self._sockets = sockets
        self._serve = serve
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._clock = clock
        self._children = {number: _Child(number) for number in page.all}
        self._is_ready = False
        self._status = 0
        self._end_by: float | None = None  # None: nobody has asked for the end

    def run(self) -> int:
        """Run them; returns the exit status."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        gc.freeze()  # what children do not touch, they share
        while True:
            self._reap()
            if self._end_by is None:
                self._start_due()
                self._look_ready()
            elif not any(child.process for child in self._children.values()):
                return self._status
            elif self._clock.monotonic() >= self._end_by:
                self._tell(signal.SIGKILL, fronts_only=True)
            got = signal.sigtimedwait(_SIGNALS, self._wait_seconds())
            if got is not None:
                self._take(signal.Signals(got.si_signo))

    def _take(self, number: signal.Signals) -> None:
        if number in _TO_END:
            self._end(0)
        elif number is signal.SIGHUP:
            for child in self._children.values():
                if child.process and self._page.is_ready(child.number):
                    os.kill(child.process, signal.SIGHUP)

    # -- starts

    def _start_due(self) -> None:
        # The others need the first one: a fault in the configuration, or in the data, is told once.
        may_follow = self._is_ready or self._page.is_ready(LEADER)
        for child in self._children.values():
            is_due = self._clock.monotonic() >= child.started_at + RESTART_SECONDS_MIN
            is_first = not child.started_at
            if (
                not child.process
                and (is_first or is_due)
                and (child.number == LEADER or may_follow)
            ):
                self._start(child)

    def _start(self, child: _Child) -> None:
        child.started_at = self._clock.monotonic()
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError as error:
            log.error("process %d cannot be started: %s", child.number, error.strerror)
            return
        if not process:
            self._be(child.number, parent)
        child.process = process
        self._page.started(child.number, process)
        log.info("process %d of %d: %d", child.number, self._page.count, process)

    def _be(self, number: int, parent: int) -> NoReturn:
        # In the child.
        status = FAILED
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before
                os._exit(FAILED)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS.difference(_TO_END))
            status = self._serve(ProcessPlace(number, self._page, self._sockets))
        except BaseException:
            log.exception("process %d has failed", number)
        finally:
            logging.shutdown()
            os._exit(status)

    def _look_ready(self) -> None:
        if not self._is_ready and all(map(self._page.is_ready, self._page.all)):
            self._is_ready = True
            self._page.all_ready()
            self._on_ready()

    # -- ends

    def _reap(self) -> None:
        for child in self._children.values():
            if not child.process:
                continue
            process, status = os.waitpid(child.process, os.WNOHANG)
            if process:
                child.process = 0
                self._page.ended(child.number)
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, status: int) -> None:
        if self._end_by is not None:
            if status > 0 or (status < 0 and child.number == LEADER):
                self._status = status if status > 0 else FAILED
            return
        reason = f"signal {-status}" if status < 0 else f"status {status}"
        # A front may start when what it lacks is mended, certificates for instance: the others serve on.
        is_hopeless = status in CANNOT_START and child.number == LEADER
        if is_hopeless or not self._is_ready:
            log.error("process %d has ended, %s: all end", child.number, reason)
            self._end(status if status > 0 else FAILED)
        else:
            log.error("process %d has ended, %s: it is started again", child.number, reason)

    def _end(self, status: int) -> None:
        if self._end_by is None:
            self._status = status
            self._end_by = self._clock.monotonic() + END_SECONDS_MAX
            self._on_stop()
            self._page.all_end()
            self._sockets.refuse()  # or clients would go from one process to the next
            self._tell(TOLD_TO_END)

    def _tell(self, number: signal.Signals, *, fronts_only: bool = False) -> None:
        for child in self._children.values():
            if child.process and not (fronts_only and child.number == LEADER):
                os.kill(child.process, number)

    def _wait_seconds(self) -> float:
        if self._end_by is not None or not self._is_ready:
            return LOOK_SECONDS
        now = self._clock.monotonic()
        away = [each for each in self._children.values() if not each.process]
        due = [each.started_at + RESTART_SECONDS_MIN - now for each in away]
        return max(0.0, min(due, default=IDLE_SECONDS))
