"""Latency at a fixed rate, as an open loop: messages are sent when they are due, whatever came back by then.

A message's latency counts from the time it was due, not from the time it was sent: a broker that stops for a
second is charged for every message of that second.

Source: https://github.com/giltene/wrk2#acknowledgements (coordinated omission)
"""

import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from hdrh.histogram import HdrHistogram
from pamqp import commands

from routelog.benchmarks.traffic.confirms import ConfirmTally
from routelog.benchmarks.traffic.connection import STALL_SECONDS, Connection
from routelog.benchmarks.traffic.counters import WORKERS_MAX, Counter
from routelog.benchmarks.traffic.publish_run import publishes_of
from routelog.benchmarks.traffic.run import OnTick, Run, started
from routelog.benchmarks.traffic.unexpected import BadRequest, BrokerStalled, unexpected
from routelog.benchmarks.traffic.workload import Workload

_SECONDS_MAX = 600  # longer latencies count as this
_SIGNIFICANT_DIGITS = 3
# From the start signal to the first message, so that all processes have seen it
_START_SECONDS = 0.02
_NANOSECONDS = 1_000_000_000
# Linux may let a sleeper sleep 50 µs longer to wake several at once; half the gap at 10,000 a second.
_TIMER_SLACK = Path("/proc/self/timerslack_ns")


@dataclass(frozen=True)
class Percentiles:
    """A distribution of times, in seconds."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    count: int

    @classmethod
    def of(cls, encoded: bytes) -> Self:
        """Read an encoded histogram of microseconds."""
        histogram = HdrHistogram.decode(encoded)

        def seconds(level: float) -> float:
            return float(histogram.get_value_at_percentile(level)) / 1e6

        return cls(
            p50=seconds(50),
            p90=seconds(90),
            p99=seconds(99),
            p999=seconds(99.9),
            max=seconds(100),
            count=histogram.get_total_count(),
        )


@dataclass(frozen=True)
class Latency:
    """Times from when messages were due.

    Args:
        delivered: until the consumer had it.
        confirmed: until the producer had the confirm; None without confirms. The n-th confirm counts for the
            n-th message.
        sent: until it was sent: the part of the others that the load generator adds.
    """

    delivered: Percentiles
    confirmed: Percentiles | None
    sent: Percentiles


@dataclass(frozen=True)
class Schedule:
    """The times at which messages are due.

    Args:
        rate: messages a second.
        messages: in all.
        skipped: messages of the warm-up, at the start.
    """

    rate: float
    messages: int
    skipped: int

    def due(self, number: int) -> int:
        """Nanoseconds from the start to message `number`, counted from 0."""
        return int(number * _NANOSECONDS / self.rate)

    def due_by(self, nanoseconds: int) -> int:
        """Messages that are due by a time after the start."""
        if nanoseconds < 0:
            return 0
        return min(self.messages, int(nanoseconds * self.rate / _NANOSECONDS) + 1)


class Times:
    """The times at which messages came; at the end, a histogram of latencies."""

    def __init__(self, schedule: Schedule, start: Callable[[], int]) -> None:
        self._schedule = schedule
        self._start = start
        self._seen: list[tuple[int, int]] = [(0, 0)]

    def delivered(self, count: int) -> None:
        """Note that so many messages had come by this moment."""
        self._seen.append((time.monotonic_ns(), count))

    def result(self) -> bytes:
        """An encoded histogram of microseconds."""
        encoded: bytes = self.histogram().encode()
        return encoded

    def histogram(self) -> HdrHistogram:
        """The histogram of latencies, from when each message was due."""
        histogram = HdrHistogram(1, _SECONDS_MAX * 1_000_000, _SIGNIFICANT_DIGITS)
        start, schedule = self._start(), self._schedule
        for (_, before), (moment, count) in pairwise(self._seen):
            for number in range(max(before, schedule.skipped), count):
                taken = (moment - start - schedule.due(number)) // 1000
                histogram.record_value(min(max(taken, 1), _SECONDS_MAX * 1_000_000))
        return histogram


class PacedProducer:
    """Publishes every message when it is due, or at once when it is late."""

    def __init__(self, uri: str, run: Run, schedule: Schedule) -> None:
        self._run = run
        self._schedule = schedule
        self._connection = Connection(uri)
        self._with_confirms = bool(run.topology.workload.confirms_in_flight)
        self._publishes = publishes_of(run.topology, 0, self._connection.frame_max)
        self._tally = ConfirmTally()
        self._sent_count = 0
        self._sent_times = Times(schedule, self._start)
        self._confirm_times = Times(schedule, self._start)

    def _start(self) -> int:
        return self._run.counters[Counter.GO]

    def run(self) -> tuple[bytes, bytes]:
        """Publish all messages; returns encoded histograms of sending and of confirms."""
        counters = self._run.counters
        if self._with_confirms:
            self._connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        if _TIMER_SLACK.exists():
            _TIMER_SLACK.write_text("1000")
        counters.put(Counter.READY, 1, WORKERS_MAX)
        while not (start := self._start()):
            time.sleep(0.0002)
        while self._sent_count < self._schedule.messages:
            due = self._schedule.due_by(time.monotonic_ns() - start)
            if due > self._sent_count:
                self._publish(min(due - self._sent_count, self._publishes.messages_max))
            wait = start + self._schedule.due(self._sent_count) - time.monotonic_ns()
            self._listen(max(0.0, wait / _NANOSECONDS))
        deadline = time.monotonic() + STALL_SECONDS
        while self._with_confirms and self._tally.confirmed < self._sent_count:
            self._listen(0.1)
            if time.monotonic() > deadline:
                raise BrokerStalled(f"confirms are missing after {STALL_SECONDS} s")
        counters.put(Counter.SENT_SUM, self._publishes.checksum(self._sent_count), WORKERS_MAX)
        self._connection.close()
        return self._sent_times.result(), self._confirm_times.result()

    def _publish(self, count: int) -> None:
        self._connection.send(self._publishes.encoded(self._sent_count, count))
        self._sent_count += count
        self._sent_times.delivered(self._sent_count)
        self._run.counters.put(Counter.PUBLISHED, self._sent_count, WORKERS_MAX)

    def _listen(self, seconds: float) -> None:
        """Wait, and read confirms meanwhile."""
        connection = self._connection
        if connection.pending or select.select([connection.socket], [], [], seconds)[0]:
            data = connection.receive()
            if not self._with_confirms:
                raise unexpected("nothing at all", data)
            self._tally.feed(data)
            self._confirm_times.delivered(self._tally.confirmed)
            self._run.counters.put(Counter.CONFIRMED, self._tally.confirmed, WORKERS_MAX)


def measure_latency(
    uri: str,
    workload: Workload,
    rate: float,
    warm_up_seconds: float,
    seconds: float,
    on_tick: OnTick | None = None,
) -> Latency:
    """Publish at a fixed rate and see how long each message takes.

    Args:
        workload: of one producer, one queue and one consumer; `confirms_in_flight` says whether there are
            confirms, and does not limit them.

    Raises:
        RunFailed: the broker stalled, lost something or said something unexpected, or could not be used.
    """
    if (workload.producers, workload.queues, workload.consumers) != (1, 1, 1):
        raise BadRequest("latency is measured with one producer, one queue and one consumer")
    skipped = int(rate * warm_up_seconds)
    schedule = Schedule(rate, skipped + max(1, int(rate * seconds)), skipped)
    with started(uri, workload, on_tick) as run:
        run.start_consumers(Times(schedule, lambda: run.counters[Counter.GO]))
        run.start_producers(lambda: PacedProducer(uri, run, schedule).run())
        run.go(_START_SECONDS)
        run.sleep(schedule.messages / rate)
        run.finish()
        (delivered,), ((sent, confirmed),) = run.results()
    return Latency(
        delivered=Percentiles.of(delivered),
        confirmed=Percentiles.of(confirmed) if workload.confirms_in_flight else None,
        sent=Percentiles.of(sent),
    )
