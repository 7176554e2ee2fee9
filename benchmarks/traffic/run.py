"""One run of a workload against one broker: declare, start, measure, stop, check, remove."""

import contextlib
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.consumer import ConsumerWorker, Watch
from routelog.benchmarks.traffic.counters import WORKERS_MAX, Counter, Counters
from routelog.benchmarks.traffic.processes import Child, Processes
from routelog.benchmarks.traffic.producer import ProducerWorker
from routelog.benchmarks.traffic.topology import Topology, removed_quietly
from routelog.benchmarks.traffic.unexpected import MessagesWrong
from routelog.benchmarks.traffic.workload import Workload

_TICK_SECONDS = 0.1  # between looks at a run that goes on
_POLL_SECONDS = 0.002  # where the moment of an end is the figure
_run_numbers = itertools.count(1)


OnTick = Callable[["Sample"], None]
CpuSeconds = Callable[[], float]  # of a broker since its start


@dataclass(frozen=True)
class Sample:
    """What had happened by a time, in monotonic seconds; processor time is the broker's, 0 if not known."""

    seconds: float
    published: int
    confirmed: int
    received: int
    cpu_seconds: float = 0.0


class Run:
    """The processes of one workload, and what they count.

    Nothing is published before `go`, and everything that was has to be there at the end: see `finish`.
    """

    def __init__(
        self,
        uri: str,
        topology: Topology,
        processes: Processes,
        on_tick: OnTick | None,
        cpu: CpuSeconds | None,
    ) -> None:
        self.topology = topology
        self._on_tick = on_tick
        self._cpu = cpu
        self.counters = Counters()
        self._uri = uri
        self._processes = processes
        self._ready_wanted = 0
        self._consumers: list[Child] = []
        self._producers: list[Child] = []
        self._is_abandoned = False

    def start_consumers(self, watch: Watch | None = None) -> None:
        """Subscribe all consumers, and wait until they are; `results` has what `watch` found."""
        self._consumers = self._start(
            self.topology.workload.consumers,
            lambda numbers, slot: ConsumerWorker(
                self._uri, self.topology, numbers, slot, self.counters, watch
            ).run(),
            first_slot=0,
        )

    def start_producers(
        self, instead: Callable[[], object] | None = None, *, run_ahead: bool = False
    ) -> None:
        """Connect all producers, and wait until they are.

        Args:
            instead: does a single producer's work its own way; `results` has what it gives.
            run_ahead: whether they wait for no consumer.
        """

        def work(numbers: range, slot: int) -> object:
            if instead is not None:
                return instead()
            worker = ProducerWorker(
                self._uri, self.topology, numbers, slot, self.counters, run_ahead
            )
            worker.run()
            return None

        count = self.topology.workload.producers
        self._producers = self._start(count, work, first_slot=WORKERS_MAX)

    def _start(
        self, count: int, work: Callable[[range, int], object], first_slot: int
    ) -> list[Child]:
        workers = min(count, WORKERS_MAX)
        children = [
            self._processes.start(
                functools.partial(work, range(worker, count, workers), first_slot + worker)
            )
            for worker in range(workers)
        ]
        self._ready_wanted += count
        self.until(lambda: self.counters[Counter.READY] >= self._ready_wanted)
        return children

    def go(self, after_seconds: float = 0.0) -> None:
        """Let the producers begin."""
        self.counters.put(Counter.GO, time.monotonic_ns() + int(after_seconds * 1e9))

    def sleep(self, seconds: float) -> None:
        """Sleep, but raise at once when a process fails."""
        self.until(lambda: False, seconds, _TICK_SECONDS)

    def results(self) -> list[list[Any]]:
        """What the processes gave, when all have ended: those of the consumers, those of the producers."""
        return [self._processes.results(each) for each in (self._consumers, self._producers)]

    def sample(self) -> Sample:
        """Read all counters at this moment."""
        read = self.counters
        return Sample(
            time.monotonic(),
            read[Counter.PUBLISHED],
            read[Counter.CONFIRMED],
            read[Counter.RECEIVED],
            self._cpu() if self._cpu is not None else 0.0,
        )

    def window(self, warm_up_seconds: float, seconds: float) -> tuple[Sample, Sample]:
        """Let it run; gives what the counters said at the window's two ends.

        The warm-up begins when the first message has come, or is confirmed where nobody consumes.
        """
        moved = Counter.RECEIVED if self.topology.workload.consumers else Counter.CONFIRMED
        self.until(lambda: self.counters[moved] > 0)
        self.sleep(warm_up_seconds)
        before = self.sample()
        self.sleep(seconds)
        return before, self.sample()

    def until_all_published(self) -> None:
        """Wait until as much is published, and confirmed, as the workload wants in all."""
        workload = self.topology.workload
        done = Counter.CONFIRMED if workload.confirms_in_flight else Counter.PUBLISHED
        self.until(lambda: self.counters[done] >= workload.messages)

    def until_all_received(self) -> Sample:
        """Wait until every message published so far is there."""
        wanted = self.counters[Counter.PUBLISHED] * self.topology.workload.copies
        self.until(lambda: self.counters[Counter.RECEIVED] >= wanted)
        return self.sample()

    def until(
        self,
        condition: Callable[[], bool],
        seconds: float = math.inf,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Wait for a condition, but raise at once when a process fails.

        Args:
            seconds: wait no longer.
            poll_seconds: between looks at it.
        """
        end = time.monotonic() + seconds
        told = 0.0
        while not condition() and (now := time.monotonic()) < end:
            self._processes.sleep(min(poll_seconds, end - now))
            if self._on_tick is not None and now >= told:
                self._on_tick(self.sample())
                told = now + _TICK_SECONDS

    def finish(self) -> None:
        """Stop publishing, wait until all is confirmed and received, and compare.

        Raises:
            MessagesWrong: something was lost or doubled.
            RunFailed: a process failed, or did not end.
        """
        self.counters.put(Counter.STOP, 1)
        self._processes.join(self._producers)
        self.counters.put(Counter.DONE, 1)
        self._processes.join()
        if self.topology.workload.consumers:
            self._compare()

    def _compare(self) -> None:
        copies = self.topology.workload.copies
        wanted, received = (
            self.counters[Counter.PUBLISHED] * copies,
            self.counters[Counter.RECEIVED],
        )
        if received != wanted:
            raise MessagesWrong(f"{wanted} messages were to come, {received} were received")
        if self.counters[Counter.SENT_SUM] * copies != self.counters[Counter.RECEIVED_SUM]:
            raise MessagesWrong(
                "as many were lost as doubled: the numbers received are not those sent"
            )

    def abandon(self) -> None:
        """Do not ask what is left in the queues: the consumers end before they are empty."""
        self._is_abandoned = True

    def check_left(self, messages: int) -> None:
        """Compare what was left in the queues with what belongs there.

        Raises:
            MessagesWrong: they had too many, or too few.
        """
        workload = self.topology.workload
        if workload.reads_log and not messages:
            return  # RabbitMQ does not say what a stream had that is deleted
        stay = workload.reads_log or not workload.consumers
        wanted = self.counters[Counter.PUBLISHED] * workload.copies if stay else 0
        if messages != wanted and not self._is_abandoned:
            raise MessagesWrong(f"{messages} messages were left in the queues, not {wanted}")


@contextlib.contextmanager
def started(
    uri: str,
    workload: Workload,
    on_tick: OnTick | None = None,
    cpu: CpuSeconds | None = None,
) -> Iterator[Run]:
    """A run whose exchange, queues and bindings are there as long as it is.

    Args:
        on_tick: called about ten times a second while it goes on.
        cpu: asks for the broker's processor time; None where it is not ours to ask.

    Raises:
        BadRequest: the workload makes no sense.
        BrokerRefused: the broker does not let us in, or does not have what the workload needs.
        MessagesWrong: something was left in the queues, or missing there.
    """
    workload.check()
    topology = Topology(workload, f"bench.{os.getpid()}.{next(_run_numbers)}")
    control = Connection(uri)
    try:
        topology.declare(control)
        topology.prepare()
        with Processes() as processes:
            run = Run(uri, topology, processes, on_tick, cpu)
            yield run
        run.check_left(topology.delete(control))
        control.close()
    except BaseException:
        control.socket.close()
        removed_quietly(topology, uri)
        raise
