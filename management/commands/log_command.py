"""`routelog log tail`: the last lines of a running broker's log, and those that come."""

from time import sleep
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import AsJson
from routelog.management.commands.terminal import printable

FOLLOW_SECONDS = 1.0
LINES_MAX = 1_000  # that the broker keeps


@with_broker
def tail_log(
    broker: ManagementClient,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with lines that come, until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option(min=1, max=LINES_MAX, help="At most so many first.")] = 20,
    since: Annotated[
        str | None, typer.Option(help="From a time (ISO 8601) on, or an age such as 1h.")
    ] = None,
    level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    user: Annotated[str | None, typer.Option(help="What this user did.")] = None,
    event: Annotated[str | None, typer.Option(help="Events that begin so: queue.deleted.")] = None,
    via: Annotated[str | None, typer.Option(help="HTTP: what operators did.")] = None,
    text: Annotated[str | None, typer.Option(help="Lines that hold this text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a running broker has logged: the last thousand lines are kept."""
    wanted = {"level": level, "user": user, "event": event, "via": via, "text": text}
    query: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    first = {"count": lines} | ({} if since is None else {"since": since})
    page = broker.get("log", query=urlencode(query | first))
    while True:
        for line in page["items"]:
            typer.echo(msgspec.json.encode(line).decode() if as_json else _as_text(line))
        if not follow:
            return
        sleep(FOLLOW_SECONDS)
        page = broker.get(
            "log", query=urlencode(query | {"count": LINES_MAX, "since": page["next"]})
        )


def _as_text(line: dict[str, Any]) -> str:
    return printable(f"{line['time']} {line['level'].upper()} {line['message']}")
