"""`routelog top`: a running broker at a glance, again and again."""

import sys
from contextlib import suppress
from time import sleep
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.status_command import ALARMS
from routelog.management.commands.terminal import WIDTH, printable

CONNECTIONS = 5
# What queues are sorted by. To sort by a rate, the broker looks up that of every queue.
ORDERS = {
    "messages": "messages",
    "ready": "messages_ready",
    "unacked": "messages_unacknowledged",
    "consumers": "consumers",
    "publish": "message_stats.publish_details.rate",
    "deliver": "message_stats.deliver_get_details.rate",
    "ack": "message_stats.ack_details.rate",
}
RATES = {"publish": "publish", "confirm": "confirm", "deliver_get": "deliver", "ack": "ack"}


@with_broker
def top(
    broker: ManagementClient,
    by: Annotated[str, typer.Option(help=f"Queues by {', '.join(ORDERS)}.")] = "messages",
    count: Annotated[int, typer.Option(min=1, max=500, help="So many queues.")] = 15,
    seconds: Annotated[float, typer.Option(min=0.5, help="Between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look; so it is in a pipe.")] = False,
) -> None:
    """Watch rates, queues and connections of a broker, until Ctrl-C."""
    if by not in ORDERS:
        raise typer.BadParameter(f"expected --by {', '.join(ORDERS)}")
    if once or not sys.stdout.isatty():
        width = None if sys.stdout.isatty() else WIDTH
        Console(highlight=False, width=width).print(_screen(broker, by, count))
        return
    with (
        suppress(KeyboardInterrupt),
        Live(_screen(broker, by, count), screen=True, auto_refresh=False) as live,
    ):
        while True:
            sleep(seconds)
            live.update(_screen(broker, by, count), refresh=True)


def _screen(broker: ManagementClient, by: str, count: int) -> Group:
    overview, nodes = broker.get("overview"), broker.get("nodes")
    queues = _first(broker, "queues", ORDERS[by], count)
    connections = _first(broker, "connections", "recv_oct_details.rate", CONNECTIONS)
    return Group(
        *(Text(printable(line)) for line in _head(overview, nodes)),
        Text(),
        _table(
            ["queue", "vhost", "ready", "unacked", "consumers", "publish/s", "deliver/s", "ack/s"],
            [
                [
                    queue["name"],
                    queue["vhost"],
                    *(queue[f"messages_{of}"] for of in ("ready", "unacknowledged")),
                    queue["consumers"],
                    *(_rate(queue, name) for name in ("publish", "deliver_get", "ack")),
                ]
                for queue in queues
            ],
        ),
        Text(),
        _table(
            ["connection", "user", "state", "channels", "KiB in/s", "KiB out/s"],
            [
                [
                    connection.get("user_provided_name") or connection["name"],
                    connection["user"],
                    connection["state"],
                    connection["channels"],
                    *(
                        connection.get(f"{way}_oct_details", {}).get("rate", 0) / 1_024
                        for way in ("recv", "send")
                    ),
                ]
                for connection in connections
            ],
        ),
    )


def _first(broker: ManagementClient, kind: str, order: str, count: int) -> list[dict[str, Any]]:
    query = {"page": 1, "page_size": count, "sort": order, "sort_reverse": "true"}
    found: list[dict[str, Any]] = broker.get(kind, query=urlencode(query))["items"]
    return found


def _head(overview: dict[str, Any], nodes: list[dict[str, Any]]) -> list[str]:
    totals, objects = overview["queue_totals"], overview["object_totals"]
    node = next(each for each in nodes if each["name"] == overview["node"])
    rates = (f"{label} {_rate(overview, name):,.1f}/s" for name, label in RATES.items())
    alarms = [resource for alarm, resource in ALARMS.items() if node[alarm]]
    memory, disk = node.get("mem_used") or 0, node["disk_free"]
    return [
        f"{node['name']}  memory {memory >> 20:,} MiB  disk free {disk >> 20:,} MiB"
        f"  files {node.get('fd_used', 0)}  alarms: {', '.join(alarms) or 'none'}",
        f"ready {totals['messages_ready']:,}  unacked {totals['messages_unacknowledged']:,}  "
        + "  ".join(rates),
        "  ".join(f"{name} {count:,}" for name, count in objects.items()),
    ]


def _rate(row: dict[str, Any], name: str) -> float:
    rate: float = row.get("message_stats", {}).get(f"{name}_details", {}).get("rate", 0.0)
    return rate


def _table(heads: list[str], rows: list[list[Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    numbers = {at for row in rows for at, value in enumerate(row) if not isinstance(value, str)}
    for at, head in enumerate(heads):
        is_number = at in numbers
        table.add_column(head, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
