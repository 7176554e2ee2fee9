"""`routelog reader`: readers of logs who tell how far they are, and what is kept for them."""

from typing import Annotated

import msgspec
import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import AsJson, Vhost, command_group
from routelog.management.commands.terminal import show

COLUMNS = (
    "name",
    "partition",
    "next_offset",
    "messages_ready",
    "bytes_behind",
    "hold_bytes",
    "lapsed",
)

reader = command_group(
    "reader", "List, move and delete the readers that a queue keeps its log for."
)

QueueName = Annotated[str, typer.Argument(help="A queue that keeps its log.")]
ReaderName = Annotated[str, typer.Argument(help="A reader, or a consumer group.")]


@reader.command("list")
@with_broker
def list_readers(
    broker: ManagementClient, queue: QueueName, vhost: Vhost = "/", as_json: AsJson = False
) -> None:
    """List the readers and groups of a queue, by partition: how far behind they are."""
    rows = [
        {"name": each["name"], "hold_bytes": each["hold_bytes"], "partition": number, **place}
        for each in broker.get("logs", vhost, queue, "readers")
        for number, place in enumerate(each["partitions"])
    ]
    show(rows, COLUMNS, as_json=as_json)


@reader.command("move")
@with_broker
def move_reader(
    broker: ManagementClient,
    queue: QueueName,
    name: ReaderName,
    to: Annotated[
        str,
        typer.Option(
            help="first, last, next, an offset, -9 for the last nine, a time (ISO 8601), or an age: 1h."
        ),
    ],
    vhost: Vhost = "/",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what that skips or repeats.")
    ] = False,
) -> None:
    """Let a reader or a group that nobody consumes by go on elsewhere in the log."""
    body = {"to": to} | ({"dry_run": True} if dry_run else {})
    answer = broker.ask("PUT", "logs", vhost, queue, "readers", name, "position", body=body)
    if dry_run:
        move = msgspec.json.decode(answer)
        typer.echo(f"skips {move['skipped']:,} messages, reads {move['repeated']:,} once more")


@reader.command("delete")
@with_broker
def delete_reader(
    broker: ManagementClient, queue: QueueName, name: ReaderName, vhost: Vhost = "/"
) -> None:
    """Keep nothing for a reader any more."""
    broker.ask("DELETE", "logs", vhost, queue, "readers", name)
