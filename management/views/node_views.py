"""The node: overview, listeners, health."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import msgspec

from routelog.exchanges import EXCHANGE_TYPES
from routelog.log_backend import Lane, in_turns
from routelog.management.calls.answer import Answer, Empty, Listing, Row, Value
from routelog.management.calls.call import Call
from routelog.management.calls.caller import Need
from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.process_usage import ProcessUsage, process_usage
from routelog.management.views.health import alarm_rows
from routelog.management.views.virtual_hosts import counted_messages
from routelog.vhosts import CLUSTER_NAME, RABBITMQ_VERSION, QueueProperties, ResourceKind, Verb

ALIVENESS_QUEUE = "aliveness-test"  # RabbitMQ's

_UNIT_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
_PROTOCOLS = {
    "amqp091": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
}  # as a health check may say


class ClusterNameBody(msgspec.Struct):
    """What the cluster is to be called."""

    name: str


async def overview(call: Call) -> Answer:
    """What the node is, and how much of everything the caller sees."""
    broker, node = call.broker, call.broker.node
    vhosts = [vhost for vhost in broker.vhosts.all() if call.caller.knows(vhost.name)]
    ready, unacked = await counted_messages(vhosts)
    row: Row = {
        "management_version": node.version,
        "product_name": "RouteLog",
        "product_version": node.version,
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": broker.parameters.cluster_name(node.name),
        "node": node.name,
        "rates_mode": "none",
        "disable_stats": False,
        "exchange_types": _exchange_types(),
        "queue_totals": {
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
        },
        "object_totals": {
            "queues": sum(len(vhost.queues) for vhost in vhosts),
            "exchanges": sum(len(vhost.routing.exchanges()) for vhost in vhosts),
            **await _connection_totals(call),
        },
    }
    if call.caller.has(Need.MONITORING):
        row["listeners"] = _listeners(call)
        row["contexts"] = _contexts(call)
    return Value(row)


async def _connection_totals(call: Call) -> Row:
    totals = {"connections": 0, "channels": 0, "consumers": 0}
    async for connection in in_turns(call.broker.connections.connections(), Lane.OPERATORS):
        if call.caller.has(Need.MONITORING) or connection.user == call.caller.name:
            totals["connections"] += 1
            totals["channels"] += len(connection.channels)
            totals["consumers"] += connection.consumers
    return totals


async def list_nodes(call: Call) -> Answer:
    """This node."""
    return Listing([await _node_row(call)], dict, lambda row: str(row["name"]))


async def get_node(call: Call) -> Answer:
    """This node, if it has this name."""
    _check_name(call)
    return Value(await _node_row(call))


def _check_name(call: Call) -> None:
    if call.path("name") != call.broker.node.name:
        raise not_found()


async def _node_row(call: Call) -> Row:
    broker, node = call.broker, call.broker.node
    uptime = broker.clock.monotonic() - node.started_at
    alarms = broker.alarms()
    intake_bytes, intake_bytes_max = broker.intake_bytes()
    return {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(node.process_id),
        "uptime": int(uptime * 1_000),
        "processors": os.cpu_count(),
        **_usage_row(await asyncio.to_thread(process_usage)),
        "fd_total": node.file_descriptors_max,
        "sockets_used": broker.connections.count,
        "sockets_total": node.connections_max,
        "intake_bytes": intake_bytes,
        "intake_bytes_limit": intake_bytes_max,
        "disk_free": broker.space.free,
        "disk_free_limit": broker.space.reserve.size,
        "mem_alarm": any("memory" in alarm for alarm in alarms),
        "disk_free_alarm": any("disk" in alarm for alarm in alarms),
        "journal_alarm": any("journal" in alarm for alarm in alarms),
        "log_alarm": bool(broker.log_failure()),
        "data_dir": node.data_dir,
        "db_dir": node.data_dir,
        "rates_mode": "none",
        "exchange_types": _exchange_types(),
        "auth_mechanisms": [{"name": name, "enabled": True} for name in ("PLAIN", "AMQPLAIN")],
        "applications": [{"name": "routelog", "version": node.version}],
        "enabled_plugins": [],
        "partitions": [],
    }


def _usage_row(usage: ProcessUsage | None) -> Row:
    if usage is None:
        return {}
    return {
        "mem_used": usage.memory_bytes,
        "mem_limit": usage.memory_bytes_max,
        "mem_calculation_strategy": "rss",
        "fd_used": usage.files,
        "proc_used": usage.threads,
        "proc_total": usage.threads_max,
    }


def cluster_name(call: Call) -> Answer:
    """What the node tells clients that its cluster is called."""
    return Value({"name": call.broker.parameters.cluster_name(call.broker.node.name)})


async def put_cluster_name(call: Call) -> Answer:
    """Name the cluster: clients are told when they connect."""
    body = await call.body(ClusterNameBody)
    await call.broker.parameters.put(CLUSTER_NAME, body.name)
    return Empty()


def extensions(call: Call) -> Answer:
    """Plugins of the management page: none."""
    return Value([])


def _exchange_types() -> list[Row]:
    return [{"name": name, "description": "", "enabled": True} for name in sorted(EXCHANGE_TYPES)]


def _listeners(call: Call) -> list[Row]:
    node = call.broker.node
    return [
        {"node": node.name, "protocol": protocol, "ip_address": host, "port": port}
        for protocol, (host, port) in node.listeners.items()
    ]


def _contexts(call: Call) -> list[Row]:
    node = call.broker.node
    described = {"node": node.name, "description": "RouteLog Management", "path": "/"}
    return [
        {**described, "ip": host, "port": str(port)}  # a text, as RabbitMQ's
        for protocol, (host, port) in node.listeners.items()
        if protocol in ("http", "https")
    ]


# -- health


def check_alarms(call: Call) -> Answer:
    """Whether publishers wait for something."""
    alarms = call.broker.alarms()
    if not alarms:
        return Value({"status": "ok"})
    reason = "There are alarms in effect in the cluster"
    return Value({"status": "failed", "reason": reason, "alarms": alarm_rows(call, alarms)}, 503)


def check_node(call: Call) -> Answer:
    """As `check_alarms`, if the node has this name."""
    _check_name(call)
    return check_alarms(call)


def check_ok(call: Call) -> Answer:
    """Always well: what could be unwell is not there, or stops the broker."""
    return Value({"status": "ok"})


def check_certificates(call: Call) -> Answer:
    """Whether no certificate that clients are shown expires within a time."""
    text, days = call.path("within"), _UNIT_DAYS.get(call.path("unit").lower())
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise bad_request("Invalid expiration value.")
    if days is None:
        raise bad_request("Time unit not recognised. Use: days, weeks, months, years.")
    node, within = call.broker.node, timedelta(days=int(text) * days)
    now = datetime.fromtimestamp(call.broker.clock.now() / 1_000_000, UTC)
    expired = [
        {
            "node": node.name,
            "protocol": protocol,
            "ip_address": node.listeners[protocol][0],
            "port": node.listeners[protocol][1],
            "certfile": str(file),
            "certfile_expires_on": f"{expiry:%Y-%m-%d %H:%M:%S}",
        }
        for protocol, expiries in call.broker.expiries().items()
        for file, expiry in expiries.items()
        if expiry - now < within
    ]
    if not expired:
        return Value({"status": "ok"})
    reason = "Certificates expiring"
    return Value({"status": "failed", "reason": reason, "expired": expired}, 503)


def check_quorum(call: Call) -> Answer:
    """Whether others need this node: there are none."""
    return Value({"status": "ok", "reason": "single node cluster"})


def check_port(call: Call) -> Answer:
    """Whether somebody listens on a port."""
    text = call.path("port")
    port = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
    ports = [listening for _, listening in call.broker.node.listeners.values()]
    if port in ports:
        return Value({"status": "ok", "port": port})
    reason = "No active listener"
    return Value({"status": "failed", "reason": reason, "missing": port, "ports": ports}, 503)


def check_protocol(call: Call) -> Answer:
    """Whether a protocol is spoken."""
    protocol = call.path("protocol")
    protocols = list(call.broker.node.listeners)
    if _PROTOCOLS.get(protocol.lower(), protocol.lower()) in protocols:
        return Value({"status": "ok", "protocol": protocol})
    failed = {"status": "failed", "reason": "No active listener"}
    return Value({**failed, "missing": protocol, "protocols": protocols}, 503)


async def check_aliveness(call: Call) -> Answer:
    """Declare a queue, publish to it and take the message."""
    vhost, caller = call.vhost, call.caller
    for kind, name, verb in (
        (ResourceKind.QUEUE, ALIVENESS_QUEUE, Verb.CONFIGURE),
        (ResourceKind.QUEUE, ALIVENESS_QUEUE, Verb.READ),
        (ResourceKind.EXCHANGE, "", Verb.WRITE),
    ):
        caller.authorize(vhost.name, kind, name, verb)
    await vhost.until_free("queue", ALIVENESS_QUEUE)
    queue = vhost.declare_queue(QueueProperties(ALIVENESS_QUEUE), call)[0]
    messages = call.broker.messages
    await messages.publish(vhost, caller.user, "", ALIVENESS_QUEUE, {}, b"test_message")
    if not list(await messages.take(queue, 1, requeue=False)):
        raise Refused(503, "failed", "the message did not come back")
    return Value({"status": "ok"})
