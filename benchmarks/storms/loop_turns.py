"""Single turns of a broker's event loop: from the return of `epoll_pwait` to its next call.

`loop_turns.c` wraps the call in the broker's process and records the turns. Time that other processes, or the
host of a virtual machine, take from the thread is not counted, if the system reports it; time that the thread
waits for a lock or a disk is counted.
"""

import struct
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_TURN = struct.Struct("@5q")  # `struct turn`
SECONDS_MIN = 0.0002  # shorter turns are not recorded


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop.

    Args:
        begin: seconds of the monotonic clock.
        seconds: how long it held the loop; if the thread waited, with time that the host took.
        cpu_seconds: processor time of the thread in it.
    """

    begin: float
    seconds: float
    cpu_seconds: float


class LoopTurns:
    """The turns of one process's first thread, without very short ones.

    Args:
        folder: for the recording and its library.

    Attributes:
        are_known: turns are recorded: there is a compiler.
    """

    def __init__(self, folder: Path) -> None:
        self._record = folder / "turns"
        self._library = folder / "loop_turns.so"
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE), "-ldl"]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            self.are_known = False
        else:
            self.are_known = True

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment for the process."""
        if not self.are_known:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "LOOP_TURNS_FILE": str(self._record),
            "LOOP_TURNS_MIN_NS": str(round(SECONDS_MIN * 1e9)),
        }

    def all(self) -> Sequence[Turn]:
        """The turns so far, by their begin."""
        content = self._record.read_bytes() if self.are_known else b""
        return list(turns_of(content[: len(content) // _TURN.size * _TURN.size]))


def turns_of(content: bytes) -> Iterator[Turn]:
    """The turns in what the library wrote."""
    for begin, elapsed, running, delayed, waits in _TURN.iter_unpack(content):
        held = elapsed - delayed if waits else running
        yield Turn(begin / 1e9, held / 1e9, running / 1e9)


def between(turns: Sequence[Turn], begin: float, end: float) -> Sequence[Turn]:
    """The turns that began between two times of the monotonic clock."""
    first = bisect_left(turns, begin, key=_begin)
    return turns[first : bisect_left(turns, end, key=_begin)]


def _begin(turn: Turn) -> float:
    return turn.begin
