"""Messages a second of one workload: warm-up, measured window, drain, check."""

from dataclasses import dataclass

from routelog.benchmarks.traffic.machine import busy_share
from routelog.benchmarks.traffic.run import CpuSeconds, OnTick, Sample, started
from routelog.benchmarks.traffic.unexpected import BrokerStalled
from routelog.benchmarks.traffic.workload import Workload

_BUSY_SECONDS = 0.3


@dataclass(frozen=True)
class Throughput:
    """Messages per second within the measured window.

    Args:
        published: by the producers; each message counts once, in however many queues.
        confirmed: 0 without confirms.
        received: deliveries; a message in several queues counts in each.
        busy_before: share of the cores in use just before the run, by other work.
        cpu_seconds: of the broker for each message of `rate`; 0: unknown.
        ahead: deliveries that were still to come at the end of the window.
    """

    published: float
    confirmed: float
    received: float
    busy_before: float
    cpu_seconds: float
    ahead: int

    @property
    def rate(self) -> float:
        """The figure to compare: deliveries; without consumers, confirms."""
        return self.received or self.confirmed


def measure_throughput(
    uri: str,
    workload: Workload,
    warm_up_seconds: float,
    seconds: float,
    on_tick: OnTick | None = None,
    cpu: CpuSeconds | None = None,
) -> Throughput:
    """Run a workload, and check that every message came as often as expected, and in order if that is defined.

    With a number of messages wanted, the window is from the first to the last of them.

    Raises:
        RunFailed: the broker stalled, lost something or said something unexpected, or could not be used.
    """
    with started(uri, workload, on_tick, cpu) as run:
        busy = busy_share(_BUSY_SECONDS)
        if workload.consumers:
            run.start_consumers()
        run.start_producers()
        before = run.sample()
        run.go()
        if workload.messages:
            run.until_all_published()
            after = run.until_all_received() if workload.consumers else run.sample()
        else:
            before, after = run.window(warm_up_seconds, seconds)
        run.finish()
    found = between(before, after, busy, workload.copies)
    if not found.rate:
        raise BrokerStalled("nothing came within the window")
    return found


def between(before: Sample, after: Sample, busy_before: float, copies: int = 1) -> Throughput:
    """The rates from one sample to another, where each message is to come so many times."""
    seconds = after.seconds - before.seconds
    published, confirmed, received = (
        after.published - before.published,
        after.confirmed - before.confirmed,
        after.received - before.received,
    )
    return Throughput(
        published=published / seconds,
        confirmed=confirmed / seconds,
        received=received / seconds,
        busy_before=busy_before,
        cpu_seconds=(after.cpu_seconds - before.cpu_seconds) / max(1, received or confirmed),
        ahead=after.published * copies - after.received if after.received else 0,
    )
