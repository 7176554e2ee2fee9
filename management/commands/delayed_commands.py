"""`routelog delayed`: what delayed message exchanges hold."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import AsJson, Vhost, command_group
from routelog.management.commands.terminal import show

COLUMNS = ("id", "due", "exchange", "routing_key", "payload_bytes")

delayed = command_group("delayed", "List and cancel the messages that delayed exchanges hold.")

ExchangeName = Annotated[str, typer.Argument(help="A delayed message exchange.")]


@delayed.command("list")
@with_broker
def list_delayed(
    broker: ManagementClient,
    exchange: ExchangeName,
    count: Annotated[int, typer.Option(help="At most so many, those that are due next.")] = 100,
    begin: Annotated[str | None, typer.Option("--from", help="From this id on.")] = None,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """List what an exchange holds, as it is due."""
    query = urlencode({"count": count} | ({} if begin is None else {"from": begin}))
    page = broker.get("exchanges", vhost, exchange, "delayed", query=query)
    show(page["items"], COLUMNS, as_json=as_json)


@delayed.command("cancel")
@with_broker
def cancel(
    broker: ManagementClient,
    exchange: ExchangeName,
    ids: Annotated[list[str] | None, typer.Argument(help="As the list shows them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Whatever it holds.")] = False,
    vhost: Vhost = "/",
) -> None:
    """Cancel messages: they are never delivered."""
    if everything == bool(ids):
        raise typer.BadParameter("expected ids, or --all")
    path = ("exchanges", vhost, exchange, "delayed")
    if everything:
        broker.ask("DELETE", *path)
    for each in ids or ():
        broker.ask("DELETE", *path, each)
