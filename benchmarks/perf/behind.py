"""Live traffic beside a consumer with a backlog: how each affects the other."""

from dataclasses import dataclass, replace

from routelog.benchmarks.perf.drain import fill
from routelog.benchmarks.perf.throughput import Throughput, between
from routelog.benchmarks.traffic.machine import busy_share
from routelog.benchmarks.traffic.run import CpuSeconds, OnTick, started
from routelog.benchmarks.traffic.workload import Workload

_BUSY_SECONDS = 0.3
FILL_CONFIRMS = 4_000  # in flight while the backlog is made: wide, so that it does not take long


@dataclass(frozen=True)
class Behind:
    """Rates while a consumer catches up.

    Args:
        live: of the traffic beside it.
        caught_up: messages a second of the consumer with the backlog.
    """

    live: Throughput
    caught_up: float


def measure_behind(
    uri: str,
    workload: Workload,
    backlog: int,
    warm_up_seconds: float,
    seconds: float,
    on_tick: OnTick | None = None,
    cpu: CpuSeconds | None = None,
) -> Behind:
    """Make a backlog in a queue of its own, then drain it beside a workload.

    The window ends early when the backlog does; what is left of it is dropped.

    Args:
        backlog: messages, like those of the workload.

    Raises:
        RunFailed: the broker stalled, lost something or said something unexpected, or could not be used.
    """
    late_workload = replace(workload, messages=backlog, confirms_in_flight=FILL_CONFIRMS)
    with started(uri, late_workload, on_tick) as late:
        fill(late)
        late.abandon()
        with started(uri, workload, on_tick, cpu) as run:
            busy = busy_share(_BUSY_SECONDS)
            run.start_consumers()
            run.start_producers()
            run.go()
            run.window(warm_up_seconds, 0.0)
            late.start_consumers()
            before, late_before = run.sample(), late.sample()
            run.until(lambda: late.sample().received >= backlog, seconds)
            after, late_after = run.sample(), late.sample()
            run.finish()
    elapsed = late_after.seconds - late_before.seconds
    caught_up = (late_after.received - late_before.received) / elapsed
    return Behind(between(before, after, busy), caught_up)
