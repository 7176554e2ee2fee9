"""The command line: `python -m benchmarks`."""

import signal
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.broker_process import BrokerUnavailable, rabbitmq, routelog
from benchmarks.case_run import measure
from benchmarks.cases import Case, cases_named
from benchmarks.machine import measure_machine
from benchmarks.null_broker import null_broker
from benchmarks.report import Figures, Report
from benchmarks.unexpected import RunFailed

_RELAY_SECONDS = 1.0


class Peer(StrEnum):
    """Brokers that the tool can start beside the one measured."""

    RABBITMQ = "rabbitmq"


@dataclass(frozen=True)
class Session:
    """What is measured: every case against every broker in turn, again in every round."""

    urls: dict[str, str]
    cases: tuple[Case, ...]
    rounds: int
    warm_up_seconds: float
    seconds: float

    def measure(self, console: Console) -> dict[tuple[str, str], Figures]:
        """Run everything, with a line a run on the console; a failed run ends nothing else."""
        figures = {(case.name, broker): Figures() for case in self.cases for broker in self.urls}
        for number in range(self.rounds):
            # Every other round goes through the brokers backwards, so that none is always first.
            brokers = list(self.urls)[:: 1 if number % 2 == 0 else -1]
            for case in self.cases:
                for broker in brokers:
                    self._measure_once(console, case, broker, figures[case.name, broker])
        return figures

    def _measure_once(self, console: Console, case: Case, broker: str, figures: Figures) -> None:
        try:
            run = measure(self.urls[broker], case, self.warm_up_seconds, self.seconds)
        except (RunFailed, OSError) as error:
            figures.failures.append(str(error))
            console.print(f"{case.name:20} {broker:12} failed: {error}", markup=False)
            return
        figures.runs.append(run)
        confirmed = f", {run.confirmed:,.0f} confirmed/s" if case.confirms_in_flight else ""
        busy = f" (cores {run.busy_before:.0%} busy before)"
        rate = f"{run.received:12,.0f} received/s{confirmed}"
        console.print(f"{case.name:20} {broker:12} {rate}{busy}", soft_wrap=True)


def main(
    target: Annotated[
        str | None, typer.Option(help="Broker to measure; without it a RouteLog is started.")
    ] = None,
    peer: Annotated[Peer | None, typer.Option(help="Start this broker and compare.")] = None,
    peer_target: Annotated[str | None, typer.Option(help="Compare with this broker.")] = None,
    ceiling: Annotated[
        bool, typer.Option(help="Add a broker that does nothing: the generator's own limit.")
    ] = False,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; repeatable.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Measured window of a run.")] = 5.0,
    warm_up: Annotated[float, typer.Option(min=0.0, help="Seconds before the window.")] = 1.5,
    runs: Annotated[int, typer.Option(min=1, help="Runs of every case and broker.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(help="Where started brokers keep their data; the disk counts.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write figures here.")] = None,
) -> None:
    """Measure brokers side by side with pre-encoded frames, in turns, and print medians."""
    console = Console()
    signal.signal(signal.SIGTERM, _stop)
    try:
        cases = cases_named(case or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--case") from error
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=folder)))
        machine = measure_machine(data, [c.body_bytes for c in cases], _RELAY_SECONDS)
        try:
            urls = _brokers(stack, data, target, peer, peer_target, ceiling)
        except BrokerUnavailable as error:
            console.print(str(error), style="red", markup=False)
            raise typer.Exit(2) from error
        figures = Session(urls, cases, runs, warm_up, seconds).measure(console)
    report = Report(machine, list(urls), list(cases), figures)
    report.print(console)
    if json_file:
        json_file.write_text(report.json() + "\n")
    if report.failures:
        raise typer.Exit(1)


def _stop(number: int, _frame: FrameType | None) -> None:
    """End like an error would, so that the brokers started here are stopped."""
    raise SystemExit(128 + number)


def _brokers(
    stack: ExitStack,
    data: Path,
    target: str | None,
    peer: Peer | None,
    peer_target: str | None,
    ceiling: bool,
) -> dict[str, str]:
    """URLs by name; the brokers started here stop with the stack."""
    urls = {}
    if target:
        urls["target"] = target
    elif not (ceiling and peer is None and peer_target is None):
        urls["routelog"] = stack.enter_context(routelog(data))
    if peer is Peer.RABBITMQ:
        urls["rabbitmq"] = stack.enter_context(rabbitmq(data))
    if peer_target:
        urls["peer"] = peer_target
    if ceiling:
        urls["ceiling"] = stack.enter_context(null_broker())
    return urls


if __name__ == "__main__":
    typer.run(main)
