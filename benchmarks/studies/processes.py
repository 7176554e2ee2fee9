"""What a message costs the processes of a node: one of them, and several.

    python -m routelog.benchmarks.studies.processes --seconds 4 --rounds 3

Prints the rate, and processor time of process 1, of each front and of all, in µs a message. With four
processes, eight connections are all at fronts.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import routelog
from routelog.benchmarks.brokers.processor_clock import processor_clock
from routelog.benchmarks.perf.throughput import measure_throughput
from routelog.benchmarks.traffic.endpoint import Endpoint
from routelog.benchmarks.traffic.workload import Workload

WARM_UP_SECONDS = 1.0
_EACH = Workload(
    producers=4, consumers=4, queues=4, durable=True, confirms_in_flight=200, ack_every=1, each=True
)
WORKLOADS = {
    "each its own write, 200 in flight, 1 KiB": (_EACH, 1_024),
    "the same, 100 B": (_EACH, 100),
    "large transient batches, 100 B": (Workload(producers=4, consumers=4, queues=4), 100),
}


@dataclass(frozen=True)
class Cost:
    """Messages a second, and µs of processor time a message, of each process; the parent is the first."""

    rate: float
    of_each: list[float]


def measured(processes: int, workload: Workload, seconds: float) -> Cost:
    """Run a workload on a new node."""
    folder = tempfile.TemporaryDirectory(prefix="routelog-processes-")
    environment = {"ROUTELOG_PROCESSES": str(processes)}
    with folder as name, routelog(Path(name), environment=environment) as broker:
        assert broker.session is not None
        endpoint = Endpoint.parse(broker.uri)
        numbers = [broker.session, *_children(broker.session)]
        clocks = [clock for each in numbers if (clock := processor_clock(each, endpoint))]
        samples: list[list[float]] = []

        def all_seconds() -> float:
            samples.append([clock() for clock in clocks])
            return sum(samples[-1])

        found = measure_throughput(
            broker.uri, workload, WARM_UP_SECONDS, seconds, None, all_seconds
        )
        spent = [after - before for before, after in zip(*samples[-2:], strict=True)]
        messages = sum(spent) / found.cpu_seconds
        return Cost(found.rate, [each / messages * 1e6 for each in spent])


def _children(process: int) -> Iterator[int]:
    yield from map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    given = parser.parse_args()
    print("| load | processes | messages a second | process 1 | a front | all |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (workload, size) in WORKLOADS.items():
        costs: dict[int, list[Cost]] = {each: [] for each in given.processes}
        for _ in range(given.rounds):
            for count, found in costs.items():
                found.append(measured(count, _sized(workload, size), given.seconds))
        for count, found in costs.items():
            print(f"| {name} | {count} | {_row(found)} |", flush=True)


def _sized(workload: Workload, size: int) -> Workload:
    return replace(workload, body_bytes=size)


def _row(costs: list[Cost]) -> str:
    rate = statistics.median(cost.rate for cost in costs)
    # A node that is one process has no parent.
    first = statistics.median(cost.of_each[1 if len(cost.of_each) > 1 else 0] for cost in costs)
    fronts = [statistics.mean(cost.of_each[2:]) for cost in costs if len(cost.of_each) > 2]
    front = f"{statistics.median(fronts):.2f}" if fronts else "–"
    total = statistics.median(sum(cost.of_each) for cost in costs)
    return f"{rate:,.0f} | {first:.2f} | {front} | {total:.2f}"


if __name__ == "__main__":
    main()
