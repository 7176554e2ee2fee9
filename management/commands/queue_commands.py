"""`routelog queue`: empty queues and delete them."""

from typing import Annotated

import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import Vhost, command_group

queue = command_group("queue", "Purge and delete queues.")


@queue.command("purge")
@with_broker
def purge_queue(broker: ManagementClient, name: str, vhost: Vhost = "/") -> None:
    """Remove all messages that wait in a queue; those that consumers have stay theirs."""
    broker.ask("DELETE", "queues", vhost, name, "contents")


@queue.command("delete")
@with_broker
def delete_queue(
    broker: ManagementClient,
    name: str,
    vhost: Vhost = "/",
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Unless it has messages.")] = False,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Unless it has consumers.")
    ] = False,
) -> None:
    """Delete a queue with all its messages."""
    query = f"if-empty={if_empty}&if-unused={if_unused}".lower()
    broker.ask("DELETE", "queues", vhost, name, query=query)
