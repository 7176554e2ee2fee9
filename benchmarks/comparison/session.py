"""Every case against every broker in turn, again in every round."""

from dataclasses import dataclass, field
from statistics import median

from rich.console import Console

from routelog.benchmarks.brokers.broker_process import Broker
from routelog.benchmarks.comparison.cases import Case, Figure, Kind, Window
from routelog.benchmarks.traffic.unexpected import RunFailed

BUSY_SHARE_MAX = 0.1  # brokers at rest use far less


@dataclass(frozen=True)
class Figures:
    """The runs of one case against one broker; `failures` and `left_out` say why figures are missing."""

    runs: list[Figure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left_out: str = ""

    @property
    def value(self) -> float | None:
        """The median, in the case's unit; None when no run succeeded."""
        return median(run.value for run in self.runs) if self.runs else None

    @property
    def spread(self) -> float | None:
        """Distance of the highest from the lowest run, as a share of the median."""
        if not self.value:
            return None
        values = [run.value for run in self.runs]
        return (max(values) - min(values)) / self.value

    @property
    def cpu_seconds(self) -> float | None:
        """The median of the broker's processor time for a message; None: unknown."""
        known = [run.cpu_seconds for run in self.runs if run.cpu_seconds]
        return median(known) if known else None


@dataclass(frozen=True)
class Session:
    """Cases and brokers; the first broker is compared with each of the others."""

    brokers: dict[str, Broker]
    cases: tuple[Case, ...]
    rounds: int
    window: Window

    def measure(self, console: Console) -> "Results":
        """Run all cases, with a line for each run on the console; other runs go on after a failed one."""
        figures = {
            (case.name, name): Figures(left_out=case.cannot_be_served(broker))
            for case in self.cases
            for name, broker in self.brokers.items()
        }
        results = Results(list(self.brokers), list(self.cases), figures)
        for number in range(self.rounds):
            # Every other round goes through the brokers backwards, so that none is always first.
            names = list(self.brokers)[:: 1 if number % 2 == 0 else -1]
            for case in self.cases:
                # A case that one broker cannot run gives no comparison.
                if all(not figures[case.name, name].left_out for name in names):
                    for name in names:
                        self._measure_once(console, case, name, figures[case.name, name])
        return results

    def _measure_once(self, console: Console, case: Case, name: str, figures: Figures) -> None:
        try:
            run = case.measure(self.brokers[name], self.window)
        except (RunFailed, OSError) as error:
            figures.failures.append(str(error))
            console.print(f"{case.name:20} {name:12} failed: {error}", markup=False)
            return
        figures.runs.append(run)
        busy = "" if run.busy_before is None else f" (cores {run.busy_before:.0%} busy before)"
        digits = 3 if case.kind is Kind.LATENCY else 0
        said = f"{run.value:14,.{digits}f} {case.kind.value}"
        console.print(f"{case.name:20} {name:12} {said}{busy}", soft_wrap=True, highlight=False)


@dataclass(frozen=True)
class Results:
    """All figures of one session, by (case name, broker name)."""

    brokers: list[str]
    cases: list[Case]
    figures: dict[tuple[str, str], Figures]

    def ratio(self, case: Case, peer: str) -> float | None:
        """How many times better the first broker is than `peer`: faster, or of lower latency or memory."""
        ours = self.figures[case.name, self.brokers[0]].value
        theirs = self.figures[case.name, peer].value
        if not ours or not theirs:
            return None
        return ours / theirs if case.kind.is_rate else theirs / ours

    @property
    def failures(self) -> list[str]:
        """Every failed run, in words."""
        return [
            f"{case}, {broker}: {failure}"
            for (case, broker), figures in self.figures.items()
            for failure in figures.failures
        ]

    @property
    def disturbed(self) -> str:
        """How many runs began while other work used the cores, in words; empty when none did."""
        known = [
            run.busy_before
            for figures in self.figures.values()
            for run in figures.runs
            if run.busy_before is not None
        ]
        busy = [share for share in known if share > BUSY_SHARE_MAX]
        return f"{len(busy)} of {len(known)} runs were disturbed" if busy else ""
