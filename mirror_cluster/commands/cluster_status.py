"""What the coordinator holds of a cluster, for people and programs."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from routelog.mirror_cluster.coordination.coordinator import ClusterView
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.protocol.shard_record import ShardRecord


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
            "in_sync": bool(view.records)
            and all(name in record.in_sync for record in view.records.values()),
            "since": _moment(view.nodes[name].since) if name in view.nodes else "",
        }
        for name, address in options.addresses.items()
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
    is_well = bool(shards) and all(
        each["led"] and len(each["in_sync"]) == len(each["replicas"]) for each in shards
    )
    return {
        "cluster": options.name,
        "is_well": is_well,
        "summary": in_words(options, view),
        "nodes": nodes,
        "shards": shards,
    }


def _moment(microseconds: int) -> str:
    """In UTC, to the second."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_words(options: ClusterOptions, view: ClusterView) -> str:
    """What an operator has to know first, in one sentence."""
    names = list(options.addresses)
    alive = [name for name in names if name in view.nodes]
    told = f"{len(alive)} of {len(names)} nodes alive"
    if not view.records:
        return f"{told}: {_not_begun(names, view)}"
    record = view.records[min(view.records)]
    if not is_led(record, view):
        return f"{told}: {_not_led(record, view)}"
    behind = [name for name in names if name in alive and name not in record.in_sync]
    if behind:
        told += f", {listed(behind)} not in sync"
    spare = len(alive_in_sync(record, view)) - options.min_in_sync
    if spare < 0:
        return f"{told}: nothing is confirmed until {options.min_in_sync} are in sync"
    failures = "one more failure stops" if spare == 0 else f"{spare} may fail without stopping"
    return f"{told}: confirms go on, {failures} them"


def _not_begun(names: list[str], view: ClusterView) -> str:
    missing = [name for name in names if name not in view.nodes]
    if missing:
        return f"the cluster begins when all are there; {listed(missing)} missing"
    return "the cluster has not begun; if several have data: `routelog cluster init --from NODE`"


def _not_led(record: ShardRecord, view: ClusterView) -> str:
    if alive_in_sync(record, view):
        return "nobody leads; an election is under way"
    return (
        f"nobody leads, and only {listed(sorted(record.in_sync))} had everything: start one of them,"
        " or lose what the others lack: `routelog cluster recover --accept-loss NODE`"
    )


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(names)
