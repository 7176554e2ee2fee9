"""The command line `python -m benchmarks`: brokers side by side, and what grows."""

import shlex
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from routelog.benchmarks.brokers.broker_process import Broker, rabbitmq, routelog
from routelog.benchmarks.comparison.cases import Case, Window, cases_named
from routelog.benchmarks.comparison.growth import CURVES, Curve, measure_growth
from routelog.benchmarks.comparison.performance_page import PerformancePage
from routelog.benchmarks.comparison.report import Report
from routelog.benchmarks.comparison.session import Session
from routelog.benchmarks.perf.outcome import refusals
from routelog.benchmarks.traffic.connection import Connection
from routelog.benchmarks.traffic.folder import scratch
from routelog.benchmarks.traffic.machine import Machine, measure_machine
from routelog.benchmarks.traffic.publish_run import publishes_to
from routelog.benchmarks.traffic.unexpected import EXIT_WRONG, BadRequest

_MACHINE_SECONDS = 1.0  # of each of its limits


class Peer(StrEnum):
    """Brokers that the tool can start beside the one measured."""

    RABBITMQ = "rabbitmq"


def main(
    target: Annotated[
        str | None, typer.Option(help="Broker to measure; without it a RouteLog is started.")
    ] = None,
    peer: Annotated[Peer | None, typer.Option(help="Start this broker and compare.")] = None,
    peer_target: Annotated[str | None, typer.Option(help="Compare with this broker.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; repeatable.")] = None,
    growth: Annotated[
        bool, typer.Option("--growth", help="Measure the curves instead of the cases.")
    ] = False,
    curve: Annotated[
        list[str] | None, typer.Option(help="With --growth: only this one; repeatable.")
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, help="With --growth: leave out larger points.")
    ] = 16_777_216,
    point_seconds: Annotated[
        float,
        typer.Option(min=1.0, help="With --growth: leave out points that seem to take longer."),
    ] = 60.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Measured window of a run.")] = 2.0,
    warm_up: Annotated[float, typer.Option(min=0.0, help="Seconds before the window.")] = 0.7,
    runs: Annotated[int, typer.Option(min=1, help="Runs of every case and broker.")] = 5,
    backlog: Annotated[
        int, typer.Option(min=1, help="How far the consumer of the case `behind` is.")
    ] = 1_000_000,
    with_machine: Annotated[
        bool, typer.Option("--machine/--no-machine", help="Measure the machine's own limits, too.")
    ] = True,
    folder: Annotated[
        Path | None, typer.Option(help="Where started brokers keep their data; the disk counts.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write figures here.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write this page, with drawings in `figures` beside it.")
    ] = None,
) -> None:
    """Measure brokers side by side with pre-encoded frames, in turns, and print medians."""
    console = Console()
    window = Window(warm_up, seconds, backlog)
    command = shlex.join(["python", "-m", "routelog.benchmarks", *sys.argv[1:]])
    with refusals(), ExitStack() as stack:
        cases, curves = cases_named(case or []), _curves_named(curve or [])
        data = stack.enter_context(scratch(folder, "bench-"))
        limits = _machine(data, cases) if with_machine else None
        brokers = _brokers(stack, data, target, peer, peer_target)
        versions = {name: _version(broker) for name, broker in brokers.items()}
        if growth:
            grown = measure_growth(brokers, curves, window, most, point_seconds, console)
            if page:
                PerformancePage(page).write_growth(grown, limits, versions, command)
            failed = any(each.failures for each in grown)
        else:
            results = Session(brokers, cases, runs, window).measure(console)
            report = Report(results, limits, versions, command)
            report.print(console)
            if json_file:
                report.write(json_file)
            if page:
                PerformancePage(page).write_matrix(report)
            failed = bool(results.failures)
    if failed:
        raise typer.Exit(EXIT_WRONG)


def _curves_named(names: list[str]) -> tuple[Curve, ...]:
    known = {curve.name: curve for curve in CURVES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadRequest(f"unknown curve {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(known[name] for name in names) if names else CURVES


def _machine(data: Path, cases: tuple[Case, ...]) -> Machine:
    sizes = {case.workload.body_bytes for case in cases}
    runs = {size: publishes_to("bench.relay", size, persistent=False) for size in sizes}
    return measure_machine(data, runs, _MACHINE_SECONDS)


def _version(broker: Broker) -> str:
    connection = Connection(broker.uri)
    connection.close()
    return connection.server


def _brokers(
    stack: ExitStack,
    data: Path,
    target: str | None,
    peer: Peer | None,
    peer_target: str | None,
) -> dict[str, Broker]:
    """Brokers by name; those started here stop with the stack."""
    brokers = {}
    if target:
        brokers["target"] = _running(target)
    else:
        brokers["routelog"] = stack.enter_context(routelog(data))
    if peer is Peer.RABBITMQ:
        brokers["rabbitmq"] = stack.enter_context(rabbitmq(data))
    if peer_target:
        brokers["peer"] = _running(peer_target)
    return brokers


def _running(uri: str) -> Broker:
    """A broker that somebody else started."""
    return Broker(uri, tls_uri=uri if uri.startswith("amqps://") else None)


if __name__ == "__main__":
    typer.run(main)
