"""`routelog index create | list | drop | update | query`: queues as tables of declared columns."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from routelog.log_backend import SystemDisk
from routelog.spark_bridge.lakes.export_commands import (
    EXIT_FAILED,
    EveryOption,
    FollowOption,
    JsonOption,
    PathOption,
    RemoteOption,
    TableFormat,
    UrlOption,
    complain,
    complain_of_logs,
    complaints,
    export,
    open_store,
    open_table,
    progress_bar,
    rounds,
    tell,
)

index_commands = typer.Typer(
    name="index",
    help="Keep queues as tables of declared columns, and ask them with SQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

FolderOption = Annotated[
    Path, typer.Option("--in", envvar="ROUTELOG_INDEXES", help="The folder of the indexes.")
]
NameArgument = Annotated[str, typer.Argument(help="The index's name, a table in SQL.")]


@index_commands.command()
def create(
    name: NameArgument,
    folder: FolderOption,
    queue: Annotated[str, typer.Option(help="The queue.")],
    columns: Annotated[
        str,
        typer.Option(help="'id long, tenant string from header x-tenant, area string from key 2'"),
    ],
    vhost: Annotated[str, typer.Option(help="The queue's vhost.")] = "/",
    body_format: Annotated[str, typer.Option(help="json, msgpack or avro.")] = "json",
    body: Annotated[bool, typer.Option(help="Keep bodies as they are, too.")] = False,
) -> None:
    """Declare an index; `update` fills it."""
    with complaints():
        from routelog.spark_bridge.index.index_registry import Index, IndexRegistry

        index = Index(name, vhost, queue, columns, body_format, body)
        IndexRegistry(folder, SystemDisk()).create(index)


@index_commands.command("list")
def list_indexes(folder: FolderOption, as_json: JsonOption = False) -> None:
    """Show what is declared."""
    with complaints():
        from routelog.spark_bridge.index.index_registry import IndexRegistry

        rows = [asdict(index) for index in IndexRegistry(folder, SystemDisk()).all()]
        if as_json:
            for row in rows:
                tell(row, as_json=True)
        else:
            _show([list(row.values()) for row in rows], list(rows[0]) if rows else [])


@index_commands.command()
def drop(name: NameArgument, folder: FolderOption) -> None:
    """Remove an index and its table; the queue stays as it is."""
    with complaints():
        from routelog.spark_bridge.index.index_registry import IndexRegistry

        IndexRegistry(folder, SystemDisk()).drop(name)


@index_commands.command()
def update(
    folder: FolderOption,
    names: Annotated[list[str] | None, typer.Argument(help="Indexes; all without.")] = None,
    path: PathOption = None,
    url: UrlOption = None,
    remote: RemoteOption = None,
    follow: FollowOption = False,
    every: EveryOption = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Bring indexes up to date; with --follow, keep them so.

    One whose queue has no log, or has lost or damaged records, is named on stderr, and the others go on.
    """
    with complaints():
        from routelog.spark_bridge.columns.record_table import RecordRows
        from routelog.spark_bridge.index.index_registry import IndexRegistry
        from routelog.spark_bridge.lakes.exporter import Exporter
        from routelog.spark_bridge.logs.errors import BadOption
        from routelog.spark_bridge.logs.queue_selection import NamedQueues

        registry = IndexRegistry(folder, SystemDisk())
        chosen = [registry.find(name) for name in names] if names else registry.all()
        store = open_store(path, url, remote)
        with progress_bar() as (bar, advance):
            exporters = {
                index.name: Exporter(
                    store,
                    index.vhost,
                    NamedQueues(frozenset([index.queue])),
                    RecordRows(index.layout),
                    open_table(registry.path(index), TableFormat.DELTA, index.layout, "index"),
                    progress=advance,
                )
                for index in chosen
            }
            for stop in rounds(follow=follow, every=every):
                failed = False
                for name, exporter in exporters.items():
                    try:
                        backlog = exporter.backlog()
                    except BadOption as error:
                        complain(f"index {name}: {error}")
                        failed = True
                        continue
                    done = export(exporter, backlog, bar, stop)
                    if done.transactions or not follow:
                        tell({"index": name, **asdict(done)}, as_json=as_json)
                    complain_of_logs(exporter, f"index {name}: ")
                    failed = failed or bool(exporter.failures)
        if failed:
            raise typer.Exit(EXIT_FAILED)


@index_commands.command()
def query(
    sql: Annotated[str, typer.Argument(help="A query; each index is a table of its name.")],
    folder: FolderOption,
    as_json: JsonOption = False,
) -> None:
    """Ask indexes with SQL (DuckDB)."""
    with complaints():
        from routelog.spark_bridge.index.index_query import BadQuery, ask
        from routelog.spark_bridge.index.index_registry import IndexRegistry

        try:
            names, rows = ask(IndexRegistry(folder, SystemDisk()), sql)
        except BadQuery as error:
            raise typer.BadParameter(str(error)) from None
        if as_json:
            for row in rows:
                pairs = dict(zip(names, row, strict=True))
                typer.echo(msgspec.json.encode(pairs, enc_hook=str).decode())
        else:
            _show(rows, names)


def _show(rows: list[list[object]], names: list[str]) -> None:
    table = Table(*names, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    Console(markup=False, highlight=False).print(table)
