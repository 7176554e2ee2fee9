"""How many connections, channels and queues a broker opens and closes a second."""

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pamqp import commands

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.counters import WORKERS_MAX, Counter, Counters
from routelog.benchmarks.traffic.processes import Processes
from routelog.benchmarks.traffic.unexpected import BadRequest

Cycle = Callable[[], None]


@dataclass(frozen=True)
class Churn:
    """Rates of opening and closing; each process does it one after the other."""

    connections: float
    channels: float
    queues: float


def measure_churn(uri: str, seconds: float, parallel: int, *, durable: bool) -> Churn:
    """Measure each kind for so many seconds.

    Args:
        parallel: processes, 1 to 4.
        durable: of the queues.

    Raises:
        RunFailed: the broker could not be used, or stalled.
    """
    if not 1 <= parallel <= WORKERS_MAX:
        raise BadRequest(f"1 to {WORKERS_MAX} processes at the same time")

    def queues() -> Cycle:
        connection, name = Connection(uri), f"bench.{os.getpid()}.churn"

        def cycle() -> None:
            declare = commands.Queue.Declare(queue=name, durable=durable)
            connection.call(declare, commands.Queue.DeclareOk)
            connection.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)

        return cycle

    def channels() -> Cycle:
        connection = Connection(uri)

        def cycle() -> None:
            close = commands.Channel.Close(200, "done", 0, 0)
            connection.call(close, commands.Channel.CloseOk)
            connection.call(commands.Channel.Open(), commands.Channel.OpenOk)

        return cycle

    def connections() -> Cycle:
        return lambda: Connection(uri).close()

    return Churn(
        connections=_per_second(connections, seconds, parallel),
        channels=_per_second(channels, seconds, parallel),
        queues=_per_second(queues, seconds, parallel),
    )


def _per_second(make: Callable[[], Cycle], seconds: float, parallel: int) -> float:
    counters = Counters()

    def work(worker: int) -> None:
        cycle, count = make(), 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            cycle()
            count += 1
            counters.put(Counter.RECEIVED, count, worker)

    started = time.monotonic()
    with Processes() as processes:
        for worker in range(parallel):
            processes.start(functools.partial(work, worker))
        processes.sleep(seconds)
        processes.join()
    return counters[Counter.RECEIVED] / (time.monotonic() - started)
