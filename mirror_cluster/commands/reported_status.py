"""The status of a cluster whose etcd does not answer: what each node that can be reached says of itself."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from routelog.mirror_cluster.commands.cluster_status import cluster_status
from routelog.mirror_cluster.commands.verification import OPERATOR
from routelog.mirror_cluster.coordination.coordinator import ClusterView
from routelog.mirror_cluster.links.node_report import NodeReport, ask_node
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.node.incarnation import new_number
from routelog.mirror_cluster.protocol.shard_record import (
    SHARD,
    BadRecord,
    ShardRecord,
    decode_record,
)

Answers = Mapping[str, NodeReport | str]  # by node; text: why it gave none


async def ask_nodes(options: ClusterOptions) -> Answers:
    """Ask all nodes at once."""
    names = list(options.addresses)
    answers = await asyncio.gather(*(_answer(options, name) for name in names))
    return dict(zip(names, answers, strict=True))


async def _answer(options: ClusterOptions, name: str) -> NodeReport | str:
    address = options.addresses[name]
    try:
        return await ask_node(
            options.name, OPERATOR, new_number(), name, address, options.secret, options.tls
        )
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        return f"cannot be reached: {error or 'no answer in time'}"


def reported_status(options: ClusterOptions, answers: Answers, problem: str) -> dict[str, Any]:
    """As `cluster_status`, with what each node says.

    Args:
        problem: with etcd, in words.
    """
    reports = {name: each for name, each in answers.items() if isinstance(each, NodeReport)}
    told = cluster_status(options, ClusterView(0, _newest(reports)))
    for row in told["nodes"]:
        answer = answers.get(row["node"], "is not in cluster_nodes")
        row["alive"] = row["node"] in reports
        row["says"] = answer.told() if isinstance(answer, NodeReport) else answer
    leading = [name for name, each in reports.items() if each.takes_clients]
    for row in told["shards"]:
        row["led"] = row["leader"] in leading
    now = "nobody leads"
    if leading:
        now = f"{', '.join(leading)} goes on, as no other node can lead"
    elif options.is_managed:
        now = "without a majority of its members nobody leads"
    asked = f"{len(reports)} of {len(answers)} nodes answer"
    told["summary"] = f"etcd does not answer: {now}; {asked} ({problem})"
    return told


def _newest(reports: Mapping[str, NodeReport]) -> dict[int, ShardRecord]:
    seen = [each for each in reports.values() if each.record]
    if not seen:
        return {}
    newest = max(seen, key=lambda each: each.revision)
    try:
        return {SHARD: decode_record(newest.record, newest.revision)}
    except BadRecord:
        return {}  # a later version's: who asks cannot read it
