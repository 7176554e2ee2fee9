"""The table, the JSON file, and the words for figures."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console, JustifyMethod
from rich.table import Table

from routelog.benchmarks.comparison.cases import Case, Kind
from routelog.benchmarks.comparison.session import Results
from routelog.benchmarks.traffic.machine import Machine


@dataclass(frozen=True)
class Report:
    """Results, with brokers, machine and command.

    Args:
        versions: of the brokers, by their own words.
        command: that made it.
    """

    results: Results
    machine: Machine | None
    versions: dict[str, str]
    command: str

    def print(self, console: Console) -> None:
        """Print the table, the limits of the machine, and failures."""
        results = self.results
        table = Table(title="medians of the runs; × is how many times better")
        for heading in self.headings():
            justify: JustifyMethod = "left" if heading == "case" else "right"
            table.add_column(heading, justify=justify, no_wrap=True)
        for case in results.cases:
            table.add_row(case.name, *self.cells(case))
        console.print(table)
        if self.machine is not None:
            console.print(f"the machine itself: {self.machine}", soft_wrap=True, highlight=False)
        if results.disturbed:
            console.print(f"{results.disturbed}: the cores were in use before", style="yellow")
        for failure in results.failures:
            console.print(failure, style="red", markup=False)

    def headings(self) -> list[str]:
        """Headings of the table's columns."""
        brokers = [h for name in self.results.brokers for h in (name, "spread", "µs")]
        return ["case", "unit", *brokers, *(f"× {name}" for name in self.results.brokers[1:])]

    def cells(self, case: Case) -> list[str]:
        """A row of the table, without the name of the case."""
        cells = [case.kind.value]
        for broker in self.results.brokers:
            figures = self.results.figures[case.name, broker]
            if figures.value is None:
                cells += ["failed" if figures.failures else figures.left_out or "–", "", ""]
            else:
                cpu = figures.cpu_seconds
                cells += [in_words(figures.value, case.kind), f"{figures.spread or 0:.0%}"]
                cells.append("" if cpu is None else f"{cpu * 1e6:,.2f}")
        for peer in self.results.brokers[1:]:
            ratio = self.results.ratio(case, peer)
            cells.append("–" if ratio is None else f"{ratio:.2f}")
        return cells

    def write(self, path: Path) -> None:
        """Every run, the medians and the ratios, as JSON."""
        content = {
            "command": self.command,
            "versions": self.versions,
            "machine": None if self.machine is None else asdict(self.machine),
            "cases": [self._case(case) for case in self.results.cases],
        }
        path.write_text(json.dumps(content, indent=2) + "\n")

    def _case(self, case: Case) -> dict[str, object]:
        results = self.results
        brokers = {}
        for broker in results.brokers:
            figures = results.figures[case.name, broker]
            brokers[broker] = {
                "median": figures.value,
                "cpu_seconds": figures.cpu_seconds,
                "runs": [asdict(run) for run in figures.runs],
                "failures": figures.failures,
                "left_out": figures.left_out,
            }
        return {
            "name": case.name,
            "unit": case.kind.value,
            "workload": asdict(case.workload),
            "brokers": brokers,
            "ratio_to": {peer: results.ratio(case, peer) for peer in results.brokers[1:]},
        }


def in_words(value: float, kind: Kind) -> str:
    """A figure in words, with as many digits as are significant."""
    if kind is Kind.LATENCY:
        return f"{value:,.2f}"
    return f"{value / 1000:,.0f} k" if value >= 10_000 else f"{value:,.0f}"
