"""What the coordinator holds of a cluster, for people and programs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from routelog.mirror_cluster.coordination.coordinator import ClusterView
from routelog.mirror_cluster.coordination.refused_record import refused, refusing
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.protocol.shard_record import SHARD, ShardRecord


def is_led(record: ShardRecord, view: ClusterView) -> bool:
    """Whether the process that leads is alive."""
    leader = view.nodes.get(record.leader)
    return leader is not None and leader.process == record.claim


def alive_in_sync(record: ShardRecord, view: ClusterView) -> frozenset[str]:
    """Members of the in-sync set that are alive, with the disks that are meant."""
    return frozenset(
        node
        for node, incarnation in record.members
        if node in view.nodes and view.nodes[node].incarnation == incarnation
    )


def cluster_status(options: ClusterOptions, view: ClusterView) -> dict[str, Any]:
    """Who leads, who has everything, who is alive, and in words what that means."""
    nodes = [
        {
            "node": name,
            "address": view.nodes[name].address if name in view.nodes else address,
            "alive": name in view.nodes,
            "replica": any(name in record.replicas for record in view.records.values()),
            "in_sync": bool(view.records)
            and all(name in record.in_sync for record in view.records.values()),
            "damaged": name in view.nodes and view.nodes[name].is_damaged,
            "refuses": name in refusing(view.notes(SHARD)),
            "since": _moment(view.nodes[name].since) if name in view.nodes else "",
        }
        for name, address in _addresses(options, view).items()
    ]
    shards: list[dict[str, Any]] = [
        {
            "shard": shard,
            "leader": record.leader,
            "led": is_led(record, view),
            "epoch": record.epoch,
            "in_sync": sorted(record.in_sync),
            "replicas": list(record.replicas),
            "unclean": record.unclean,
            "min_in_sync": options.min_in_sync,
            "since": _moment(record.changed_at),
        }
        for shard, record in sorted(view.records.items())
    ]
    # A node that has died is in sync for a moment longer.
    is_well = (
        bool(view.records)
        and all(
            is_led(record, view)
            and alive_in_sync(record, view) == frozenset(record.replicas)
            and not refusing(view.notes(record.shard))
            for record in view.records.values()
        )
        and not any(entry.is_damaged for entry in view.nodes.values())
    )
    return {
        "cluster": options.name,
        "is_well": is_well,
        "summary": in_words(options, view),
        "nodes": nodes,
        "shards": shards,
    }


def _addresses(options: ClusterOptions, view: ClusterView) -> dict[str, str]:
    """Of all nodes that are configured here, alive, or to have copies."""
    replicas = [name for record in view.records.values() for name in record.replicas]
    alive = {name: entry.address for name, entry in sorted(view.nodes.items())}
    others = dict.fromkeys(replicas, "") | alive
    return dict(options.addresses) | {
        name: address for name, address in others.items() if name not in options.addresses
    }


def _moment(microseconds: int) -> str:
    """In UTC, to the second."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_words(options: ClusterOptions, view: ClusterView) -> str:
    """What an operator has to know first, in one sentence."""
    names = list(options.addresses)
    if problem := refused(SHARD, view):
        return f"{_alive(names, view)}: {problem}"
    if not view.records:
        return f"{_alive(names, view)}: {_not_begun(names, view)}"
    record = view.records[min(view.records)]
    told = _alive(record.replicas, view)
    if not is_led(record, view):
        return f"{told}: {_not_led(record, view, options.min_in_sync)}"
    behind = [name for name in record.replicas if name in view.nodes and name not in record.in_sync]
    if behind:
        told += f", {', '.join(behind)} not in sync"
    damaged = [
        name for name in record.replicas if name in view.nodes and view.nodes[name].is_damaged
    ]
    if damaged:
        told += f", damaged queues at {', '.join(damaged)}"
    without = [name for name in sorted(view.nodes) if name not in record.replicas]
    if without:
        told += f", {', '.join(without)} without a copy (`routelog cluster join NODE`)"
    spare = len(alive_in_sync(record, view)) - options.min_in_sync
    if spare < 0:
        return f"{told}: nothing is confirmed until {options.min_in_sync} are in sync"
    if options.is_managed:
        # Its members are the replicas: without most of them nobody gets a lease, and the set stays as it is.
        alive = sum(name in view.nodes for name in record.replicas)
        spare = min(spare, max(0, alive - len(record.replicas) // 2 - 1))
    failures = "one more failure stops" if spare == 0 else f"{spare} may fail without stopping"
    return f"{told}: confirms go on, {failures} them"


def _alive(names: Sequence[str], view: ClusterView) -> str:
    alive = sum(name in view.nodes for name in names)
    return f"{alive} of {len(names)} nodes alive"


def _not_begun(names: list[str], view: ClusterView) -> str:
    missing = [name for name in names if name not in view.nodes]
    if missing:
        return f"the cluster begins when all are there; {', '.join(missing)} missing"
    return "the cluster has not begun; if several have data: `routelog cluster init --from NODE`"


def _not_led(record: ShardRecord, view: ClusterView, min_in_sync: int) -> str:
    if alive := alive_in_sync(record, view):
        if all(view.nodes[name].is_damaged for name in alive) and alive != record.in_sync:
            names = ", ".join(sorted(record.in_sync - alive))
            return (
                f"nobody leads: {', '.join(sorted(alive))} has damaged queues. Start {names},"
                " or lose these queues: `routelog cluster recover --accept-loss NODE`"
            )
        few = sum(name in view.nodes for name in record.replicas) < min_in_sync
        why = f"until {min_in_sync} are alive" if few else "an election is under way"
        return f"nobody leads; {why}"
    names = ", ".join(sorted(record.in_sync))
    return (
        f"nobody leads, and only {names} had everything: start one of them,"
        " or lose what the others lack: `routelog cluster recover --accept-loss NODE`"
    )
