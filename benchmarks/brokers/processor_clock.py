"""The processor time of a broker that somebody else started on this machine."""

import contextlib
import ipaddress
import os
from pathlib import Path

from routelog.benchmarks.traffic.endpoint import Endpoint
from routelog.benchmarks.traffic.run import CpuSeconds
from routelog.benchmarks.traffic.unexpected import BadRequest

_STAT_USER, _STAT_SYSTEM = 11, 12  # fields after the name, from the state on
_ADDRESS, _STATE, _INODE = 1, 3, 9  # columns of /proc/net/tcp
_LISTENS = "0A"


def processor_clock(pid: int, endpoint: Endpoint) -> CpuSeconds | None:
    """Return what tells the processor time of a broker's process since its start.

    Args:
        pid: of the process; 0: that which listens at the endpoint, if that is on this machine.

    Returns:
        None when there is no such process here, or it is somebody else's.

    Raises:
        BadRequest: the process that was named is not here.
    """
    if pid and not Path(f"/proc/{pid}/stat").exists():
        raise BadRequest(f"there is no process {pid}")
    process = pid or (listening_process(endpoint.port) if _is_here(endpoint.host) else None)
    return None if process is None else lambda: _processor_seconds(process)


def listening_process(port: int) -> int | None:
    """The process that listens on a port of this machine; None when none is found."""
    sockets = {f"socket:[{inode}]" for inode in _listening_sockets(port)}
    for entry in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        with contextlib.suppress(OSError):  # it has ended, or it is somebody else's
            if os.readlink(entry) in sockets:
                return int(entry.parts[2])
    return None


def _listening_sockets(port: int) -> list[str]:
    found = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            columns = line.split()
            if columns[_STATE] == _LISTENS and columns[_ADDRESS].endswith(f":{port:04X}"):
                found.append(columns[_INODE])
    return found


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[_STAT_USER]) + int(fields[_STAT_SYSTEM])) / os.sysconf("SC_CLK_TCK")
