"""`routelog queue browse|tail|move|redrive|replay|restore|get|publish`: the messages in queues."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import sleep
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import AnswerRefused, ManagementClient
from routelog.management.commands.options import (
    AsJson,
    Conditions,
    Transient,
    Vhost,
    named_values,
    with_conditions,
)
from routelog.management.commands.queue_commands import queue as queue
from routelog.management.commands.terminal import printable, show

COLUMNS = ("partition", "offset", "state", "exchange", "routing_key", "payload_bytes", "payload")
GOT_COLUMNS = ("exchange", "routing_key", "redelivered", "payload_bytes", "payload")
STEP = 10_000  # messages of one request, so that the bar moves
SHOWN_BYTES = 200  # of a body in a table
TAIL_SECONDS = 0.5

QueueName = Annotated[str, typer.Argument(help="The queue.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="first, last, next, an offset, -9 for the last nine, a time (ISO 8601), or an age: 1h.",
    ),
]
Until = Annotated[str | None, typer.Option(help="What came before: a time, or an age such as 1h.")]
State = Annotated[str | None, typer.Option(help="ready, unacked, settled, or all.")]
Partition = Annotated[int | None, typer.Option(help="Only of this partition.")]
ToQueue = Annotated[str | None, typer.Option("--to-queue", help="Into a queue.")]
ToExchange = Annotated[str | None, typer.Option("--to-exchange", help="By way of an exchange.")]
RoutingKey = Annotated[
    str | None, typer.Option("--routing-key", help="At the exchange; else each keeps its own.")
]
Limit = Annotated[int | None, typer.Option(help="At most so many messages.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask at a terminal.")]


@queue.command("browse")
@with_broker
@with_conditions
def browse(
    broker: ManagementClient,
    conditions: Conditions,
    name: QueueName,
    begin: From = None,
    until: Until = None,
    state: State = None,
    partition: Partition = None,
    count: Annotated[int, typer.Option(help="At most so many.")] = 20,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Show messages as they lie in a queue; nothing becomes of them."""
    wanted = _filter(begin, until, **conditions, state=state, partition=partition)
    if not as_json:
        wanted["truncate"] = str(SHOWN_BYTES)
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        page = _page(broker, vhost, name, {**wanted, "count": str(min(1_000, count - len(rows)))})
        rows += page["items"]
        if page["next"] is None:
            break
        wanted["offset"] = page["next"]
    show(rows, COLUMNS, as_json=as_json)


@queue.command("tail")
@with_broker
@with_conditions
def tail(
    broker: ManagementClient,
    conditions: Conditions,
    name: QueueName,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Show messages as they come to a queue, until Ctrl-C; nothing becomes of them.

    Of a queue without retention, those are missed that are settled within half a second.
    """
    wanted = _filter("next", None, **conditions, state="all")
    while True:
        page = _page(broker, vhost, name, wanted)
        for row in page["items"]:
            if as_json:
                typer.echo(msgspec.json.encode(row).decode())
            else:
                place = f"{row['partition']}:{row['offset']}"
                typer.echo(printable(f"{place}  {row['routing_key']}  {row['payload']}"))
        wanted["offset"] = page["next"] or page["end"]
        if page["next"] is None:
            sleep(TAIL_SECONDS)


@queue.command("move")
@with_broker
@with_conditions
def move(
    broker: ManagementClient,
    conditions: Conditions,
    name: QueueName,
    message: Annotated[
        list[str] | None, typer.Option(help="partition:offset, as browse shows them.")
    ] = None,
    to_queue: ToQueue = None,
    to_exchange: ToExchange = None,
    routing_key: RoutingKey = None,
    copy: Annotated[bool, typer.Option("--copy", help="They stay, too.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="They go nowhere.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All that are ready.")] = False,
    begin: From = None,
    until: Until = None,
    partition: Partition = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Move messages to another queue or exchange; copy or delete them. Those that consumers have stay."""
    wanted = _filter(begin, until, **conditions, partition=partition)
    if bool(message) + bool(wanted) + everything != 1:
        raise typer.BadParameter("expected --message, a filter such as --key, or --all")
    if copy and delete:
        raise typer.BadParameter("--copy or --delete")
    if delete and (to_queue, to_exchange, routing_key) != (None, None, None):
        raise typer.BadParameter("--delete sends messages nowhere: leave out --delete, or where to")
    mode = "copy" if copy else "delete" if delete else "move"
    body: dict[str, Any] = {"mode": mode}
    if not delete:
        body["to"] = _target(to_queue, to_exchange, routing_key)
    body |= {"messages": message} if message else {"filter": wanted}
    done = {"copy": "copied", "delete": "deleted", "move": "moved"}[mode]
    _carry_out(broker, ("queues", vhost, name, "move"), body, done, limit, dry_run, yes, as_json)


@queue.command("redrive")
@with_broker
@with_conditions
def redrive(
    broker: ManagementClient,
    conditions: Conditions,
    name: QueueName,
    begin: From = None,
    until: Until = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the queues in which they died."""
    body = {"filter": _filter(begin, until, **conditions)}
    path = ("queues", vhost, name, "redrive")
    _carry_out(broker, path, body, "sent back", limit, dry_run, yes, as_json)


@queue.command("replay")
@with_broker
@with_conditions
def replay(
    broker: ManagementClient,
    conditions: Conditions,
    name: QueueName,
    begin: From = None,
    until: Until = None,
    to_queue: ToQueue = None,
    to_exchange: ToExchange = None,
    routing_key: RoutingKey = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Publish again what the log of a queue holds, consumed or not."""
    wanted = _filter(begin, until, **conditions)
    body = {"filter": wanted, "to": _target(to_queue, to_exchange, routing_key)}
    path = ("queues", vhost, name, "replay")
    _carry_out(broker, path, body, "published again", limit, dry_run, yes, as_json)


@queue.command("restore")
@with_broker
def restore_purged(
    broker: ManagementClient,
    name: QueueName,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Put back what the last purge dropped, to the end of the queue, while its log keeps it."""
    path = ("queues", vhost, name, "restore")
    _carry_out(broker, path, {}, "put back", limit, dry_run, yes, as_json)


@queue.command("get")
@with_broker
def get(
    broker: ManagementClient,
    name: QueueName,
    count: Annotated[int, typer.Option(help="At most so many.")] = 1,
    ack: Annotated[
        bool, typer.Option("--ack", help="Take them away; else they come back, as redelivered.")
    ] = False,
    vhost: Vhost = "/",
    as_json: AsJson = False,
) -> None:
    """Take messages as a client does, and put them back: `browse` leaves them alone."""
    ackmode = "ack_requeue_false" if ack else "ack_requeue_true"
    body = {"count": count, "ackmode": ackmode, "encoding": "auto"}
    answer = broker.ask("POST", "queues", vhost, name, "get", body=body)
    show(msgspec.json.decode(answer), GOT_COLUMNS, as_json=as_json)


@queue.command("publish")
@with_broker
def publish(
    broker: ManagementClient,
    name: QueueName,
    body: Annotated[str, typer.Argument(help="Of the message; else standard input.")] = "-",
    header: Annotated[list[str] | None, typer.Option(help="name=value")] = None,
    transient: Transient = False,
    vhost: Vhost = "/",
) -> None:
    """Publish one message to a queue, and wait until it is confirmed."""
    content = sys.stdin.read() if body == "-" else body
    properties = {"delivery_mode": 1 if transient else 2, "headers": named_values(header)}
    message = {
        "routing_key": name,
        "properties": properties,
        "payload": content,
        "payload_encoding": "string",
    }
    answer = broker.ask("POST", "exchanges", vhost, "amq.default", "publish", body=message)
    if not msgspec.json.decode(answer)["routed"]:
        raise AnswerRefused(f"no queue '{name}' in vhost '{vhost}'")
    typer.echo("published and confirmed: 1 message")


def _filter(begin: str | None, until: str | None, **conditions: str | int | None) -> dict[str, str]:
    # The parameters of the HTTP API.
    place = "offset" if begin in ("first", "last", "next") or _is_place(begin) else "time"
    said = {place: begin, "until": until, **conditions}
    return {name: str(value) for name, value in said.items() if value is not None}


def _is_place(begin: str | None) -> bool:
    # A number, or places as an answer gives them; a time has a dash before its first colon.
    return begin is not None and begin.removeprefix("-").partition(":")[0].isdigit()


def _target(queue: str | None, exchange: str | None, key: str | None) -> dict[str, str]:
    if (queue is None) == (exchange is None):
        raise typer.BadParameter("expected --to-queue, or --to-exchange")
    if exchange is None and key is not None:
        raise typer.BadParameter("--routing-key is for --to-exchange")
    said = {"queue": queue, "exchange": exchange, "routing_key": key}
    return {name: value for name, value in said.items() if value is not None}


def _page(broker: ManagementClient, vhost: str, name: str, wanted: Mapping[str, str]) -> Any:
    return broker.get("queues", vhost, name, "messages", query=urlencode(wanted))


def _carry_out(
    broker: ManagementClient,
    path: tuple[str, ...],
    body: dict[str, Any],
    done: str,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    if not (dry_run or yes) and _is_asked():
        _confirm(broker, path, body, done, limit)
    total: dict[str, Any] = {"count": 0, "skipped": {}, "stopped": None, "dry_run": dry_run}
    try:
        with _progress(done) as tell:
            _take_steps(broker, path, body, limit, total, tell)
    except BaseException:
        if total["count"]:
            _show(total, done, as_json=as_json)
        raise
    _show(total, done, as_json=as_json)
    if total["stopped"] is not None:
        raise AnswerRefused(f"ended early: {total['stopped']}")


def _take_steps(
    broker: ManagementClient,
    path: tuple[str, ...],
    body: dict[str, Any],
    limit: int | None,
    total: dict[str, Any],
    tell: Callable[[int], None],
) -> None:
    # `total` counts along: what earlier steps did stays done when a later one fails.
    while limit is None or total["count"] < limit:
        most = STEP if limit is None else min(STEP, limit - total["count"])
        answer = _asked(broker, path, {**body, "limit": most, "dry_run": total["dry_run"]})
        total["count"] += answer["count"]
        total["stopped"] = answer["stopped"]
        for reason, count in answer["skipped"].items():
            total["skipped"][reason] = total["skipped"].get(reason, 0) + count
        tell(total["count"])
        if answer["next"] is None or answer["stopped"] is not None:
            break
        if path[-1] != "restore":
            body = {**body, "filter": {**body.get("filter", {}), "offset": answer["next"]}}
            body.pop("messages", None)
        elif total["dry_run"]:
            break  # it would find the same again


def _show(total: dict[str, Any], done: str, *, as_json: bool) -> None:
    typer.echo(msgspec.json.encode(total).decode() if as_json else _sentence(total, done))


def _asked(broker: ManagementClient, path: tuple[str, ...], body: dict[str, Any]) -> Any:
    return msgspec.json.decode(broker.ask("POST", *path, body=body))


def _is_asked() -> bool:
    return sys.stdin.isatty()


def _confirm(
    broker: ManagementClient,
    path: tuple[str, ...],
    body: dict[str, Any],
    done: str,
    limit: int | None,
) -> None:
    most = STEP if limit is None else min(STEP, limit)
    found = _asked(broker, path, {**body, "limit": most, "dry_run": True})
    more = " or more" if found["next"] is not None and limit != found["count"] else ""
    name = path[2]
    what = f"{_messages(found['count'])}{more} of queue '{printable(name)}'"
    typer.echo(f"{what} will be {done}.", err=True)
    if typer.prompt("Type the name of the queue to go on", err=True) != name:
        raise AnswerRefused("that is another name: nothing was done")


def _sentence(total: Mapping[str, Any], done: str) -> str:
    would = "would be " if total["dry_run"] else ""
    left = ", ".join(f"{count:,} {reason}" for reason, count in total["skipped"].items())
    return f"{_messages(total['count'])} {would}{done}" + (f"; left: {left}" if left else "")


def _messages(count: int) -> str:
    return f"{count:,} message" + "s" * (count != 1)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    # Nothing is shown where nobody watches.
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda count: shown.update(task, completed=count)
