"""The machine's own limits, so that a broker's figure can be read against them."""

import os
import socket
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from routelog.benchmarks.traffic.counters import Counter, Counters
from routelog.benchmarks.traffic.processes import Processes
from routelog.benchmarks.traffic.publish_run import PublishRun

_READ_BYTES = 1_048_576
_WRITE_BYTES = 1_048_576
_WRITE_FILE_BYTES_MAX = 1024 * 1_048_576
_SYNC_FILE_BYTES = 16 * 1_048_576
_SYNC_WRITE_BYTES = 4096


@dataclass(frozen=True)
class Machine:
    """What the machine does without a broker.

    Args:
        relay_per_second: messages through a process that copies bytes from socket to socket, by body size.
        write_bytes_per_second: one file from its beginning to its end, 1 MiB at a time, synced at the end.
        sync_seconds_p50: of a write of 4 KiB and its fdatasync, in a file that is allocated.
    """

    cores: int
    relay_per_second: dict[int, float]
    write_bytes_per_second: float
    sync_seconds_p50: float
    sync_seconds_p99: float

    def __str__(self) -> str:
        """One line for people."""
        relay = ", ".join(
            f"{rate:,.0f} msg/s at {size:,} B" for size, rate in self.relay_per_second.items()
        )
        p50, p99 = self.sync_seconds_p50 * 1e6, self.sync_seconds_p99 * 1e6
        return (
            f"{self.cores} cores; bare relay over loopback: {relay}; "
            f"sequential write: {self.write_bytes_per_second / 1e6:,.0f} MB/s; "
            f"write + fdatasync of 4 KiB: p50 {p50:,.0f} µs, p99 {p99:,.0f} µs"
        )


def measure_machine(folder: Path, runs: dict[int, PublishRun], seconds: float) -> Machine:
    """Measure relay, write and sync one after the other.

    Args:
        folder: a place on the disk that the broker uses.
        runs: what to relay, by body size.
        seconds: of each measurement.
    """
    relay = {size: _relay_per_second(run, seconds) for size, run in sorted(runs.items())}
    written = _written_per_second(folder / "write-probe", seconds)
    syncs = sorted(_sync_seconds(folder / "sync-probe", seconds))
    p99 = syncs[int(len(syncs) * 0.99)]
    return Machine(os.cpu_count() or 1, relay, written, statistics.median(syncs), p99)


def busy_share(seconds: float) -> float:
    """The share of all cores' time in use, by whomever, during so many seconds from now."""
    idle_before, all_before = _cpu_ticks()
    time.sleep(seconds)
    idle, ticks = _cpu_ticks()
    return 1 - (idle - idle_before) / max(1, ticks - all_before)


def _cpu_ticks() -> tuple[int, int]:
    """Idle ticks (waiting for disks included) and all ticks since the machine started."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _relay_per_second(run: PublishRun, seconds: float) -> float:
    """Publishes through a process that copies bytes from socket to socket."""
    frames = run.encoded(0, run.messages_max)
    counters = Counters()
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    with listener, Processes() as processes:
        processes.start(lambda: _relay(listener))
        processes.start(lambda: _receive(address, counters))
        while not counters[Counter.READY]:
            processes.sleep(0.01)
        processes.start(lambda: _send(address, frames))
        processes.sleep(seconds * 0.25)
        started, before = time.monotonic(), counters[Counter.RECEIVED]
        processes.sleep(seconds)
        received = counters[Counter.RECEIVED] - before
        return received / (time.monotonic() - started) / run.publish_bytes


def _relay(listener: socket.socket) -> None:
    """Copy from the second connection to the first; the block that started it ends it."""
    receiver, _ = listener.accept()
    sender, _ = listener.accept()
    buffer = memoryview(bytearray(_READ_BYTES))
    while count := sender.recv_into(buffer):
        receiver.sendall(buffer[:count])


def _receive(address: tuple[str, int], counters: Counters) -> None:
    with socket.create_connection(address) as connection:
        counters.put(Counter.READY, 1)
        buffer = bytearray(_READ_BYTES)
        received = 0
        while count := connection.recv_into(buffer):
            received += count
            counters.put(Counter.RECEIVED, received)


def _send(address: tuple[str, int], frames: memoryview) -> None:
    with socket.create_connection(address) as connection:
        while True:
            connection.sendall(frames)


def _written_per_second(path: Path, seconds: float) -> float:
    block = memoryview(os.urandom(_WRITE_BYTES))  # a disk that packs what it stores gains nothing
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        started, written = time.perf_counter(), 0
        while written < _WRITE_FILE_BYTES_MAX and time.perf_counter() < started + seconds:
            written += os.write(file, block)
        os.fdatasync(file)
        return written / (time.perf_counter() - started)
    finally:
        os.close(file)
        path.unlink()


class SyncProbe:
    """A file whose blocks are allocated and written already, to be overwritten and synced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._syncs = 0
        os.pwrite(self._file, bytes(_SYNC_FILE_BYTES), 0)
        os.fsync(self._file)

    def sync_seconds(self) -> float:
        """Time of one write of 4 KiB and its fdatasync."""
        offset = self._syncs * _SYNC_WRITE_BYTES % _SYNC_FILE_BYTES
        self._syncs += 1
        started = time.perf_counter()
        os.pwrite(self._file, b"s" * _SYNC_WRITE_BYTES, offset)
        os.fdatasync(self._file)
        return time.perf_counter() - started

    def close(self) -> None:
        """Remove the file."""
        os.close(self._file)
        self._path.unlink()


def _sync_seconds(path: Path, seconds: float) -> list[float]:
    probe = SyncProbe(path)
    deadline = time.perf_counter() + seconds
    times = [probe.sync_seconds()]
    while time.perf_counter() < deadline:
        times.append(probe.sync_seconds())
    probe.close()
    return times
