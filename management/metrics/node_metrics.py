"""Metrics of a node: its process, its disk, its alarms, its journal, and the copies of that."""

from collections.abc import Iterator, Sequence

from routelog.broker import ProcessState
from routelog.management.calls.broker_side import WatchedBroker
from routelog.management.calls.process_usage import ProcessUsage, process_cost
from routelog.management.metrics.metric import (
    Groups,
    Metric,
    head,
    histogram_text,
    labelled,
    sample_text,
)
from routelog.management.metrics.watched import WatchedNode
from routelog.vhosts import RABBITMQ_VERSION

PROCESS_METRICS: Groups[ProcessUsage] = {
    "node_coarse_metrics": (
        Metric("rabbitmq_process_open_fds", "Open file descriptors", lambda usage: usage.files),
        Metric(
            "rabbitmq_process_resident_memory_bytes",
            "Resident memory of the process",
            lambda usage: usage.memory_bytes,
        ),
    ),
    "node_metrics": (
        Metric(
            "rabbitmq_resident_memory_limit_bytes",
            "Memory of the machine, or of its control group",
            lambda usage: usage.memory_bytes_max,
        ),
    ),
}

NODE_METRICS: Groups[WatchedNode] = {
    "node_coarse_metrics": (
        Metric(
            "rabbitmq_process_open_tcp_sockets",
            "Sockets of AMQP clients",
            lambda node: node.sockets(),
        ),
        Metric(
            "rabbitmq_disk_space_available_bytes",
            "Free space where the data are",
            lambda node: node.space.free,
        ),
    ),
    "node_metrics": (
        Metric(
            "rabbitmq_process_max_fds",
            "Limit of open file descriptors",
            lambda node: node.file_descriptors_max,
        ),
        Metric(
            "rabbitmq_process_max_tcp_sockets",
            "Limit of sockets of AMQP clients",
            lambda node: node.sockets_max,
        ),
        Metric(
            "rabbitmq_disk_space_available_limit_bytes",
            "Free space below which publishers wait",
            lambda node: node.space.reserve.size,
        ),
        Metric(
            "rabbitmq_erlang_uptime_seconds",
            "Time since the node started, under the name that boards ask for",
            lambda node: node.clock.monotonic() - node.started_at,
        ),
    ),
}

ALARM_METRICS: tuple[Metric[WatchedNode], ...] = (
    Metric(
        "rabbitmq_alarms_file_descriptor_limit",
        "1: no more AMQP clients can connect, or publishers wait for a file that cannot be opened",
        lambda node: int(node.sockets() >= node.sockets_max or "files" in node.alarms()),
    ),
    Metric(
        "rabbitmq_alarms_free_disk_space_watermark",
        "1: publishers wait for free space",
        lambda node: int("disk" in node.alarms()),
    ),
    Metric(
        "rabbitmq_alarms_memory_used_watermark",
        "1: publishers wait for memory",
        lambda node: int("memory" in node.alarms()),
    ),
    Metric(
        "routelog_alarms_journal",
        "1: publishers wait for a slow disk, or for other nodes",
        lambda node: int("journal" in node.alarms()),
    ),
    Metric(
        "routelog_alarms_log",
        "1: a write or sync failed; persistent messages are refused until a restart",
        lambda node: int(bool(node.journal.failure)),
    ),
)

OWN_METRICS: tuple[Metric[WatchedNode], ...] = (
    Metric(
        "routelog_takes_clients",
        "1: clients of this node are served; 0: it knows no leader",
        lambda node: int(node.broker() is not None),
    ),
    Metric(
        "routelog_event_loop_held_seconds",
        "Longest time of the last minute that all clients waited for the processor",
        lambda node: node.held_seconds(),
    ),
    Metric(
        "routelog_journal_written_position",
        "Last block of the journal that the system has",
        lambda node: node.journal.written,
    ),
    Metric(
        "routelog_journal_durable_position",
        "Last block of the journal that is synced",
        lambda node: node.journal.durable,
    ),
    Metric(
        "routelog_journal_committed_position",
        "Last block of the journal that nothing can take back",
        lambda node: node.journal.committed,
    ),
    Metric(
        "routelog_compaction_passes_total",
        "Passes over logs that keep the last message of each key",
        lambda node: node.compactor.passes,
    ),
    Metric(
        "routelog_compaction_failures_total",
        "Passes that did not come to their end",
        lambda node: node.compactor.failures,
    ),
    Metric(
        "routelog_compaction_removed_messages_total",
        "Messages that passes have removed",
        lambda node: node.compactor.removed,
    ),
    Metric(
        "routelog_replicas",
        "Nodes of the cluster",
        lambda node: len(node.cluster.replicas()),
    ),
    Metric(
        "routelog_replicas_in_sync",
        "Nodes that run and have all that was confirmed",
        lambda node: sum(each.is_running and each.is_in_sync for each in node.cluster.replicas()),
    ),
)


def identity_text(node: WatchedNode) -> Iterator[str]:
    """Who this is; dashboards join it with everything else."""
    builds = {
        "rabbitmq_version": RABBITMQ_VERSION,
        "prometheus_plugin_version": node.version,
        "product_name": "RouteLog",
        "product_version": node.version,
    }
    identity = {"rabbitmq_node": node.name, "rabbitmq_cluster": node.cluster_name()}
    for name, meaning, labels in (
        ("rabbitmq_build_info", "Versions", builds),
        ("rabbitmq_identity_info", "Names of the node and of its cluster", identity),
    ):
        yield sample_text(name, "gauge", meaning, 1, labelled(labels))


def labelled_text(node: WatchedNode) -> Iterator[str]:
    """Metrics of what a node has several of: replicas, standbys, certificates."""
    behind = [
        ({"replica": each.name}, each.blocks_behind)
        for each in node.cluster.replicas()
        if each.name != node.name and each.blocks_behind is not None
    ]
    name = "routelog_replica_blocks_behind"
    yield _samples(name, "Blocks that a replica may not have on its disk", behind)
    standbys = node.cluster.standbys()
    for key in ("bytes", "seconds"):
        values = [({"standby": str(each["name"])}, each[key]) for each in standbys]
        yield _samples(f"routelog_standby_{key}_behind", "What a standby lacks", values)
    expiries = [
        ({"protocol": protocol, "file": str(file)}, expiry.timestamp())
        for protocol, files in node.expiries().items()
        for file, expiry in files.items()
    ]
    name = "routelog_certificate_expiry_timestamp_seconds"
    yield _samples(name, "When a certificate that clients are shown expires", expiries)
    yield from _processes_text(node.processes())
    yield histogram_text(
        "routelog_journal_sync_seconds",
        "Writing and syncing of a block of the journal",
        node.journal.sync_times,
    )


def measures_text(broker: WatchedBroker) -> Iterator[str]:
    """How long clients waited, and what for."""
    waits = [
        ({"kind": rate.kind, "name": rate.name}, rate.waited_seconds)
        for rate in broker.publish_rates.limited
    ]
    name = "routelog_publish_rate_waited_seconds_total"
    meaning = "Time that connections have waited for the publish rate of a user or a vhost"
    yield _samples(name, meaning, waits, "counter")
    yield histogram_text(
        "routelog_publish_confirm_seconds",
        "From a run of publishes to its confirm, of one run at a time",
        broker.confirm_latencies,
    )
    yield histogram_text(
        "routelog_message_delivery_seconds",
        "From publishing to the first delivery, of one delivery of a consumer in 64",
        broker.delivery_waits,
    )
    yield histogram_text(
        "routelog_message_size_bytes",
        "The body of a message, of one delivery of a consumer in 64",
        broker.message_sizes,
    )


def _processes_text(processes: Sequence[ProcessState]) -> Iterator[str]:
    known = [(each, process_cost(each.process) if each.process else None) for each in processes]
    costs = [({"process": str(each.number)}, cost) for each, cost in known if cost is not None]
    up = [({"process": str(each.number)}, float(each.is_ready)) for each in processes]
    connections = [({"process": str(each.number)}, each.connections) for each in processes]
    name = "routelog_process"
    yield _samples(f"{name}_up", "1: this process of the node takes clients; 0: it is away", up)
    yield _samples(f"{name}_connections", "AMQP clients of a process", connections)
    yield _samples(
        f"{name}_resident_memory_bytes",
        "Resident memory of a process; what several share counts in each",
        [(labels, cost.memory_bytes) for labels, cost in costs],
    )
    yield _samples(
        f"{name}_cpu_seconds_total",
        "Processor time that a process has taken",
        [(labels, cost.processor_seconds) for labels, cost in costs],
        "counter",
    )


def _samples(
    name: str, meaning: str, samples: Sequence[tuple[dict[str, str], float]], kind: str = "gauge"
) -> str:
    if not samples:
        return ""
    lines = (f"{name}{labelled(labels)} {value}\n" for labels, value in samples)
    return head(name, kind, meaning) + "".join(lines)
