"""`routelog queue` and `routelog exchange`: declare, bind, empty and delete."""

from typing import Annotated

import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import (
    Arguments,
    Transient,
    Vhost,
    command_group,
    named_values,
)

queue = command_group(
    "queue", "Declare, change, pause, bind, purge and delete queues; look at and move messages."
)
exchange = command_group("exchange", "Declare exchanges.")


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


@queue.command("declare")
@with_broker
def declare_queue(
    broker: ManagementClient,
    name: str,
    kind: Annotated[str | None, typer.Option("--type", help="classic, quorum or stream.")] = None,
    argument: Arguments = None,
    transient: Transient = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="It goes with its last consumer.")
    ] = False,
    vhost: Vhost = "/",
) -> None:
    """Declare a queue: the same again changes nothing, other arguments are refused."""
    arguments = named_values(argument) | ({} if kind is None else {"x-queue-type": kind})
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": arguments}
    broker.ask("PUT", "queues", vhost, name, body=body)


@queue.command("set")
@with_broker
def set_arguments(
    broker: ManagementClient,
    name: str,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...", help="A value that is JSON is that; KEY= removes one."
        ),
    ],
    vhost: Vhost = "/",
) -> None:
    """Change arguments of a queue; its clients and messages stay."""
    changes = named_values(arguments)
    removed = [each[:-1] for each in arguments if each.find("=") == len(each) - 1]
    broker.ask("PUT", "queues", vhost, name, "arguments", body=changes | dict.fromkeys(removed))


@queue.command("pause")
@with_broker
def pause_queue(broker: ManagementClient, name: str, vhost: Vhost = "/") -> None:
    """Let a queue hand out nothing until it is resumed; publishes, acks and expiry go on."""
    broker.ask("PUT", "queues", vhost, name, "pause")


@queue.command("resume")
@with_broker
def resume_queue(broker: ManagementClient, name: str, vhost: Vhost = "/") -> None:
    """Let a paused queue hand out again."""
    broker.ask("PUT", "queues", vhost, name, "resume")


@queue.command("bind")
@with_broker
def bind_queue(
    broker: ManagementClient,
    name: str,
    exchange: Annotated[str, typer.Argument(help="The exchange.")],
    key: Annotated[str, typer.Option(help="The binding's key.")] = "",
    argument: Arguments = None,
    vhost: Vhost = "/",
) -> None:
    """Bind a queue to an exchange."""
    body = {"routing_key": key, "arguments": named_values(argument)}
    broker.ask("POST", "bindings", vhost, "e", exchange, "q", name, body=body)


@exchange.command("declare")
@with_broker
def declare_exchange(
    broker: ManagementClient,
    name: str,
    kind: Annotated[str, typer.Option("--type", help="direct, fanout, topic, headers ...")],
    argument: Arguments = None,
    transient: Transient = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="It goes with its last binding.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Only exchanges publish to it.")
    ] = False,
    vhost: Vhost = "/",
) -> None:
    """Declare an exchange: the same again changes nothing, other arguments are refused."""
    body = {
        "type": kind,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": named_values(argument),
    }
    broker.ask("PUT", "exchanges", vhost, name, body=body)
