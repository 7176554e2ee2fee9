"""`routelog log dump | verify | repair`: the log of a data directory whose broker does not run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from routelog.broker.process.data_directory import in_words
from routelog.broker.process.logs import escape_control
from routelog.log_backend import (
    EXCHANGE_MARK,
    INCARNATION_FILE,
    CorruptBatch,
    DataDirectory,
    DirectoryLocked,
    Finding,
    JournalReport,
    MetadataCorrupt,
    MetadataUnavailable,
    NoDataDirectory,
    PartitionReport,
    Repair,
    Repaired,
    StoredPartition,
    SystemClock,
    SystemDisk,
    Verification,
    journal_reports,
    keep_private,
    open_metadata,
    partition_report,
    stored_records,
)
from routelog.vhosts import partition_names

EXIT_DAMAGED = 1
EXIT_USAGE = 2  # also when the directory cannot be used
WIDTH = 240  # of a table that goes into a file or a pipe
RANGES_SHOWN_MAX = 8  # of lost offsets in a table; JSON has all

DirectoryArgument = Annotated[Path, typer.Argument(help="The broker's data directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON Lines instead of tables.")]


def dump(
    data_dir: DirectoryArgument,
    queue: Annotated[str | None, typer.Option(help="Print the records of this queue.")] = None,
    vhost: Annotated[str, typer.Option(help="The queue's vhost.")] = "/",
    partition: Annotated[int, typer.Option(help="The queue's partition.")] = 0,
    first: Annotated[int, typer.Option("--from", help="Begin at this offset.", min=0)] = 0,
    limit: Annotated[int, typer.Option(help="Print so many records.", min=1)] = 100,
    bodies: Annotated[bool, typer.Option("--bodies", help="Print the bodies, too.")] = False,
    journal: Annotated[bool, typer.Option("--journal", help="Print the journal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is stored: an overview, the records of a queue, or the journal."""
    if journal and queue is not None:
        raise typer.BadParameter("give either --queue or --journal")
    with _opened(data_dir) as data:
        if queue is not None:
            found = _partition(data, vhost, queue, partition)
            rows = stored_records(data, found, first, with_bodies=bodies)
            _records(islice(rows, limit), as_json=as_json)
        elif journal:
            _journal(data, as_json=as_json)
        else:
            _overview(data, as_json=as_json)


def verify(data_dir: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Read everything and say what is damaged. Exit code 0: nothing, 1: something, 2: not verified."""
    with _opened(data_dir) as data:
        with _progress(data) as progress:
            verification = Verification(data, progress)
            findings = list(verification.run())
        damages = sum(finding.severity == "damage" for finding in findings)
        summary = {
            "bytes": verification.bytes_done,
            "batches": verification.batches,
            "blocks": verification.blocks,
            "damages": damages,
            "notices": len(findings) - damages,
        }
        if as_json:
            _json_lines({"kind": "finding"} | _plain(each) for each in findings)
            _json_lines([{"kind": "summary"} | summary])
        else:
            if findings:
                _show_findings(findings)
            typer.echo(
                f"{summary['batches']} batches and {summary['blocks']} journal blocks read, "
                f"{summary['bytes']} bytes: {damages} damages, {summary['notices']} notices"
            )
    raise typer.Exit(EXIT_DAMAGED if damages else 0)


def repair(
    data_dir: DirectoryArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; otherwise only say what.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep what is whole, set aside what is not, and say which messages are lost.

    What is taken out is copied to quarantine/ in the data directory first.
    """
    if yes and _is_of_a_cluster(data_dir):
        _refuse(
            f"{data_dir} is of a node of a cluster, whose others have what is lost here: empty it, and the "
            f"node gets a copy. If no other node has the data, remove its file {INCARNATION_FILE} first"
        )
    with _opened(data_dir, read_only=not yes) as data:
        stamp = datetime.fromtimestamp(SystemClock().now() // 1_000_000, UTC)
        aside = data_dir / "quarantine" / stamp.strftime("%Y%m%dT%H%M%SZ")
        steps = list(Repair(data, aside, is_dry=not yes).run())
    if as_json:
        _json_lines({"kind": "step", "done": yes} | _plain(each) for each in steps)
        return
    if not steps:
        typer.echo("nothing to repair")
        return
    _show_steps(steps)
    if yes:
        typer.echo(f"done; what was taken out is in {escape_control(str(aside))}")
    else:
        typer.echo("nothing was changed; run again with --yes")


# -- opening


@contextmanager
def _opened(path: Path, *, read_only: bool = True) -> Iterator[DataDirectory]:
    disk = SystemDisk()
    keep_private()  # RocksDB makes files when it opens
    try:
        with open_metadata(path, disk, read_only=read_only) as metadata:
            yield DataDirectory(path, disk, metadata, partition_names(metadata))
    except BrokenPipeError:  # whoever reads what is printed has had enough
        raise
    except DirectoryLocked as error:
        _refuse(f"{error.path} is held: stop the broker, or the other tool, first")
    except (
        NoDataDirectory,
        MetadataCorrupt,
        MetadataUnavailable,
        CorruptBatch,
        msgspec.MsgspecError,
        OSError,
    ) as error:
        _refuse(in_words(error))


def _is_of_a_cluster(path: Path) -> bool:
    try:
        return INCARNATION_FILE in SystemDisk().list_directory(path)
    except OSError as error:
        _refuse(in_words(error))


def _refuse(reason: str) -> NoReturn:
    line = Text("routelog: ", style="bold red") + Text(escape_control(reason), style="default")
    Console(stderr=True).print(line, soft_wrap=True)
    raise typer.Exit(EXIT_USAGE)


def _partition(data: DataDirectory, vhost: str, queue: str, index: int) -> StoredPartition:
    of_queue = [each for each in data.partitions() if (each.vhost, each.queue) == (vhost, queue)]
    for partition in of_queue:
        if partition.index == index:
            return partition
    what = f"partition {index} of queue" if of_queue else "durable queue"
    _refuse(f"no {what} '{queue}' in vhost '{vhost}'")


@contextmanager
def _progress(data: DataDirectory) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console, both = Console(stderr=True), sys.stdout.isatty()  # then rows stand above the bar
    with Progress(*columns, console=console, transient=True, redirect_stdout=both) as bar:
        task = bar.add_task("read", total=data.total_bytes())
        yield lambda size: bar.advance(task, size)


# -- showing


def _overview(data: DataDirectory, *, as_json: bool) -> None:
    stored = data.partitions()
    with _progress(data) as progress:
        partitions = (partition_report(data, each, progress) for each in stored)
        files = (report for report, _ in journal_reports(data, progress))
        if as_json:
            _json_lines({"kind": "partition"} | _plain(each) for each in partitions)
            _json_lines({"kind": "journal"} | _plain(each) for each in files)
            return
        longest = max(
            (len(_name(each.vhost, each.queue, each.index)) for each in stored), default=0
        )
        _show_partitions(partitions, longest)
        _print_line("")
        _show_journal_files(files)


def _show_partitions(partitions: Iterator[PartitionReport], name_width: int) -> None:
    table = _Rows(
        ("queue", name_width),
        ("partition", 9),
        ("segments", 8),
        ("bytes", 15),
        ("records", 12),
        ("offsets", 27),
        ("low water", 12),
        ("state", 0),
    )
    for each in partitions:
        low_water = min((cursor.low_water for cursor in each.cursors), default=0)
        above = sum(cursor.settled_above for cursor in each.cursors)
        first = each.segments[0].base_offset if each.segments else each.next_offset
        end = max((segment.end_offset for segment in each.segments), default=each.next_offset)
        state = "quarantined" if each.quarantined else "" if each.known else "of no queue"
        if any(segment.damaged for segment in each.segments):
            state = state or "damaged"
        table.add(
            _name(each.vhost, each.queue, each.index),
            str(each.partition),
            str(len(each.segments)),
            str(sum(segment.bytes for segment in each.segments)),
            str(sum(segment.records for segment in each.segments)),
            f"{first} to {max(end, each.next_offset)}",
            f"{low_water}, and {above} above" if above else str(low_water),
            state,
        )


def _show_journal_files(files: Iterator[JournalReport]) -> None:
    table = _Rows(
        ("journal file", 45),
        ("bytes", 15),
        ("blocks", 9),
        ("positions", 33),
        ("entries", 9),
        ("state", 0),
    )
    for file in files:
        table.add(
            file.file,
            str(file.bytes),
            str(file.blocks),
            f"{file.first_position} to {file.last_position}" if file.blocks else "",
            str(file.entries),
            "damaged" if file.damaged else "",
        )


def _records(rows: Iterator[Any], *, as_json: bool) -> None:
    if as_json:
        _json_lines({"kind": "record"} | _plain(row) for row in rows)
        return
    table = _Rows(
        ("offset", 12),
        ("time", 32),
        ("exchange", 12),
        ("routing key", 16),
        ("bytes", 9),
        ("properties", 20),
        ("state", 18),
        ("body", 0),
    )
    for row in rows:
        flags = [name for name in ("persistent", "settled") if getattr(row, name)]
        body = "" if row.body is None else bytes.fromhex(row.body).decode(errors="backslashreplace")
        time = datetime.fromtimestamp(row.time / 1_000_000, UTC).isoformat()
        table.add(
            str(row.offset),
            time,
            escape_control(row.exchange),
            escape_control(row.routing_key),
            str(row.bytes),
            row.properties,
            " ".join(flags),
            escape_control(body),
        )


def _journal(data: DataDirectory, *, as_json: bool) -> None:
    with _progress(data) as progress:
        reports = (block for _, blocks in journal_reports(data, progress) for block in blocks)
        if as_json:
            _json_lines({"kind": "block"} | _plain(block) for block in reports)
            return
        table = _Rows(
            ("file", 45),
            ("byte", 12),
            ("position", 15),
            ("committed", 15),
            ("bytes", 9),
            ("entries", 0),
        )
        for block in reports:
            numbers = (block.at, block.position, block.committed, block.bytes)
            first, *others = [*map(_entry, block.entries)] or ["vouches for the last"]
            table.add(block.file, *map(str, numbers), first)
            for entry in others:
                table.add("", "", "", "", "", entry)


def _entry(entry: dict[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in entry.items())


def _show_findings(findings: list[Finding]) -> None:
    table = _table("", "file", "byte", "queue", "offsets", "reason", "a repair would")
    for each in findings:
        table.add_row(
            each.severity,
            escape_control(each.file),
            str(each.position),
            "" if each.queue is None else _name(each.vhost or "", each.queue, each.index or 0),
            "" if each.first is None else _range(each.first, each.end),
            each.reason,
            "do " + each.repair if each.repair == "nothing" else each.repair,
        )
    _print(table)


def _show_steps(steps: list[Repaired]) -> None:
    table = _table("queue", "file", "what", "lost offsets")
    for each in steps:
        ranges = [_range(first, end) for first, end in each.lost]
        shown = ", ".join(ranges[:RANGES_SHOWN_MAX])
        if len(ranges) > RANGES_SHOWN_MAX:
            shown += f", and {len(ranges) - RANGES_SHOWN_MAX} ranges more: see --json"
        table.add_row(
            "" if each.queue is None else _name(each.vhost or "", each.queue, each.index or 0),
            escape_control(each.file),
            each.what,
            shown,
        )
    _print(table)


def _range(first: int, end: int | None) -> str:
    if end is None:
        return f"from {first} on"
    if end <= first:
        return "none"
    return str(first) if end == first + 1 else f"{first} to {end - 1}"


def _name(vhost: str, queue: str, index: int) -> str:
    if queue.startswith(EXCHANGE_MARK):
        queue = f"exchange {queue.removeprefix(EXCHANGE_MARK)}"
    return escape_control(f"{vhost}: {queue}" + (f" [{index}]" if index else ""))


class _Rows:
    """A table whose rows are printed as they come: what is read first is shown first.

    Args:
        columns: heading and least width.
    """

    def __init__(self, *columns: tuple[str, int]) -> None:
        self._widths = [max(width, len(heading)) for heading, width in columns]
        headings = self._line(*(heading for heading, _ in columns))
        _print_line(typer.style(headings, bold=True) if sys.stdout.isatty() else headings)

    def add(self, *cells: str) -> None:
        """Print a row."""
        _print_line(self._line(*cells))

    def _line(self, *cells: str) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return "  ".join(padded).rstrip()


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    # Nothing is cut where nobody watches: a report is often piped into a file.
    width = None if sys.stdout.isatty() else WIDTH
    Console(markup=False, highlight=False, width=width).print(table)


def _plain(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _json_lines(values: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> None:
    for value in values:
        _print_line(msgspec.json.encode(value).decode())


def _print_line(line: str) -> None:
    # Not by typer.echo, which would write into a progress bar of the same terminal.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
