"""The node: overview, listeners, health."""

import asyncio
import os
import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from routelog.exchanges import EXCHANGE_TYPES
from routelog.log_backend import Lane, Reason, in_turns
from routelog.management.calls.answer import Answer, Empty, Listing, Row, Value
from routelog.management.calls.call import STATISTICS, Call
from routelog.management.calls.caller import Need
from routelog.management.calls.failures import Refused, bad_request, not_found
from routelog.management.calls.operation import answers, changes, lists
from routelog.management.calls.other_nodes import other_nodes
from routelog.management.calls.other_statistics import added, other_vhosts
from routelog.management.calls.process_usage import ProcessUsage, process_usage
from routelog.management.sampling.history import DAY
from routelog.management.shapes.node import (
    Application,
    ClusterName,
    Context,
    Enabled,
    ExchangeType,
    Listener,
    NodeRow,
    ObjectTotals,
    Overview,
    Standby,
)
from routelog.management.shapes.statistics import Churn, Lengths
from routelog.management.views.health import Healthy, Unhealthy, alarm_rows, failed
from routelog.management.views.virtual_hosts import counted_messages
from routelog.mirror_cluster import ReplicaState
from routelog.vhosts import (
    CLUSTER_NAME,
    RABBITMQ_VERSION,
    QueueProperties,
    ResourceKind,
    Verb,
    value_of,
)

CERTIFICATES = "/health/checks/certificate-expiration/{within}/{unit}"
CLIENT_TOTALS = "/inner/client-totals"
ALIVENESS_QUEUE = "aliveness-test"  # RabbitMQ's
CRITICAL_QUEUES_MAX = 100  # of all durable ones, which are concerned alike

_UNIT_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
# As a health check may say
_PROTOCOLS = {"amqp091": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl"}
_NOWHERE = ("", 0)  # a node that does not lead tells only some of its listeners


# Of the node, vhosts and queues; and of connections, channels and exchanges, which RabbitMQ calls detailed.
_AGES = [int(stretch.age) for stretch in DAY]
_RETENTION = {"global": _AGES, "basic": _AGES, "detailed": _AGES[:1]}


class _Expired(msgspec.Struct):
    expired: list[dict[str, Any]] = []


class ClusterNameBody(msgspec.Struct):
    """What the cluster is to be called."""

    name: str


@answers(Overview, query=STATISTICS)
async def overview(call: Call) -> Answer:
    """What the node is, and how much of everything the caller sees."""
    broker, node = call.broker, call.broker.node
    vhosts = [vhost for vhost in broker.vhosts.all() if call.caller.knows(vhost.name)]
    ready, unacked = await counted_messages(vhosts)
    statistics, counters = call.statistics(), broker.vhosts.counters
    sees_all = call.caller.has(Need.MONITORING)
    of = [counters] if sees_all else [vhost.counters for vhost in vhosts]
    messages = {"message_stats": {}, **statistics.messages(*(each.channels for each in of))}
    messages = await _with_others(call, messages)
    totals = await client_totals(call)
    return Value(
        Overview(
            management_version=node.version,
            product_name="RouteLog",
            product_version=node.version,
            rabbitmq_version=RABBITMQ_VERSION,
            cluster_name=broker.cluster_name(),
            node=node.name,
            rates_mode="basic",
            sample_retention_policies=_RETENTION,
            disable_stats=False,
            exchange_types=_exchange_types(),
            queue_totals=Lengths(**statistics.lengths(of, ready, unacked)),
            churn_rates=Churn(**totals.churn_rates),
            **messages,
            object_totals=ObjectTotals(
                queues=sum(len(vhost.queues) for vhost in vhosts),
                exchanges=sum(len(vhost.routing.exchanges()) for vhost in vhosts),
                connections=totals.connections,
                channels=totals.channels,
                consumers=totals.consumers,
            ),
            listeners=_listeners(call) if sees_all else msgspec.UNSET,
            contexts=_contexts(call) if sees_all else msgspec.UNSET,
        )
    )


async def _with_others(call: Call, messages: Row) -> Row:
    for other in (await other_vhosts(call)).values():
        messages = added(messages, other)
    return messages


class ClientTotals(msgspec.Struct):
    """How much clients have that the caller sees, and how often such came and went."""

    connections: int
    channels: int
    consumers: int
    churn_rates: dict[str, Any]


async def client_totals(call: Call) -> ClientTotals:
    """The totals of all nodes, or in the vhost that the query names."""
    churn = call.statistics().churn(call.broker.vhosts.counters.churn)
    totals, vhost = ClientTotals(0, 0, 0, churn), call.query.get("vhost", "")
    async for connection in in_turns(call.broker.connections.connections(), Lane.OPERATORS):
        is_seen = call.caller.has(Need.MONITORING) or connection.user == call.caller.name
        if is_seen and vhost in ("", connection.vhost.name):
            totals.connections += 1
            totals.channels += len(connection.channels)
            totals.consumers += connection.consumers
    for each in (await other_nodes(call, CLIENT_TOTALS)).values(ClientTotals):
        totals.connections += each.connections
        totals.channels += each.channels
        totals.consumers += each.consumers
        totals.churn_rates = added(totals.churn_rates, each.churn_rates)
    return totals


async def get_client_totals(call: Call) -> Answer:
    """The totals, for other nodes and the page."""
    return Value(await client_totals(call))


@lists(NodeRow, STATISTICS)
async def list_nodes(call: Call) -> Answer:
    """All nodes of the cluster; of the others there is less to say."""
    rows = [await _replica_row(call, replica) for replica in call.broker.cluster.replicas()]
    return Listing(rows, lambda row: row, lambda row: str(row.name))


@answers(NodeRow, query=STATISTICS)
async def get_node(call: Call) -> Answer:
    """A node of the cluster."""
    for replica in call.broker.cluster.replicas():
        if replica.name == call.path("name"):
            return Value(await _replica_row(call, replica))
    raise not_found("node", call.path("name"))


async def _replica_row(call: Call, replica: ReplicaState) -> NodeRow:
    return NodeRow(
        name=replica.name,
        type="disc",
        running=replica.is_running,
        being_drained=False,
        partitions=[],
        in_sync=replica.is_in_sync,
        damaged=replica.is_damaged,
        blocks_behind=replica.blocks_behind,
        **(await _of_this_node(call) if replica.name == call.broker.node.name else {}),
    )


async def _of_this_node(call: Call) -> Row:
    broker, node = call.broker, call.broker.node
    uptime = broker.clock.monotonic() - node.started_at
    alarms = broker.alarms()
    intake_bytes, intake_bytes_max = broker.intake_bytes()
    return {
        "os_pid": str(node.process_id),
        "uptime": int(uptime * 1_000),
        "processors": os.cpu_count(),
        **_usage_row(await asyncio.to_thread(process_usage)),
        "fd_total": node.file_descriptors_max,
        "sockets_total": node.connections_max,
        "intake_bytes": intake_bytes,
        "intake_bytes_limit": intake_bytes_max,
        "disk_free": broker.space.free,
        "disk_total": broker.space.total,
        "disk_free_limit": broker.space.reserve.size,
        "mem_alarm": any("memory" in alarm for alarm in alarms),
        "disk_free_alarm": any("disk" in alarm for alarm in alarms),
        "files_alarm": any("files" in alarm for alarm in alarms),
        "journal_alarm": any("journal" in alarm for alarm in alarms),
        "log_alarm": bool(broker.log_failure()),
        "data_dir": node.data_dir,
        "db_dir": node.data_dir,
        "standbys": [Standby(**each) for each in broker.cluster.standbys()],
        "rates_mode": "basic",
        **await _of_clients(call),
        "exchange_types": _exchange_types(),
        "auth_mechanisms": [Enabled(name, True) for name in ("PLAIN", "AMQPLAIN")],
        "applications": [Application("routelog", node.version)],
        "enabled_plugins": [],
    }


async def _of_clients(call: Call) -> Row:
    """Of the clients of this node, in all of its processes."""
    broker, statistics, counters = call.broker, call.statistics(), call.broker.vhosts.counters
    messages = statistics.messages(counters.channels)
    if broker.processes():  # then there are no other nodes, which have rows of their own
        totals = await client_totals(call)
        return {
            "sockets_used": totals.connections,
            **totals.churn_rates,
            **await _with_others(call, messages),
        }
    return {
        "sockets_used": broker.connections.count,
        **statistics.churn(counters.churn),
        **messages,
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


@answers(ClusterName)
def cluster_name(call: Call) -> Answer:
    """What clients are told that the cluster is called."""
    return Value(ClusterName(call.broker.cluster_name()))


@changes(ClusterNameBody)
async def put_cluster_name(call: Call) -> Answer:
    """Name the cluster: clients are told when they connect."""
    body = await call.body(ClusterNameBody)
    await call.broker.parameters.put(CLUSTER_NAME, body.name)
    return Empty()


@answers(list[str])
def extensions(call: Call) -> Answer:
    """Plugins of the management page: none."""
    return Value([])


def _exchange_types() -> list[ExchangeType]:
    return [ExchangeType(name, True, "") for name in sorted(EXCHANGE_TYPES)]


def _listeners(call: Call) -> list[Listener]:
    node = call.broker.node
    return [
        Listener(node.name, protocol, host, port)
        for protocol, (host, port) in node.listeners.items()
    ]


def _contexts(call: Call) -> list[Context]:
    node = call.broker.node
    return [
        Context(node.name, "RouteLog Management", "/", host, str(port))  # a text, as RabbitMQ's
        for protocol, (host, port) in node.listeners.items()
        if protocol in ("http", "https")
    ]


# -- health


@answers(Healthy, failure=Unhealthy)
def check_alarms(call: Call) -> Answer:
    """Whether publishers wait for something."""
    alarms = call.broker.alarms()
    if not alarms:
        return Value(Healthy(status="ok"))
    return failed("There are alarms in effect in the cluster", alarms=alarm_rows(call, alarms))


@answers(Healthy, failure=Unhealthy)
def check_node(call: Call) -> Answer:
    """As `check_alarms`, if the node has this name."""
    if call.path("name") != call.broker.node.name:
        raise not_found("node", call.path("name"))
    return check_alarms(call)


@answers(Healthy, failure=Unhealthy)
def check_ok(call: Call) -> Answer:
    """Always well: what could be unwell is not there, or stops the broker."""
    return Value(Healthy(status="ok"))


@answers(Healthy, failure=Unhealthy)
def check_ready(call: Call) -> Answer:
    """Whether all processes of the node take clients; one that is alone does, or it would not answer."""
    away = [each.number for each in call.broker.processes() if not each.is_ready]
    if away:
        numbers = ", ".join(map(str, away))
        return failed(f"processes that are away, or silent: {numbers}")
    return Value(Healthy(status="ok"))


@answers(Healthy, failure=Unhealthy)
async def check_certificates(call: Call) -> Answer:
    """Whether no certificate that clients or other nodes are shown expires within a time, at any node."""
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
            "ip_address": node.listeners.get(protocol, _NOWHERE)[0],
            "port": node.listeners.get(protocol, _NOWHERE)[1],
            "certfile": str(file),
            "certfile_expires_on": f"{expiry:%Y-%m-%d %H:%M:%S}",
        }
        for protocol, expiries in call.broker.expiries().items()
        for file, expiry in expiries.items()
        if expiry - now < within
    ]
    others = await other_nodes(call, CERTIFICATES)
    for other in others.values(_Expired):
        # Processes of one node have the same certificates.
        expired += [each for each in other.expired if each not in expired]
    reasons = ["Certificates expiring"] if expired else []
    reasons += others.missing()
    if not reasons:
        return Value(Healthy(status="ok"))
    return failed("; ".join(reasons), expired=expired)


@answers(Healthy, failure=Unhealthy)
def check_quorum(call: Call) -> Answer:
    """Whether confirms would stop with this node, which leads."""
    return _unless_critical(
        call,
        "There are quorum queues that would lose their quorum if the target node is shut down",
    )


@answers(Healthy, failure=Unhealthy)
def check_mirrors(call: Call) -> Answer:
    """The same, as was asked of mirrored queues."""
    return _unless_critical(
        call, "There are classic mirrored queues without online synchronised mirrors"
    )


def _unless_critical(call: Call, reason: str) -> Answer:
    broker, replicas = call.broker, call.broker.cluster.replicas()
    if len(replicas) == 1:
        return Value(Healthy(status="ok", reason="single node cluster"))
    whole = [each for each in replicas if each.is_running and not each.is_damaged]
    left = [each for each in whole if each.is_in_sync]
    if sum(each.name != broker.node.name for each in left) >= broker.cluster.min_in_sync:
        return Value(Healthy(status="ok"))
    queues = (
        {
            "readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'",
            "name": queue.name,
            "virtual_host": queue.vhost,
            "type": queue.type,
        }
        for vhost in call.seen_vhosts()
        for queue in vhost.queues.values()
        if queue.properties.durable
    )
    return failed(reason, queues=list(islice(queues, CRITICAL_QUEUES_MAX)))


_PORT = re.compile(r"[+-]?[0-9]{1,9}")  # RabbitMQ's: any whole number


@answers(Healthy, failure=Unhealthy)
def check_port(call: Call) -> Answer:
    """Whether somebody listens on a port."""
    text = call.path("port")
    if _PORT.fullmatch(text) is None:
        raise bad_request("Invalid port")
    port = int(text)
    ports = [listening for _, listening in call.broker.node.listeners.values()]
    if port in ports:
        return Value(Healthy(status="ok", port=port))
    return failed("No active listener", missing=port, ports=ports)


@answers(Healthy, failure=Unhealthy)
def check_protocol(call: Call) -> Answer:
    """Whether a protocol is spoken."""
    protocol = call.path("protocol")
    protocols = list(call.broker.node.listeners)
    if _PROTOCOLS.get(protocol.lower(), protocol.lower()) in protocols:
        return Value(Healthy(status="ok", protocol=protocol))
    return failed("No active listener", missing=protocol, protocols=protocols)


@answers(Healthy, failure=Unhealthy)
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
    queue = await value_of(vhost.declare_queue(QueueProperties(ALIVENESS_QUEUE), call))
    messages = call.broker.messages
    await messages.publish(vhost, caller.user, "", ALIVENESS_QUEUE, {}, b"test_message")
    if not list(await messages.take(queue, 1, Reason.ACKED)):
        raise Refused(503, "failed", "the message did not come back")
    return Value(Healthy(status="ok"))
