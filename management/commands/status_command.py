"""`routelog status`: the broker at a glance."""

from datetime import timedelta
from typing import Any

import msgspec
import typer

from routelog.management.commands.broker_option import with_broker
from routelog.management.commands.client import ManagementClient
from routelog.management.commands.options import AsJson
from routelog.management.commands.terminal import show

ALARMS = {
    "mem_alarm": "memory",
    "disk_free_alarm": "disk",
    "files_alarm": "files",
    "journal_alarm": "journal",
    "log_alarm": "log: it cannot be written until the node is started again",
}  # a node's row: what publishers wait for


@with_broker
def status(broker: ManagementClient, as_json: AsJson = False) -> None:
    """Say what runs, how much is in it, and whether publishers wait: exit code 1 while they do."""
    overview, nodes = broker.get("overview"), broker.get("nodes")
    # The leader of a cluster
    node = next(each for each in nodes if each["name"] == overview["node"])
    if as_json:
        typer.echo(msgspec.json.encode({**overview, "nodes": nodes}).decode())
    else:
        rows = [{"what": what, "is": value} for what, value in _lines(overview, node).items()]
        show(rows, ("what", "is"), as_json=False)
    broker.get("health", "checks", "alarms")  # refused while there are some


def _lines(overview: dict[str, Any], node: dict[str, Any]) -> dict[str, object]:
    standbys = node["standbys"]
    messages, objects = overview["queue_totals"], overview["object_totals"]
    listeners = [f"{each['protocol']} {_address(each)}" for each in overview["listeners"]]
    return {
        "node": node["name"],
        "version": f"{overview['product_version']}, speaks as RabbitMQ {overview['rabbitmq_version']}",
        "process": node["os_pid"],
        "uptime": timedelta(seconds=node["uptime"] // 1_000),
        "memory used": _mebibytes(node.get("mem_used")),
        "data": node["data_dir"],
        "disk free": _mebibytes(node["disk_free"]),
        "disk reserve": _mebibytes(node["disk_free_limit"]),
        "listeners": listeners,
        **objects,
        "messages ready": messages["messages_ready"],
        "messages unacknowledged": messages["messages_unacknowledged"],
        **({"standbys": [_behind(each) for each in standbys]} if standbys else {}),
        "alarms": [resource for alarm, resource in ALARMS.items() if node[alarm]] or "none",
    }


def _behind(standby: dict[str, Any]) -> str:
    state = "" if standby["is_connected"] else "not connected, "
    return (
        f"{standby['name']}: {state}{standby['bytes']:,} bytes, {standby['seconds']:.1f} s behind"
    )


def _mebibytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count >> 20:,} MiB"


def _address(listener: dict[str, Any]) -> str:
    host, port = listener["ip_address"], listener["port"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
