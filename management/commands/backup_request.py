"""`routelog backup create`: the running broker copies what it has, without being stopped."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import AnswerRefused, ManagementClient
from routelog.management.commands.options import AsJson

ASK_SECONDS = 0.5  # between two questions how far it is

Target = Annotated[
    str, typer.Argument(help="A folder, file:///folder, or s3://bucket/prefix?region=...")
]


@with_broker
def create(
    broker: ManagementClient,
    target: Target,
    name: Annotated[str, typer.Option(help="Of the backup; else made of the time, in UTC.")] = "",
    as_json: AsJson = False,
) -> None:
    """Copy what the running broker has, without stopping it; only what the target lacks is copied.

    The broker writes the backup: a folder is one of its machine.
    """
    body = {"target": target_address(target), "name": name}
    began = msgspec.json.decode(broker.ask("POST", "backup", body=body))
    try:
        state = _watched(broker, began)
    except KeyboardInterrupt:
        broker.ask("DELETE", "backup")
        raise
    if as_json:
        typer.echo(msgspec.json.encode(state).decode())
    elif state["state"] == "done":
        size, kept = state["bytes_total"], state["bytes_kept"]
        typer.echo(
            f"backup '{state['name']}': {state['files']} files, {size} bytes, {kept} of them there before; "
            f"everything durable up to position {state['position']}"
        )
    if state["state"] != "done":
        raise AnswerRefused(f"backup '{state['name']}' failed: {state['error']}")


def _watched(broker: ManagementClient, state: dict[str, Any]) -> dict[str, Any]:
    with progress("backup", 0) as told:
        done = 0
        while state["state"] in ("taking", "copying"):
            sleep(ASK_SECONDS)
            name = state["name"]
            state = broker.get("backup")
            if state["name"] != name:
                raise AnswerRefused(f"backup '{name}' ended, and another one has begun since")
            told(state["bytes_done"] - done, state["bytes_total"])
            done = state["bytes_done"]
    return state


def target_address(target: str) -> str:
    """The address of a bucket: folders may be given as paths."""
    return target if "://" in target else f"file://{quote(str(Path(target).absolute()))}"


@contextmanager
def progress(what: str, size: int) -> Iterator[Callable[..., None]]:
    """Show a bar while it lasts: given the bytes that were done, and their sum when it is known late."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=size or None)
        yield lambda done, total=None: bar.update(task, advance=done, total=total or None)
