"""Medians, ratios, the table and the JSON file."""

import json
import statistics
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks.case_run import Throughput
from benchmarks.cases import Case
from benchmarks.machine import Machine

BUSY_SHARE_MAX = 0.1  # brokers at rest use far less


@dataclass(frozen=True)
class Figures:
    """The runs of one case against one broker; `failures` say why a run gives no figure."""

    runs: list[Throughput] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def received(self) -> float | None:
        """Median messages received per second; None when no run succeeded."""
        return statistics.median(run.received for run in self.runs) if self.runs else None

    @property
    def confirmed(self) -> float | None:
        """Median confirms per second; None when no run succeeded."""
        return statistics.median(run.confirmed for run in self.runs) if self.runs else None

    @property
    def spread(self) -> float | None:
        """Distance of the fastest from the slowest run, as a share of the median."""
        if not self.received:
            return None
        rates = [run.received for run in self.runs]
        return (max(rates) - min(rates)) / self.received


@dataclass(frozen=True)
class Report:
    """All figures of one session; the first broker is compared with each of the others."""

    machine: Machine
    brokers: list[str]
    cases: list[Case]
    figures: dict[tuple[str, str], Figures]  # by (case name, broker name)

    def ratio(self, case: Case, peer: str) -> float | None:
        """How many times faster the first broker is than `peer`."""
        ours = self.figures[case.name, self.brokers[0]].received
        theirs = self.figures[case.name, peer].received
        return ours / theirs if ours is not None and theirs else None

    @property
    def failures(self) -> list[str]:
        """Every failed run, in words."""
        return [
            f"{case}, {broker}: {failure}"
            for (case, broker), figures in self.figures.items()
            for failure in figures.failures
        ]

    def print(self, console: Console) -> None:
        """The table, the limits of the machine, and what went wrong."""
        console.print(self._table())
        machine = self.machine
        relay = ", ".join(f"{_rate(r)} at {b} B" for b, r in machine.relay_per_second.items())
        console.print(f"{machine.cores} cores; loopback relay of the same publishes: {relay} msg/s")
        p50, p99 = machine.sync_seconds_p50 * 1e6, machine.sync_seconds_p99 * 1e6
        console.print(f"write + fdatasync of 4 KiB: p50 {p50:,.0f} µs, p99 {p99:,.0f} µs")
        if disturbed := self._disturbed():
            console.print(f"{disturbed}: the cores were in use before the run", style="yellow")
        for failure in self.failures:
            console.print(failure, style="red", markup=False)

    def _disturbed(self) -> str:
        runs = [run for figures in self.figures.values() for run in figures.runs]
        busy = [run for run in runs if run.busy_before > BUSY_SHARE_MAX]
        return f"{len(busy)} of {len(runs)} runs were disturbed" if busy else ""

    def _table(self) -> Table:
        table = Table(title="messages per second, median of the runs (confirmed in brackets)")
        table.add_column("case")
        for broker in self.brokers:
            table.add_column(broker, justify="right")
            table.add_column("spread", justify="right")
        for peer in self.brokers[1:]:
            table.add_column(f"× {peer}", justify="right")
        for case in self.cases:
            cells = [case.name]
            for broker in self.brokers:
                cells += _cells(self.figures[case.name, broker], bool(case.confirms_in_flight))
            cells += [_times(self.ratio(case, peer)) for peer in self.brokers[1:]]
            table.add_row(*cells)
        return table

    def json(self) -> str:
        """Every run, the medians and the ratios."""
        return json.dumps(
            {
                "machine": asdict(self.machine),
                "brokers": self.brokers,
                "cases": [self._case_json(case) for case in self.cases],
            },
            indent=2,
        )

    def _case_json(self, case: Case) -> dict[str, object]:
        brokers = {}
        for broker in self.brokers:
            figures = self.figures[case.name, broker]
            brokers[broker] = {
                "received_per_second": figures.received,
                "confirmed_per_second": figures.confirmed,
                "runs": [asdict(run) for run in figures.runs],
                "failures": figures.failures,
            }
        ratios = {peer: self.ratio(case, peer) for peer in self.brokers[1:]}
        return {"case": asdict(case), "brokers": brokers, "ratio_to": ratios}


def _cells(figures: Figures, with_confirms: bool) -> list[str]:
    if figures.received is None:
        return ["failed", ""]
    rate = _rate(figures.received)
    if with_confirms:
        rate += f" ({_rate(figures.confirmed or 0)})"
    return [rate, f"{figures.spread or 0:.0%}"]


def _rate(per_second: float) -> str:
    return f"{per_second / 1000:,.0f} k" if per_second >= 10_000 else f"{per_second:,.0f}"


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
