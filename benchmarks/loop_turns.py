"""Single turns of a broker's loop: from what `epoll_pwait` gives to its next call, as the kernel sees them.

Taken by `perf`, which needs root or the right to trace. What the machine takes away from the loop's thread
meanwhile, because other work uses the processor, is not counted; what the thread itself waits for, a lock or a
disk, is.
"""

import os
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ENTER, _EXIT = "syscalls:sys_enter_epoll_pwait", "syscalls:sys_exit_epoll_pwait"
_STOP_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop.

    Args:
        begin: seconds of the monotonic clock.
        seconds: how long it held the loop, without what the machine took.
        cpu_seconds: what of that the thread was running; it waited for the rest.
    """

    begin: float
    seconds: float
    cpu_seconds: float


class LoopTurns:
    """Turns of one thread, filled in when the recording has ended; by their begin.

    Attributes:
        are_known: the system let `perf` record.
    """

    def __init__(self) -> None:
        self.are_known = False
        self._turns: list[Turn] = []

    def fill(self, turns: Iterable[Turn]) -> None:
        """Take what was recorded."""
        self._turns = list(turns)
        self.are_known = True

    def between(self, begin: float, end: float) -> Sequence[Turn]:
        """The turns that began in a stretch of the monotonic clock."""
        first = bisect_left(self._turns, begin, key=_begin)
        return self._turns[first : bisect_left(self._turns, end, key=_begin)]


@contextmanager
def loop_turns(pid: int, folder: Path) -> Iterator[LoopTurns]:
    """Records the turns of a process's first thread, where the system lets us."""
    found = LoopTurns()
    program = shutil.which("perf")
    record = folder / "turns.perf"
    if program is None or (recorder := _Recorder(program, pid, record)).has_failed:
        yield found
        return
    try:
        yield found
    finally:
        recorder.stop()
    script = [program, "script", "-i", str(record), "--ns", "--show-switch-events"]
    done = subprocess.run(
        [*script, "-F", "time,event"], stdout=subprocess.PIPE, text=True, check=True
    )
    found.fill(turns_of(done.stdout.splitlines()))


class _Recorder:
    # `perf` that records already, unless it may not.
    def __init__(self, program: str, pid: int, record: Path) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        command = [program, "record", "-q", "-k", "CLOCK_MONOTONIC", "--switch-events", "-D", "-1"]
        command += ["-e", _ENTER, "-e", _EXIT, "-t", str(pid), "-o", str(record)]
        self._process = subprocess.Popen(
            [*command, f"--control=fd:{orders},{answers}"],
            pass_fds=(orders, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(orders)
        os.close(answers)
        self.has_failed = not self._carries_out(b"enable\n")
        if self.has_failed:
            self._end()

    def stop(self) -> None:
        self._carries_out(b"stop\n")
        self._end()

    def _carries_out(self, order: bytes) -> bool:
        try:
            os.write(self._orders, order)
        except BrokenPipeError:  # it has ended
            return False
        return os.read(self._answers, 16).startswith(b"ack")

    def _end(self) -> None:
        self._process.wait(_STOP_SECONDS)
        os.close(self._orders)
        os.close(self._answers)


def turns_of(lines: Iterable[str]) -> Iterator[Turn]:
    """The whole turns in what `perf script` prints of one thread, time and event a line."""
    begin: float | None = None
    out_at, taken, waited, is_taken = 0.0, 0.0, 0.0, False
    for line in lines:
        time_text, _, event = line.partition(":")
        at = float(time_text)
        if _EXIT in event:
            begin, taken, waited = at, 0.0, 0.0
        elif _ENTER in event:
            if begin is not None:
                yield Turn(begin, at - begin - taken, at - begin - taken - waited)
            begin = None
        elif " OUT" in event:
            out_at, is_taken = at, "preempt" in event
        elif " IN" in event and is_taken:
            taken += at - out_at
        elif " IN" in event:
            waited += at - out_at


def _begin(turn: Turn) -> float:
    return turn.begin
