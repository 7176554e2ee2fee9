"""How much memory the process may have: of the machine, or of its control groups.

Source: proc(5): cgroup; cgroups(7), "memory.max"
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from routelog.log_backend.doors.disk import read_small

PROC = Path("/proc")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
_BYTES_MAX = 65_536  # of a file there


def memory_limit(proc: Path = PROC, control_groups: Path = CONTROL_GROUPS) -> int:
    """The lowest limit that holds for this process, in bytes; what the system does not tell is none."""
    return min(_limits(proc / "self", control_groups))


def _limits(own: Path, control_groups: Path) -> Iterator[int]:
    yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _text(own / "cgroup").splitlines():
        number, _, name = line.partition("::")
        if number != "0":
            continue  # of version 1
        group = PurePosixPath(name.lstrip("/"))
        for folder in (group, *group.parents):
            limit = _text(control_groups / folder / "memory.max").strip()
            if limit.isdecimal():
                yield int(limit)


def _text(file: Path) -> str:
    try:
        return read_small(file, _BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""  # the root has no limit; a group may be out of sight
