"""The memory of idle connections: the broker's resident memory before, with and after them."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.run import OnTick, Sample
from routelog.benchmarks.traffic.unexpected import BadRequest

HEARTBEAT_SECONDS = 60
SPARE_FILES = 200  # open files of the broker, or of this process, beside the connections
SETTLE_SECONDS = 2.0  # until the memory of logins is freed
KIB = 1024

Memory = Callable[[], int]  # resident bytes of a broker


@dataclass(frozen=True)
class Idle:
    """The broker's resident memory, in bytes.

    Args:
        before: without the connections.
        connected: with all connections, idle.
        gone: after all were closed.
        each: growth for each connection.
        logins: a second, one after the other.
    """

    before: int
    connected: int
    gone: int
    each: float
    logins: float


def measure_idle(
    uri: str, connections: int, channels: int, memory: Memory, on_tick: OnTick | None = None
) -> Idle:
    """Log in so many connections with a heartbeat of 60 s, leave them alone, and close them.

    Args:
        channels: open on each.
        on_tick: called with the number of logins as it grows.

    Raises:
        BadRequest: this process may not open so many files.
        RunFailed: the broker refused or closed one of them.
    """
    raise_file_limit(connections)
    before = memory()
    began = time.monotonic()
    opened: list[Connection] = []
    try:
        while len(opened) < connections:
            opened.append(Connection(uri, channels=channels, heartbeat_seconds=HEARTBEAT_SECONDS))
            if on_tick is not None and len(opened) % 100 == 0:
                on_tick(Sample(time.monotonic(), len(opened), 0, 0))
        took = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        connected = memory()
        for connection in opened:
            connection.close()  # the broker may have closed it already
    finally:
        for connection in opened:
            connection.socket.close()
    time.sleep(SETTLE_SECONDS)
    each = (connected - before) / connections
    return Idle(before, connected, memory(), each, connections / took)


def resident_bytes(process: int) -> int:
    """The memory that a process has in use.

    Raises:
        BadRequest: there is no such process, or it has ended.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        raise BadRequest(f"process {process}: there is none") from None
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise BadRequest(f"process {process} has no memory of its own, or has ended")


def raise_file_limit(connections: int) -> None:
    """Let this process, and a broker that it starts from now on, have so many connections.

    Raises:
        BadRequest: the hard limit is lower.
    """
    wanted = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise BadRequest(f"needs {wanted:,} open files, but the hard limit is {hard:,}: ulimit -n")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
