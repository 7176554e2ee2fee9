"""The resources that the broker's process uses, and their limits.

Source: proc(5): stat, statm, status, fd
"""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from routelog.log_backend import CONTROL_GROUPS, PROC, memory_limit, read_small

_BYTES_MAX = 65_536  # of a file there


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """A snapshot of the usage.

    Attributes:
        memory_bytes, memory_bytes_max: resident bytes; the limit of the machine or of the control groups.
        threads, threads_max: of the process; the limit of the user, or of the system.
        files: descriptors that are open.
    """

    memory_bytes: int
    memory_bytes_max: int
    threads: int
    threads_max: int
    files: int


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """What a process has, and has taken.

    Attributes:
        memory_bytes: resident; what it shares with others counts in each.
    """

    memory_bytes: int
    processor_seconds: float


def process_cost(process: int, proc: Path = PROC) -> ProcessCost | None:
    """The cost of any process; None: it is not there, or the system does not tell."""
    try:
        pages = int(_text(proc / str(process) / "statm").split()[1])
        fields = _text(proc / str(process) / "stat").rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return ProcessCost(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def process_usage(proc: Path = PROC, control_groups: Path = CONTROL_GROUPS) -> ProcessUsage | None:
    """The usage of this process; None: the system does not provide it.

    Blocks for about a microsecond for each open descriptor: call it in a thread.
    """
    own = proc / "self"
    try:
        return ProcessUsage(
            memory_bytes=int(_text(own / "statm").split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            memory_bytes_max=memory_limit(proc, control_groups),
            threads=_threads(own),
            threads_max=_threads_max(proc),
            files=len(os.listdir(own / "fd")),
        )
    except OSError:
        return None


def _threads(own: Path) -> int:
    lines = _text(own / "status").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def _threads_max(proc: Path) -> int:
    of_user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if of_user != resource.RLIM_INFINITY:
        return of_user
    return int(_text(proc / "sys" / "kernel" / "threads-max"))


def _text(file: Path) -> str:
    return read_small(file, _BYTES_MAX).decode(errors="replace")
