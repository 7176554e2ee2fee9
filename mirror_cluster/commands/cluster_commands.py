"""`routelog cluster status`: who leads, who has everything, who is alive."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from routelog.mirror_cluster.coordination.coordinator import (
    ClusterView,
    CoordinatorRefused,
    CoordinatorUnavailable,
)
from routelog.mirror_cluster.node.cluster_coordinator import open_coordinator
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.protocol.shard_record import BadRecord

EXIT_NOT_WELL = 1
EXIT_NOT_REACHABLE = 2  # what wrong usage of the command line exits with, too

ConfigOption = Annotated[
    Path | None,
    typer.Option(help="Configuration file; ./routelog.toml is read when it is there."),
]


def cluster_commands(load: Callable[[Path | None], ClusterOptions]) -> typer.Typer:
    """The commands.

    Args:
        load: reads the cluster's options from a configuration file, or that of the working directory.
    """
    commands = typer.Typer(
        name="cluster",
        help="Look at a cluster.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @commands.callback()
    def several() -> None:
        """Without this, the only command would not have to be named."""

    @commands.command()
    def status(
        config: ConfigOption = None,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Say who leads, who has everything, who is alive: exit code 1 while something is missing."""
        options = load(config)
        try:
            view = asyncio.run(_read(options))
        except (CoordinatorUnavailable, CoordinatorRefused, BadRecord) as error:
            typer.echo(f"routelog: etcd: {error}", err=True)
            raise typer.Exit(EXIT_NOT_REACHABLE) from None
        told = cluster_status(options, view)
        if as_json:
            typer.echo(msgspec.json.encode(told).decode())
        else:
            _show(told["nodes"])
            _show(told["shards"])
        if not told["is_well"]:
            raise typer.Exit(EXIT_NOT_WELL)

    return commands


async def _read(options: ClusterOptions) -> ClusterView:
    coordinator = open_coordinator(options)
    try:
        return await coordinator.read()
    finally:
        await coordinator.aclose()


def cluster_status(options: ClusterOptions, view: ClusterView) -> dict[str, Any]:
    """What the coordinator holds, for people and programs."""
    nodes = [
        {
            "node": name,
            "address": view.nodes[name].address if name in view.nodes else address,
            "alive": name in view.nodes,
        }
        for name, address in options.addresses.items()
    ]
    shards: list[dict[str, Any]] = []
    for shard, record in sorted(view.records.items()):
        leader = view.nodes.get(record.leader)
        shards.append(
            {
                "shard": shard,
                "leader": record.leader,
                "led": leader is not None and leader.process == record.claim,
                "epoch": record.epoch,
                "in_sync": sorted(record.in_sync),
                "replicas": list(record.replicas),
                "unclean": record.unclean,
            }
        )
    is_well = bool(shards) and all(
        each["led"] and len(each["in_sync"]) == len(each["replicas"]) for each in shards
    )
    return {"cluster": options.name, "is_well": is_well, "nodes": nodes, "shards": shards}


def _show(rows: list[dict[str, Any]]) -> None:
    if not rows:
        typer.echo("no shards: nobody has made the cluster")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0]:
        table.add_column(column.replace("_", " "))
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(markup=False, highlight=False).print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
