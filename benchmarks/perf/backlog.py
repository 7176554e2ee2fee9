"""Backlogs: how fast one is built and drained, and how one affects live traffic beside it."""

from dataclasses import dataclass, replace

from routelog.benchmarks.perf.throughput import Throughput, between
from routelog.benchmarks.traffic.machine import busy_share
from routelog.benchmarks.traffic.run import CpuSeconds, OnTick, Run, started
from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import Workload


@dataclass(frozen=True)
class Drain:
    """Messages a second.

    Args:
        filled: confirmed, without consumers.
        drained: received from the moment all consumers were subscribed.
        cpu_seconds: of the broker for each drained message; 0: unknown.
    """

    filled: float
    drained: float
    cpu_seconds: float


def measure_drain(
    uri: str,
    workload: Workload,
    on_tick: OnTick | None = None,
    cpu: CpuSeconds | None = None,
) -> Drain:
    """Publish `workload.messages` without consumers; then start the consumers.

    Raises:
        RunFailed: the broker stalled, lost something or said something unexpected, or could not be used.
    """
    if not workload.consumers:
        raise BadRequest("a drain needs consumers")
    with started(uri, workload, on_tick, cpu) as run:
        filled = fill(run)
        run.start_consumers()
        before = run.sample()
        after = run.until_all_received()
        run.finish()
    drained = max(1, after.received - before.received)
    return Drain(
        filled=filled,
        drained=drained / (after.seconds - before.seconds),
        cpu_seconds=(after.cpu_seconds - before.cpu_seconds) / drained,
    )


def fill(run: Run) -> float:
    """Publish all messages without consumers; returns the rate of confirms.

    Raises:
        BadRequest: the workload says no number of messages, or has no confirms: when would it be full?
    """
    workload = run.topology.workload
    if not workload.messages or not workload.confirms_in_flight:
        raise BadRequest("a backlog needs a number of messages, and confirms")
    run.start_producers(run_ahead=True)
    before = run.sample()
    run.go()
    run.until_all_published()
    return workload.messages / (run.sample().seconds - before.seconds)


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
