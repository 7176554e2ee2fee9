"""`docs/performance.md`: its two parts are written by two commands, each between its own marks."""

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from textwrap import fill

from routelog.benchmarks.comparison.cases import Case
from routelog.benchmarks.comparison.growth import Grown
from routelog.benchmarks.comparison.plots import draw_curve, draw_ratios
from routelog.benchmarks.comparison.report import Report
from routelog.benchmarks.traffic.machine import Machine

_WIDTH = 112
_EMPTY_PAGE = """\
# Performance

Written by the commands named below. Figures of one run compare with each other; those of different machines or
days do not.

<!-- matrix: begin -->
<!-- matrix: end -->

<!-- growth: begin -->
<!-- growth: end -->
"""


@dataclass(frozen=True)
class PerformancePage:
    """The page, and the folder `figures` beside it."""

    path: Path

    def write_matrix(self, report: Report) -> None:
        """Replace the table of brokers side by side."""
        self._replace("matrix", "\n".join(self._matrix(report)))

    def write_growth(
        self,
        grown: Sequence[Grown],
        machine: Machine | None,
        versions: dict[str, str],
        command: str,
    ) -> None:
        """Replace the curves."""
        lines = ["## What a message costs as things grow", ""]
        lines += _circumstances(machine, versions, command)
        lines += [
            "Cost is the broker's processor time for one message (where the broker was not started by the "
            "command: the time from one message to the next). Both axes are logarithmic.",
            "",
        ]
        for name, of_brokers in groupby(grown, key=lambda each: each.curve.name):
            lines += self._curve(name, list(of_brokers))
        self._replace("growth", "\n".join(lines).rstrip())

    def _matrix(self, report: Report) -> Iterator[str]:
        results = report.results
        yield "## Side by side"
        yield ""
        yield from _circumstances(report.machine, report.versions, report.command)
        rounds = max((len(f.runs) for f in results.figures.values()), default=0)
        yield (
            f"Medians of {rounds} alternating runs; *spread* is the distance of the best from the worst run, "
            "as a share of the median; *µs* is the broker's processor time for a message; × is how many times "
            "better the first broker is: faster, or of lower latency or memory."
        )
        if results.disturbed:
            yield f"{results.disturbed}: other work used the cores before they began."
        yield ""
        headings = report.headings()
        yield "| " + " | ".join(headings) + " |"
        yield "|---|---" + "|---:" * (len(headings) - 2) + "|"
        for case in results.cases:
            yield "| " + " | ".join([case.title, *report.cells(case)]) + " |"
        yield from _left_out(report)
        for peer in results.brokers[1:]:
            ratios = {case.name: results.ratio(case, peer) for case in results.cases}
            known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
            if known:
                picture = Path("figures") / f"ratios-{peer}.svg"
                draw_ratios(known, peer, self.path.parent / picture)
                yield ""
                yield f"![times better than {peer}, case by case]({picture})"

    def _curve(self, name: str, of_brokers: list[Grown]) -> Iterator[str]:
        curve = of_brokers[0].curve
        yield f"### {name.capitalize()}"
        yield ""
        yield f"{curve.title[0].upper()}{curve.title[1:]}."
        yield ""
        if any(each.costs for each in of_brokers):
            picture = Path("figures") / f"growth-{name}.svg"
            draw_curve([e for e in of_brokers if e.costs], self.path.parent / picture)
            yield f"![cost of a message by {curve.axis}]({picture})"
            yield ""
        for each in of_brokers:
            for point, failure in each.failures.items():
                yield f"- {each.broker} failed at {point:,}: {failure}."
            for point, reason in each.left_out.items():
                yield f"- {each.broker} was not measured at {point:,}: {reason}."
        yield ""

    def _replace(self, part: str, content: str) -> None:
        page = self.path.read_text() if self.path.exists() else _EMPTY_PAGE
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        wrapped = "\n".join(map(_wrapped, content.split("\n")))
        self.path.write_text(f"{head}{begin}\n{wrapped}\n{end}{tail}")


def _wrapped(line: str) -> str:
    """Prose in lines of the page's width; a row of a table, a picture or a command is one line."""
    if line.startswith(("|", "!", "`")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return fill(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _circumstances(
    machine: Machine | None, versions: dict[str, str], command: str
) -> Iterator[str]:
    today = datetime.now(UTC).date().isoformat()
    yield f"`{command}`, {today}"
    yield ""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1_073_741_824
    yield f"- Machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB."
    yield f"- System: {platform.system()} {platform.release()}, Python {platform.python_version()}."
    yield f"- Brokers: {', '.join(name for name in versions.values() if name)}."
    if machine is not None:
        yield f"- The machine itself: {machine}."
    yield ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _left_out(report: Report) -> Iterator[str]:
    results = report.results

    def reasons(case: Case) -> list[str]:
        found = (
            (broker, results.figures[case.name, broker].left_out) for broker in results.brokers
        )
        return [f"{broker}: {reason}" for broker, reason in found if reason]

    left_out = [(case, reasons(case)) for case in results.cases]
    lines = [f"- Left out: {case.title} ({'; '.join(why)})." for case, why in left_out if why]
    failures = [f"- Failed: {failure}" for failure in results.failures]
    if lines or failures:
        yield ""
        yield from lines + failures
