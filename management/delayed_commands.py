"""`routelog delayed`: what delayed message exchanges hold."""

from typing import Annotated

import typer

from management.client import ManagementClient
from management.options import HERE, AsJson, DataDir, Vhost, command_group
from management.terminal import complaints, show

COLUMNS = ("id", "due", "exchange", "routing_key", "payload_bytes")

delayed = command_group("delayed", "List and cancel the messages that delayed exchanges hold.")

ExchangeName = Annotated[str, typer.Argument(help="A delayed message exchange.")]


@delayed.command("list")
def list_delayed(
    exchange: ExchangeName,
    count: Annotated[int, typer.Option(help="At most so many, those that are due next.")] = 100,
    begin: Annotated[str | None, typer.Option("--from", help="From this id on.")] = None,
    vhost: Vhost = "/",
    data_dir: DataDir = HERE,
    as_json: AsJson = False,
) -> None:
    """List what an exchange holds, as it is due."""
    with complaints():
        query = f"count={count}" + (f"&from={begin}" if begin is not None else "")
        client = ManagementClient(data_dir)
        page = client.get("exchanges", vhost, exchange, "delayed", query=query)
        show(page["items"], COLUMNS, as_json=as_json)


@delayed.command("cancel")
def cancel(
    exchange: ExchangeName,
    ids: Annotated[list[str] | None, typer.Argument(help="As the list shows them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Whatever it holds.")] = False,
    vhost: Vhost = "/",
    data_dir: DataDir = HERE,
) -> None:
    """Cancel messages: they are never delivered."""
    if everything == bool(ids):
        raise typer.BadParameter("expected ids, or --all")
    with complaints():
        client = ManagementClient(data_dir)
        path = ("exchanges", vhost, exchange, "delayed")
        if everything:
            client.ask("DELETE", *path)
        for each in ids or ():
            client.ask("DELETE", *path, each)
