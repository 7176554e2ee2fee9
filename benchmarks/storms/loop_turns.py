"""Single turns of a broker's loop: from what `epoll_pwait` gives to its next call, by the clock of its thread.

`loop_turns.c` stands before the call in the broker's process and writes them down. What other work, or the
host of a virtual machine, takes away from the loop's thread meanwhile is not counted, where the system tells
it apart; what the thread itself waits for, a lock or a disk, is.
"""

import struct
import subprocess
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_TURN = struct.Struct("@5q")  # `struct turn`
SECONDS_MIN = 0.0002  # shorter turns are not written down


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the loop.

    Args:
        begin: seconds of the monotonic clock.
        seconds: how long it held the loop; where the thread waited for something, what a host took is in it.
        cpu_seconds: what of that the thread was running; it waited for the rest.
    """

    begin: float
    seconds: float
    cpu_seconds: float


class LoopTurns:
    """Turns of one process's first thread, that are not very short.

    Args:
        folder: where the recording and its library go.

    Attributes:
        are_known: there is a compiler, so they are written down.
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
        """Of the process, when it starts."""
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
    """Those that began in a stretch of the monotonic clock."""
    first = bisect_left(turns, begin, key=_begin)
    return turns[first : bisect_left(turns, end, key=_begin)]


def _begin(turn: Turn) -> float:
    return turn.begin
