"""One run of one case against one broker: queue, warm-up, measured window, drain, check."""

import os
import time
from dataclasses import dataclass

from pamqp import commands

from benchmarks.cases import Case
from benchmarks.connection import Connection
from benchmarks.consumer import Consumer
from benchmarks.counters import Counter, Counters
from benchmarks.machine import busy_share
from benchmarks.processes import Processes
from benchmarks.producer import Producer
from benchmarks.unexpected import RunFailed

_BUSY_SECONDS = 0.3


@dataclass(frozen=True)
class Throughput:
    """Messages per second within the measured window.

    Args:
        confirmed: 0 without confirms.
        busy_before: share of the cores in use just before the run, by work that is not ours.
    """

    received: float
    confirmed: float
    busy_before: float


def measure(url: str, case: Case, warm_up_seconds: float, seconds: float) -> Throughput:
    """Run a case and check that every published message was received, once and in order.

    Raises:
        RunFailed: the broker stalled, lost something or said something unexpected.
    """
    queue = f"bench.{os.getpid()}"
    control = Connection(url)
    declare = commands.Queue.Declare(queue=queue, durable=case.durable)
    control.call(declare, commands.Queue.DeclareOk)
    try:
        throughput = _run(url, queue, case, warm_up_seconds, seconds)
    finally:
        deleted = control.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
        control.close()
    if deleted.message_count:
        raise RunFailed(f"{deleted.message_count} messages were left in the queue")
    return throughput


def _run(url: str, queue: str, case: Case, warm_up_seconds: float, seconds: float) -> Throughput:
    busy_before = busy_share(_BUSY_SECONDS)
    counters = Counters()
    with Processes() as processes:
        processes.start(lambda: Consumer(url, queue, case, counters).run())
        processes.start(lambda: Producer(url, queue, case, counters).run())
        while not counters[Counter.READY]:
            processes.sleep(0.01)
        processes.sleep(warm_up_seconds)
        before = _sample(counters)
        processes.sleep(seconds)
        after = _sample(counters)
        counters[Counter.STOP] = 1
        processes.join()
    published, received = counters[Counter.PUBLISHED], counters[Counter.RECEIVED]
    if published != received:
        raise RunFailed(f"{published} messages were published, {received} received")
    elapsed = after[0] - before[0]
    received_rate, confirmed_rate = ((after[i] - before[i]) / elapsed for i in (1, 2))
    return Throughput(received_rate, confirmed_rate, busy_before)


def _sample(counters: Counters) -> tuple[float, int, int]:
    return time.monotonic(), counters[Counter.RECEIVED], counters[Counter.CONFIRMED]
