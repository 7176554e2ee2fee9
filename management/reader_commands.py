"""`routelog reader`: readers of logs who tell how far they are, and what is kept for them."""

from typing import Annotated

import typer

from management.client import ManagementClient
from management.options import HERE, AsJson, DataDir, Vhost, command_group
from management.terminal import complaints, show

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


@reader.command("list")
def list_readers(
    queue: QueueName, vhost: Vhost = "/", data_dir: DataDir = HERE, as_json: AsJson = False
) -> None:
    """List the readers and groups of a queue, by partition: how far behind they are."""
    with complaints():
        found = ManagementClient(data_dir).get("logs", vhost, queue, "readers")
        rows = [
            {"name": each["name"], "hold_bytes": each["hold_bytes"], "partition": number, **place}
            for each in found
            for number, place in enumerate(each["partitions"])
        ]
        show(rows, COLUMNS, as_json=as_json)


@reader.command("move")
def move_reader(
    queue: QueueName,
    name: str,
    to: Annotated[
        str,
        typer.Option(help="first, last, next, an offset, a time (ISO 8601), or an age such as 1h."),
    ],
    vhost: Vhost = "/",
    data_dir: DataDir = HERE,
) -> None:
    """Let a reader or a group that nobody consumes by go on elsewhere in the log."""
    with complaints():
        path = ("logs", vhost, queue, "readers", name, "position")
        ManagementClient(data_dir).ask("PUT", *path, body={"to": to})


@reader.command("delete")
def delete_reader(
    queue: QueueName, name: str, vhost: Vhost = "/", data_dir: DataDir = HERE
) -> None:
    """Keep nothing for a reader any more."""
    with complaints():
        ManagementClient(data_dir).ask("DELETE", "logs", vhost, queue, "readers", name)
