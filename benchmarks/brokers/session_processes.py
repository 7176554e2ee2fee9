"""What the kernel counts of the processes of a session, as each broker that is measured has one of its own."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# Fields of /proc/PID/stat after the name, from the state on
_SESSION, _USER, _SYSTEM, _PAGES = 3, 11, 12, 21


def processor_seconds(session: int) -> float:
    """Processor time since they started, of those that run."""
    ticks = sum(int(f[_USER]) + int(f[_SYSTEM]) for f in _processes(session))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(session: int) -> int:
    """Resident memory."""
    return sum(int(f[_PAGES]) for f in _processes(session)) * os.sysconf("SC_PAGE_SIZE")


def _processes(session: int) -> Iterator[list[str]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that ends meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield fields
