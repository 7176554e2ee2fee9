"""Fairness under load, `python -m routelog.benchmarks.storms.fairness`: how long others wait during a storm.

A bystander publishes and waits for its confirm, without the disk, while each storm runs. "Loop busy" is the
processor time of the broker's event loop during one wait, which may span two or three turns. "Turn" is the
longest single turn, by the clock of the loop's thread.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from routelog.benchmarks.brokers.broker_process import rabbitmq, routelog
from routelog.benchmarks.storms.bystander import bystander
from routelog.benchmarks.storms.crowd_storms import CrowdStorms
from routelog.benchmarks.storms.disconnect_storms import DisconnectStorms
from routelog.benchmarks.storms.loop_turns import LoopTurns, Turn, between
from routelog.benchmarks.storms.management_storms import ManagementStorms
from routelog.benchmarks.storms.storms import Storms
from routelog.benchmarks.storms.stream_storms import StreamStorms
from routelog.benchmarks.storms.transaction_storms import TransactionStorms

GOAL_SECONDS = 0.025
COLUMNS = ("meanwhile", "p50", "p99", "longest", "loop busy", "turn", "its CPU", "> 25 ms")


def main(
    scale: Annotated[float, typer.Option(min=0.0001, max=1.0, help="Of every storm.")] = 1.0,
    only: Annotated[str, typer.Option(help="Nothing, and storms whose name contains this.")] = "",
    folder: Annotated[
        Path | None, typer.Option(help="Where the broker keeps its data; the disk counts.")
    ] = None,
    of_rabbitmq: Annotated[
        bool,
        typer.Option("--rabbitmq", help="RabbitMQ's bystander, without turns and management."),
    ] = False,
) -> None:
    """Measure how long a bystander waits while one client is a storm, and what holds the loop."""
    console = Console(width=120)  # storms have long names
    table = Table(title="publish to confirm of a bystander, and turns of the loop, milliseconds")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "meanwhile" else "right")
    rows: list[tuple[str, float, float, tuple[float, ...]]] = []
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=folder)))
        recording = LoopTurns(data)
        broker = stack.enter_context(
            rabbitmq(data)
            if of_rabbitmq
            else routelog(data, with_http=True, environment=recording.environment)
        )
        assert broker.session is not None
        url, pid = broker.uri, broker.session  # whoever begins a session is called like it
        crowds = CrowdStorms(url, scale)
        storms: dict[str, Callable[[], None]] = {
            **Storms(url, scale).all,
            **TransactionStorms(url, scale).all,
            **crowds.all,
            **DisconnectStorms(url, scale).all,
        }
        if broker.http_port is not None:
            storms |= StreamStorms(url, scale).all
            storms |= ManagementStorms(url, broker.http_port, crowds, scale).all
        for name, storm in storms.items():
            if name != "nothing" and only not in name:
                continue
            begin = time.monotonic()
            with bystander(url, pid) as waits:
                storm()
            rows.append((name, begin, time.monotonic(), waits.figures()))
        turns = [] if of_rabbitmq else recording.all()
    for name, begin, end, figures in rows:
        table.add_row(name, *map(_milliseconds, figures), *_held(between(turns, begin, end)))
    console.print(table)
    if not recording.are_known and not of_rabbitmq:
        console.print("single turns are not known: gcc is not installed")


def _held(turns: Sequence[Turn]) -> tuple[str, str, str]:
    # The longest turn, the most processor time of a turn, and the number of too long turns.
    if not turns:
        return "", "", ""
    longest = max(turn.seconds for turn in turns)
    running = max(turn.cpu_seconds for turn in turns)
    late = sum(turn.seconds > GOAL_SECONDS for turn in turns)
    return _milliseconds(longest), _milliseconds(running), str(late)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"


if __name__ == "__main__":
    typer.run(main)
