"""The output of a command: a table for people, a file for programs, one line for a failure."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from routelog.benchmarks.traffic.machine import Machine
from routelog.benchmarks.traffic.run import OnTick, Sample
from routelog.benchmarks.traffic.unexpected import RunFailed
from routelog.broker.process.logs import escape_control

if TYPE_CHECKING:
    from routelog.benchmarks.perf.latency import Percentiles

_TEXT = "{task.description} [bold]{task.fields[rate]:,.0f}[/] {task.fields[unit]}/s"


@dataclass(frozen=True)
class Outcome:
    """The figures of one command.

    Args:
        rows: of the table, each with its unit.
        figures: the same and more, for programs.
        settings: the options of the command.
    """

    command: str
    server: str
    rows: list[tuple[str, str]]
    figures: dict[str, Any]
    settings: dict[str, Any]
    machine: Machine | None = None

    def print(self, console: Console) -> None:
        """Print the table, and a line for the machine."""
        table = Table("", show_header=True)
        table.add_column(Text(escape_control(self.server)), justify="right")
        for name, value in self.rows:
            table.add_row(name, value)
        console.print(table)
        if self.machine is not None:
            console.print(f"the machine itself: {self.machine}", soft_wrap=True, highlight=False)

    def write(self, path: Path) -> None:
        """Write the figures as one JSON object."""
        content = {
            "command": self.command,
            "server": self.server,
            "settings": self.settings,
            "figures": self.figures,
            "machine": None if self.machine is None else asdict(self.machine),
        }
        path.write_text(json.dumps(content, indent=2) + "\n")


def percentile_rows(name: str, times: "Percentiles") -> list[tuple[str, str]]:
    """A row for each level, in milliseconds."""
    levels = {
        "p50": times.p50,
        "p90": times.p90,
        "p99": times.p99,
        "p99.9": times.p999,
        "max": times.max,
    }
    return [(f"{name}, {level}", f"{value * 1e3:,.3f} ms") for level, value in levels.items()]


@contextmanager
def progress(description: str, unit: str = "msg") -> Iterator[OnTick]:
    """Show the rate while something runs, on a terminal's stderr."""
    # No thread of its own: the run forks its processes meanwhile.
    columns = SpinnerColumn(), TextColumn(_TEXT), BarColumn()
    console = Console(stderr=True)
    with Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as shown:
        task = shown.add_task(description, total=None, rate=0.0, unit=unit)
        last = Sample(0.0, 0, 0, 0)

        def tick(sample: Sample) -> None:
            nonlocal last
            done = (sample.received or sample.published) - (last.received or last.published)
            rate = max(0.0, done / (sample.seconds - last.seconds))
            last = sample
            shown.update(task, rate=rate, refresh=True)

        yield tick


@contextmanager
def refusals() -> Iterator[None]:
    """Turn failures into one line on stderr and an exit code; end on SIGTERM as on an error."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    except (RunFailed, OSError) as error:
        line = Text("routelog: ", style="bold red")
        line += Text(escape_control(str(error)), style="default")
        Console(stderr=True).print(line, soft_wrap=True)
        raise typer.Exit(getattr(error, "exit_code", 2)) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
