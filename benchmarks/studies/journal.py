"""The latency of confirms and of the disk: `python -m routelog.benchmarks.studies.journal`.

All measurements are repeated in every round, so that other load of the machine affects them equally.
"""

import statistics
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.brokers.broker_process import routelog
from routelog.benchmarks.brokers.sync_server import SyncServer
from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.journal_load import JournalLoad, journal_load
from routelog.benchmarks.traffic.machine import SyncProbe

DURABILITIES = ("memory", "os", "disk")
QUEUES = (1, 10, 100, 1_000)
PUBLISHERS = 10
BURST = 20  # in flight of one publisher
RUNS = (BURST, 1)  # messages in a row to one queue


class JournalFigures:
    """The measurements by kind, in seconds, and confirms a second."""

    def __init__(self) -> None:
        self.sync: list[float] = []
        self.floor: list[float] = []
        self.latencies: dict[str, list[float]] = defaultdict(list)
        # Of each round: disk level to the sync beside it, and to the answer of a server that only syncs.
        self.ratios: list[float] = []
        self.floor_ratios: list[float] = []
        self.rates: dict[tuple[int, int], list[float]] = defaultdict(list)  # by run and queues

    def print(self, console: Console) -> None:
        """Two tables."""
        table = Table(title="one publish in flight: time to its confirm, microseconds")
        for column in ("", "p50", "p99"):
            table.add_column(column, justify="right")
        for level in DURABILITIES:
            table.add_row(f"x-durability {level}", *_percentiles(self.latencies[level]))
        table.add_row("write + fdatasync of 4 KiB, no broker", *_percentiles(self.sync))
        table.add_row("a server that only does that", *_percentiles(self.floor))
        console.print(table)
        console.print(f"disk level / the disk itself: {_by_round(self.ratios)}")
        console.print(f"disk level / a server that only syncs: {_by_round(self.floor_ratios)}")
        title = f"synced confirms a second, {PUBLISHERS} publishers, {BURST} in flight each"
        table = Table(title=title)
        table.add_column("messages in a row to one queue")
        for queues in QUEUES:
            table.add_column(f"{queues:,} queues", justify="right")
        for run in RUNS:
            one = statistics.median(self.rates[run, 1])
            rates = [statistics.median(self.rates[run, queues]) for queues in QUEUES]
            table.add_row(str(run), *(f"{rate:,.0f} ({rate / one:.2f})" for rate in rates))
        console.print(table)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of one measurement.")] = 1.0,
    folder: Annotated[
        Path | None, typer.Option(help="Where the broker keeps its data; the disk counts.")
    ] = None,
) -> None:
    """Measure confirms of a RouteLog of this source tree: one in flight, and over many queues."""
    console = Console()
    figures = JournalFigures()
    with ExitStack() as stack:
        stack.enter_context(refusals())
        data = stack.enter_context(scratch(folder, "bench-"))
        url = stack.enter_context(routelog(data)).uri
        singles = {
            level: stack.enter_context(journal_load(url, 1, durability=level))
            for level in DURABILITIES
        }
        loads = {
            (run, queues): stack.enter_context(
                journal_load(url, queues, publishers=PUBLISHERS, burst=BURST, run=run)
            )
            for run in RUNS
            for queues in QUEUES
        }
        for load in loads.values():
            load.confirmed_per_second(seconds)  # so that segments and so on exist
            load.empty()
        probe = SyncProbe(data / "probe")
        stack.callback(probe.close)
        server = SyncServer(data / "server-probe")
        stack.callback(server.close)
        for number in range(rounds):
            _measure_latencies(figures, singles, probe, server, 3 * seconds)
            _measure_rates(figures, loads, seconds, backwards=number % 2 == 1)
            console.print(f"round {number + 1} of {rounds}")
    figures.print(console)


def _measure_latencies(
    figures: JournalFigures,
    loads: dict[str, JournalLoad],
    probe: SyncProbe,
    server: SyncServer,
    seconds: float,
) -> None:
    # One of each in turn: on a shared disk, measurements a second apart do not compare.
    syncs: list[float] = []
    answers: list[float] = []
    found: dict[str, list[float]] = {level: [] for level in loads}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        syncs.append(probe.sync_seconds())
        answers.append(server.answer_seconds())
        for level, load in loads.items():
            found[level].append(load.confirm_seconds())
    figures.sync += syncs
    figures.floor += answers
    for level, load in loads.items():
        figures.latencies[level] += found[level]
        load.empty()
    middle = statistics.median(found["disk"])
    figures.ratios.append(middle / statistics.median(syncs))
    figures.floor_ratios.append(middle / statistics.median(answers))


def _measure_rates(
    figures: JournalFigures,
    loads: dict[tuple[int, int], JournalLoad],
    seconds: float,
    *,
    backwards: bool,
) -> None:
    for key in list(loads)[:: -1 if backwards else 1]:
        figures.rates[key].append(loads[key].confirmed_per_second(seconds))
        loads[key].empty()


def _by_round(ratios: list[float]) -> str:
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{statistics.median(ratios):.2f} (by round: {listed})"


def _percentiles(seconds: list[float]) -> tuple[str, str]:
    ordered = sorted(seconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"{statistics.median(ordered) * 1e6:,.0f}", f"{p99 * 1e6:,.0f}"


if __name__ == "__main__":
    typer.run(main)
