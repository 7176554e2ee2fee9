"""How fast a backlog is built, and how fast it is drained."""

from dataclasses import dataclass

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
