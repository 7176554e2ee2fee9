"""`routelog export run | compact | vacuum`: logs into tables of a lake, without Spark."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.text import Text

from routelog.log_backend import SystemClock, SystemDisk

if TYPE_CHECKING:
    from routelog.spark_bridge.columns.record_table import TableLayout
    from routelog.spark_bridge.lakes.exporter import Exported, Exporter
    from routelog.spark_bridge.lakes.lake_table import LakeTable
    from routelog.spark_bridge.logs.readable_logs import OffsetRange, ReadableLogs

EXIT_FAILED = 1
EXIT_USAGE = 2
FETCH_SECONDS = 120.0
FETCH_RETRIES = 3
VACUUM_HOURS = 168  # Delta's default: queries that began earlier may still read the files

export_commands = typer.Typer(
    name="export",
    help="Copy logs to a Delta or Iceberg table or Parquet files, exactly once; look after the table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class TableFormat(StrEnum):
    """What a table is made of."""

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


TableArgument = Annotated[Path, typer.Argument(help="The table's directory.")]
PathOption = Annotated[Path | None, typer.Option("--path", help="The broker's data directory.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="ROUTELOG_URL",
        help="The broker's HTTP API: http://user:password@host:15672",
    ),
]
RemoteOption = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="ROUTELOG_REMOTE_STORAGE",
        help="Remote storage with the older part: s3://bucket/prefix?region=...",
    ),
]
VhostOption = Annotated[str, typer.Option(help="The queues' vhost.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON Lines instead of text.")]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Go on with what comes, until SIGTERM.")
]
EveryOption = Annotated[
    float, typer.Option(help="With --follow, look for records so often, in seconds.", min=0.1)
]


@export_commands.command()
def run(
    table: TableArgument,
    queue: Annotated[list[str] | None, typer.Option(help="A queue; may be repeated.")] = None,
    pattern: Annotated[str | None, typer.Option(help="Queues whose whole name matches.")] = None,
    path: PathOption = None,
    url: UrlOption = None,
    remote: RemoteOption = None,
    vhost: VhostOption = "/",
    table_format: Annotated[TableFormat, typer.Option("--format")] = TableFormat.DELTA,
    name: Annotated[
        str, typer.Option(help="The exporter's: another one exports the same again.")
    ] = "export",
    columns: Annotated[
        str, typer.Option(help="Typed columns: 'id long, tenant string from header tenant'")
    ] = "",
    body_format: Annotated[str, typer.Option(help="json, msgpack or avro.")] = "json",
    body: Annotated[bool, typer.Option(help="Keep bodies as they are.")] = True,
    envelope: Annotated[
        bool, typer.Option(help="Keep exchange, routing key, properties, headers.")
    ] = True,
    transaction_bytes: Annotated[str, typer.Option(help="Of bodies, about.")] = "128m",
    follow: FollowOption = False,
    every: EveryOption = 60.0,
    skip_lost: Annotated[
        bool,
        typer.Option(
            "--skip-lost",
            help="Go on behind what retention has removed, and with the queue that was declared again.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy what is stored and not in the table yet; the table itself knows how far it is.

    A queue that has lost records, or is damaged, is named on stderr, and the others go on: exit code 1.
    """
    with complaints():
        from routelog.spark_bridge.columns.record_table import RecordRows, parse_layout
        from routelog.spark_bridge.lakes.exporter import Exporter
        from routelog.spark_bridge.logs.errors import BadOption
        from routelog.spark_bridge.logs.queue_selection import NamedQueues, parse_selection
        from routelog.spark_bridge.reading.option_values import OptionValues

        if bool(queue) == (pattern is not None):
            raise BadOption("--queue", "give either queues or --pattern")
        selection = (
            NamedQueues(frozenset(queue))
            if queue
            else parse_selection({"subscribePattern": pattern or ""})
        )
        size = OptionValues({"--transaction-bytes": transaction_bytes}).size("--transaction-bytes")
        layout = parse_layout(columns or None, body_format, envelope=envelope, body=body)
        with progress_bar() as (bar, advance):
            exporter = Exporter(
                open_store(path, url, remote),
                vhost,
                selection,
                RecordRows(layout),
                open_table(table, table_format, layout, name),
                transaction_bytes=size or 1,
                lost_is_error=not skip_lost,
                progress=advance,
            )
            for stop in rounds(follow=follow, every=every):
                done = export(exporter, exporter.backlog(), bar, stop)
                if done.transactions or not follow:
                    tell(asdict(done), as_json=as_json)
                complain_of_logs(exporter)
        if exporter.failures:
            raise typer.Exit(EXIT_FAILED)


@export_commands.command()
def compact(
    table: TableArgument,
    all_days: Annotated[
        bool, typer.Option("--all", help="Today's files, too, beside which more will come.")
    ] = False,
    target_mb: Annotated[int, typer.Option(help="Size of the files made.", min=1)] = 256,
    as_json: JsonOption = False,
) -> None:
    """Make large files of small ones in a Delta table; what the table holds does not change."""
    with complaints():
        from routelog.spark_bridge.lakes.delta_lake import compact_table

        today = None if all_days else SystemClock().now()
        target = target_mb * 1024 * 1024
        tell(compact_table(table, target, before=today, disk=SystemDisk()), as_json=as_json)


@export_commands.command()
def vacuum(
    table: TableArgument,
    hours: Annotated[
        int, typer.Option(help="Keep what left the table later than so long ago.", min=0)
    ] = VACUUM_HOURS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove files that a Delta table does not need any more: those that were compacted, for the most part."""
    with complaints():
        from routelog.spark_bridge.lakes.delta_lake import vacuum_table

        tell({"files_removed": len(vacuum_table(table, hours, dry_run=dry_run))}, as_json=as_json)


def open_store(path: Path | None, url: str | None, remote: str | None) -> "ReadableLogs":
    """Open the logs at the place that options give.

    Raises:
        BadOption: no place or two are given, or there are no logs.
    """
    from routelog.spark_bridge.logs.errors import BadOption
    from routelog.spark_bridge.logs.http_endpoint import parse_endpoint
    from routelog.spark_bridge.logs.log_place import LogPlace

    if path is not None and url is not None:
        raise BadOption("--path", "give either the data directory or --url")
    if path is None and url is None and remote is None:
        raise BadOption("--path", "give the data directory, --url or --remote")
    endpoint = None if url is None else parse_endpoint(url, {}, FETCH_SECONDS, FETCH_RETRIES)
    return LogPlace(path, endpoint, remote or "").open()


def open_table(
    table: Path, table_format: TableFormat, layout: "TableLayout", name: str
) -> "LakeTable":
    """Open the table, or create it.

    Raises:
        TableUnusable: the table is of another kind, or belongs to another exporter.
    """
    from routelog.spark_bridge.lakes.lake_table import MARKS, TableUnusable

    for found, mark in MARKS.items():
        # Spark's VACUUM of a Delta table would remove the files of another one.
        if found != table_format and any(table.glob(mark)):
            raise TableUnusable(f"{table}: there is a table of format {found} already")
    disk, clock = SystemDisk(), SystemClock()
    disk.make_directory(table.absolute())
    if table_format is TableFormat.DELTA:
        from routelog.spark_bridge.lakes.delta_lake import DeltaLake

        return DeltaLake(table, layout, name, disk, clock)
    if table_format is TableFormat.ICEBERG:
        from routelog.spark_bridge.lakes.iceberg_lake import IcebergLake

        return IcebergLake(table, layout, name, disk, clock)
    from routelog.spark_bridge.lakes.parquet_lake import ParquetLake

    return ParquetLake(table, layout, name, disk)


def rounds(*, follow: bool, every: float) -> Iterator[Event]:
    """Once, or with `follow` every so many seconds until a signal; yields the event that the signal sets."""
    stop = Event()

    def stopping(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT) if follow else ():
        signal.signal(number, stopping)
    while True:
        yield stop
        if not follow or stop.wait(every):
            return


def export(
    exporter: "Exporter", backlog: "Sequence[OffsetRange]", bar: Progress | None, stop: Event
) -> "Exported":
    """Export a backlog; where `stop` is set, the open transaction is the last one."""
    if bar is not None:
        total = sum(each.bytes_estimate for each in backlog)
        bar.update(bar.task_ids[0], total=total, completed=0)
    return exporter.run(backlog, stop.is_set)


@contextmanager
def progress_bar() -> Iterator[tuple[Progress | None, Callable[[int], None]]]:
    """A progress bar on stderr if that is a terminal, and a function that advances it."""
    if not sys.stderr.isatty():
        yield None, lambda size: None
        return
    bar = Progress(
        "exporting",
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("exporting", total=None)
        yield bar, lambda size: bar.advance(task, size)


@contextmanager
def complaints() -> Iterator[None]:
    """Print an error in one line on stderr, and exit: 1 the command failed, 2 an option is wrong."""
    try:
        from routelog.spark_bridge.lakes.lake_table import TableUnusable
        from routelog.spark_bridge.logs.errors import BadOption, LogUnreadable
    except ImportError as error:
        complain(f"{error}; install routelog-broker[lake]")
        raise typer.Exit(EXIT_USAGE) from None
    try:
        yield
    except BadOption as error:
        complain(str(error))
        raise typer.Exit(EXIT_USAGE) from None
    except ImportError as error:
        complain(f"{error}; install routelog-broker[lake]")
        raise typer.Exit(EXIT_USAGE) from None
    except BrokenPipeError:  # whoever reads what is printed has had enough
        raise
    except (LogUnreadable, OSError, TableUnusable) as error:
        complain(str(error))
        raise typer.Exit(EXIT_FAILED) from None


def tell(facts: dict[str, Any], *, as_json: bool) -> None:
    """Print what was done."""
    if as_json:
        typer.echo(msgspec.json.encode(facts).decode())
    else:
        shown = {
            name.replace("_", " "): value if isinstance(value, str) else f"{value:,}"
            for name, value in facts.items()
        }
        typer.echo(", ".join(f"{name}: {value}" for name, value in shown.items()))


def complain_of_logs(exporter: "Exporter", of: str = "") -> None:
    """Print for each log that was left out why, in one line on stderr."""
    from routelog.spark_bridge.logs.errors import RecordsLost

    for partition, error in exporter.failures.items():
        # The others name a file, or what the broker says.
        log = "" if isinstance(error, RecordsLost) else f"{partition}: "
        complain(f"{of}{log}{error}")


def complain(reason: str) -> None:
    """Print an error in one line on stderr."""
    printable = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in reason)
    line = Text("routelog: ", style="bold red") + Text(printable, style="default")
    Console(stderr=True).print(line, soft_wrap=True)
