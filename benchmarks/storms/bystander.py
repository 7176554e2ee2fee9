"""The bystander: a client in a process of its own that publishes and waits for the confirm, repeatedly."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from pamqp import commands, frame

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.frames import CHANNEL, content_frames

_FORK = multiprocessing.get_context("fork")
PAUSE_SECONDS = 0.0005  # between two round trips: the bystander must not be a load
_QUEUE, _BODY_BYTES = "bench.bystander", 100


class Waits:
    """Round trips of a bystander, filled in at its end.

    Attributes:
        seconds: from each publish to its confirm, sorted.
        loop_seconds: processor time of the broker's first thread in each of them, sorted: how long the loop was
            held, without the time of other processes.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.loop_seconds: list[float] = []

    def fill(self, waits: Sequence[tuple[float, float]]) -> None:
        """Fill in what the bystander measured."""
        self.seconds = sorted(wait for wait, _ in waits)
        self.loop_seconds = sorted(running for _, running in waits)

    def figures(self) -> tuple[float, ...]:
        """Seconds: the median, p99 and longest wait, and the longest that the loop worked in one."""
        count = len(self.seconds)
        shares = self.seconds[count // 2], self.seconds[int(count * 0.99)]
        return *shares, self.seconds[-1], self.loop_seconds[-1]


@contextmanager
def bystander(url: str, pid: int) -> Iterator[Waits]:
    """Publishes to a queue of level `memory`, so that it waits for the broker and not for the disk.

    Args:
        pid: process of the broker.
    """
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_ping, args=(url, pid, theirs))
    process.start()
    waits = Waits()
    try:
        ours.recv()  # it is ready
        yield waits
        ours.send(None)
        waits.fill(ours.recv())
    finally:
        if not waits.seconds:
            process.kill()
        process.join()


def _ping(url: str, pid: int, pipe: Pipe) -> None:
    running = Path(f"/proc/{pid}/task/{pid}/schedstat")
    publisher = _Publisher(url)
    publisher.confirm_seconds()
    pipe.send(None)
    found: list[tuple[float, float]] = []
    while not (found and pipe.poll()):
        before = _running_seconds(running)
        seconds = publisher.confirm_seconds()
        found.append((seconds, _running_seconds(running) - before))
        time.sleep(PAUSE_SECONDS)
    pipe.send(found)
    publisher.close()


class _Publisher:
    """Has one persistent message in flight."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url)
        declare = commands.Queue.Declare(
            queue=_QUEUE, durable=True, arguments={"x-durability": "memory"}
        )
        self._connection.call(declare, commands.Queue.DeclareOk)
        self._connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        publish = frame.marshal(commands.Basic.Publish(routing_key=_QUEUE), CHANNEL)
        self._message = publish + content_frames(0, _BODY_BYTES, persistent=True)
        self._tally, self._published = ConfirmTally(), 0

    def confirm_seconds(self) -> float:
        """Time from a publish to its confirm."""
        started = time.perf_counter()
        self._connection.send(self._message)
        self._published += 1
        while self._tally.confirmed != self._published:
            self._tally.feed(self._connection.receive())
        return time.perf_counter() - started

    def close(self) -> None:
        """Delete the queue and leave."""
        self._connection.call(commands.Queue.Delete(queue=_QUEUE), commands.Queue.DeleteOk)
        self._connection.close()


def _running_seconds(statistics: Path) -> float:
    # The first number: nanoseconds on a processor.
    return int(statistics.read_text().split()[0]) / 1e9
